use super::*;

fn user(name: &str, groups: &[&str]) -> Identity {
    Identity {
        user: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..Identity::default()
    }
}

fn schema(name: &str, groups: &[&str], verb: &str, group: &str, resource: &str) -> &'static str {
    let subject = Subject {
        verb,
        group,
        resource,
    };
    FlowSchema::of(&user(name, groups), subject).name()
}

#[test]
fn requests_match_the_schemas_of_upstream() {
    const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
    let of_pods = |name: &str, groups: &[&str]| schema(name, groups, "list", "", "pods");
    let of_leases = |name: &str, groups: &[&str]| schema(name, groups, "update", LEASES.0, LEASES.1);
    let nodes = ["system:nodes", AUTHENTICATED];
    assert_eq!(of_pods("admin", &["system:masters"]), "exempt");
    assert_eq!(of_pods("system:node:a", &nodes), "system-nodes");
    assert_eq!(of_leases("system:node:a", &nodes), "system-node-high");
    assert_eq!(
        schema("system:node:a", &nodes, "patch", "", "nodes"),
        "system-node-high"
    );
    let manager = "system:kube-controller-manager";
    assert_eq!(of_pods(manager, &[AUTHENTICATED]), "kube-controller-manager");
    assert_eq!(of_leases(manager, &[AUTHENTICATED]), "system-leader-election");
    assert_eq!(
        schema(manager, &[], "update", "", "endpoints"),
        "endpoint-controller"
    );
    let account = [SERVICE_ACCOUNTS, AUTHENTICATED];
    let in_kube_system = "system:serviceaccount:kube-system:x";
    assert_eq!(of_pods(in_kube_system, &account), "kube-system-service-accounts");
    assert_eq!(of_leases(in_kube_system, &account), "workload-leader-election");
    let pods_own = "system:serviceaccount:default:default";
    assert_eq!(of_pods(pods_own, &account), "service-accounts");
    assert_eq!(of_leases(pods_own, &account), "service-accounts");
    for part in [
        "system:portolan-edge",
        "system:portolan-edge:a",
        "system:kube-proxy",
        "system:kube-dns:a",
    ] {
        assert_eq!(of_pods(part, &[AUTHENTICATED]), "portolan-parts", "{part}");
    }
    for other in ["ann", "system:kube-proxyish"] {
        assert_eq!(of_pods(other, &[AUTHENTICATED]), "global-default", "{other}");
    }
    assert_eq!(
        of_pods("system:anonymous", &["system:unauthenticated"]),
        "global-default"
    );
    assert_eq!(of_pods("nobody", &[]), "catch-all");
}

#[test]
fn all_levels_except_exempt_have_shares() {
    for level in PriorityLevel::ALL {
        assert_eq!(
            level.shares() == 0,
            level == PriorityLevel::Exempt,
            "{}",
            level.name()
        );
    }
    for schema in FlowSchema::ALL {
        assert!(PriorityLevel::ALL.contains(&schema.level()), "{}", schema.name());
    }
}
