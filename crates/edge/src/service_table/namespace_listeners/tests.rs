use super::*;

#[test]
fn namespace_with_many_listeners_gets_no_more_and_others_do() {
    let (large, small): (Arc<str>, Arc<str>) = ("large".into(), "small".into());
    let mut listeners = NamespaceListeners::of(std::iter::repeat_n(&large, LISTENERS_MAX - 1));
    assert_eq!(listeners.check(&large), Ok(()));
    listeners.add(&large);
    let refusal = listeners.check(&large).unwrap_err();
    assert!(refusal.contains("at most 4096 addresses"), "{refusal}");
    assert_eq!(listeners.check(&small), Ok(()));
}
