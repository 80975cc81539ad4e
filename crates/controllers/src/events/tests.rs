use super::{Finding, Told};

#[test]
fn what_lasts_is_told_once_and_told_again_when_it_comes_back() {
    let mut told = Told::default();
    let a = || Finding::warning("A", "a".to_owned());
    let b = || Finding::warning("B", "b".to_owned());
    assert_eq!(told.news(1, vec![a()]), [a()]);
    assert_eq!(told.news(1, vec![a(), b()]), [b()]);
    assert_eq!(told.news(2, vec![a()]), [a()], "another topic");
    assert_eq!(told.news(1, vec![]), []);
    assert_eq!(told.news(1, vec![a()]), [a()]);
}
