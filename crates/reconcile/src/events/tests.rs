use super::{CurrentEvents, EventText};

#[test]
fn lasting_events_are_new_once_and_again_after_a_gap() {
    let mut current = CurrentEvents::default();
    let a = || EventText::warning("A", "a".to_owned());
    let b = || EventText::warning("B", "b".to_owned());
    assert_eq!(current.replace(1, vec![a()]), [a()]);
    assert_eq!(current.replace(1, vec![a(), b()]), [b()]);
    assert_eq!(current.replace(2, vec![a()]), [a()], "another topic");
    assert_eq!(current.replace(1, vec![]), []);
    assert_eq!(current.replace(1, vec![a()]), [a()]);
}
