use api::kind::find;

use super::*;

#[test]
fn tokens_come_back_and_others_do_not() {
    let services = find("", "v1", "services").unwrap();
    let nodes = find("", "v1", "nodes").unwrap();
    let token = Continuation::new(Revision(7), "/services/a/b").token();
    let read = Continuation::parse(&token, services).unwrap();
    assert_eq!(
        (read.revision(), read.after()),
        (Some(Revision(7)), "/services/a/b")
    );
    let late = Continuation::parse(&read.at_newest().token(), services).unwrap();
    assert_eq!((late.revision(), late.after()), (None, "/services/a/b"));
    assert!(Continuation::parse(&token, nodes).is_err());
    assert!(Continuation::parse("nonsense", services).is_err());
    assert!(Continuation::parse("", services).is_err());
}
