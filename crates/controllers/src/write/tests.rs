use api::object::{Node, Pod};

use super::*;

#[test]
fn what_is_in_no_namespace_has_none_in_its_path() {
    assert_eq!(path_of::<Node>(&ObjectKey::new("", "n1")), "/api/v1/nodes/n1");
    assert_eq!(
        path_of::<Pod>(&ObjectKey::new("a", "p")),
        "/api/v1/namespaces/a/pods/p"
    );
}
