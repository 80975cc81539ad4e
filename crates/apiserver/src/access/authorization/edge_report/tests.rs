use super::*;
use crate::access::authentication::Identity;

fn is_permitted(user: &str, verb: &'static str, namespace: &str, name: &str) -> bool {
    let user = Identity {
        user: user.to_owned(),
        groups: vec!["system:portolan:edges".to_owned()],
        ..Identity::default()
    };
    let action = Action::Resource {
        verb,
        group: "coordination.k8s.io",
        resource: "leases",
        subresource: "",
        name,
    };
    is_allowed(&Attributes::new(&user, namespace, action))
}

#[test]
fn edge_writes_only_the_lease_of_its_node() {
    let edge = "system:portolan-edge:node-1";
    for verb in ["create", "get", "patch"] {
        assert!(is_permitted(edge, verb, "kube-system", "portolan-edge-node-1"));
        assert!(!is_permitted(edge, verb, "kube-system", "portolan-edge-node-2"));
        assert!(!is_permitted(edge, verb, "default", "portolan-edge-node-1"));
        assert!(!is_permitted(edge, verb, "kube-system", "portolan-announcer"));
        assert!(!is_permitted(edge, verb, "kube-system", ""));
    }
    for verb in ["delete", "update", "list", "watch"] {
        assert!(!is_permitted(edge, verb, "kube-system", "portolan-edge-node-1"));
    }
    assert!(!is_permitted(
        "system:portolan-edge:",
        "patch",
        "kube-system",
        "portolan-edge-"
    ));
    for other in ["system:kube-proxy", "system:portolan-edge"] {
        assert!(!is_permitted(
            other,
            "patch",
            "kube-system",
            "portolan-edge-node-1"
        ));
    }
}

#[test]
fn shared_edge_user_writes_only_leases_of_edges() {
    let shared = "system:serviceaccount:kube-system:portolan-edge";
    assert!(is_permitted(
        shared,
        "patch",
        "kube-system",
        "portolan-edge-node-2"
    ));
    assert!(!is_permitted(shared, "patch", "kube-system", "portolan-balancer"));
}
