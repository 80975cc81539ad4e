use super::{CurrentFindings, Finding};

#[test]
fn lasting_findings_are_new_once_and_again_after_they_were_gone() {
    let mut current = CurrentFindings::default();
    let a = || Finding::warning("A", "a".to_owned());
    let b = || Finding::warning("B", "b".to_owned());
    assert_eq!(current.replace(1, vec![a()]), [a()]);
    assert_eq!(current.replace(1, vec![a(), b()]), [b()]);
    assert_eq!(current.replace(2, vec![a()]), [a()], "another topic");
    assert_eq!(current.replace(1, vec![]), []);
    assert_eq!(current.replace(1, vec![a()]), [a()]);
}
