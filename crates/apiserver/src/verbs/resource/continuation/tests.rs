use api::kind::find;

use super::*;

#[test]
fn accepts_only_its_own_tokens_for_the_same_kind() {
    let services = find("", "v1", "services").unwrap();
    let nodes = find("", "v1", "nodes").unwrap();
    let token = Continuation::new(Revision(7), "/services/a/b").token();
    let parsed = Continuation::parse(&token, services).unwrap();
    assert_eq!(
        (parsed.revision(), parsed.after()),
        (Some(Revision(7)), "/services/a/b")
    );
    let newest = Continuation::parse(&parsed.at_newest().token(), services).unwrap();
    assert_eq!((newest.revision(), newest.after()), (None, "/services/a/b"));
    assert!(Continuation::parse(&token, nodes).is_err());
    let failure = Continuation::parse("nonsense", services).expect_err("the token is not valid");
    let start = "invalid continue token: continue key is not valid: ";
    assert!(failure.message().starts_with(start), "{}", failure.message());
    assert!(Continuation::parse("", services).is_err());
}
