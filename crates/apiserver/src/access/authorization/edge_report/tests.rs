use super::*;
use crate::access::authentication::Identity;

fn may(user: &str, verb: &'static str, namespace: &str, name: &str) -> bool {
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
    allows(&Attributes::new(&user, namespace, action))
}

#[test]
fn an_edge_writes_the_lease_of_its_node_alone() {
    let edge = "system:portolan-edge:node-1";
    for verb in ["create", "get", "patch"] {
        assert!(may(edge, verb, "kube-system", "portolan-edge-node-1"));
        assert!(!may(edge, verb, "kube-system", "portolan-edge-node-2"));
        assert!(!may(edge, verb, "default", "portolan-edge-node-1"));
        assert!(!may(edge, verb, "kube-system", "portolan-announcer"));
        assert!(!may(edge, verb, "kube-system", ""));
    }
    for verb in ["delete", "update", "list", "watch"] {
        assert!(!may(edge, verb, "kube-system", "portolan-edge-node-1"));
    }
    assert!(!may(
        "system:portolan-edge:",
        "patch",
        "kube-system",
        "portolan-edge-"
    ));
    for other in ["system:kube-proxy", "system:portolan-edge"] {
        assert!(!may(other, "patch", "kube-system", "portolan-edge-node-1"));
    }
}

#[test]
fn an_edge_that_shares_its_user_writes_leases_of_edges_alone() {
    let shared = "system:serviceaccount:kube-system:portolan-edge";
    assert!(may(shared, "patch", "kube-system", "portolan-edge-node-2"));
    assert!(!may(shared, "patch", "kube-system", "portolan-balancer"));
}
