use api::object::{Node, Pod};

use super::*;

#[test]
fn paths_of_cluster_scoped_objects_have_no_namespace() {
    assert_eq!(path_of::<Node>(&ObjectKey::new("", "n1")), "/api/v1/nodes/n1");
    assert_eq!(
        path_of::<Pod>(&ObjectKey::new("a", "p")),
        "/api/v1/namespaces/a/pods/p"
    );
}
