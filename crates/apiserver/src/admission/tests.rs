use api::kind;
use serde_json::json;

use super::*;

fn target(plural: &str, group: &str, namespace: &str, name: &str) -> Target {
    let kind = kind::find(group, "v1", plural).unwrap();
    Target::object(kind, namespace, name)
}

#[test]
fn a_service_keeps_its_external_ips_and_gets_no_new_ones() {
    let target = target("services", "", "n", "s");
    let with = |ips: serde_json::Value| json!({"metadata": {"name": "s"}, "spec": {"externalIPs": ips}});
    let create = |ips| external_ips::admit(&Attempt::create(&target, None), &with(ips)).is_ok();
    assert!(create(json!([])));
    assert!(!create(json!(["192.0.2.1"])));
    let stored = with(json!(["192.0.2.1", "192.0.2.2"]));
    let update = |ips| external_ips::admit(&Attempt::update(&target, None, &stored), &with(ips)).is_ok();
    assert!(update(json!(["192.0.2.2"])));
    assert!(!update(json!(["192.0.2.2", "192.0.2.3"])));
}

#[test]
fn a_node_writes_about_itself() {
    let admits = |target: &Target, stored: Option<&Value>, object: Value| {
        let attempt = Attempt {
            target,
            requester: None,
            stored,
        };
        node_restriction::admit("n1", &attempt, &object).is_ok()
    };
    let own = target("nodes", "", "", "n1");
    assert!(admits(
        &own,
        Some(&json!({})),
        json!({"metadata": {"name": "n1"}})
    ));
    assert!(!admits(&own, Some(&json!({})), json!({"spec": {"taints": [1]}})));
    let label = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/zone": "x"}}});
    assert!(!admits(&own, Some(&json!({})), label));
    assert!(!admits(
        &target("nodes", "", "", "n2"),
        Some(&json!({})),
        json!({})
    ));
    let new = Target { name: None, ..own };
    assert!(!admits(&new, None, json!({"metadata": {"name": "n2"}})));

    let lease = |namespace, name| target("leases", "coordination.k8s.io", namespace, name);
    assert!(admits(&lease("kube-node-lease", "n1"), None, json!({})));
    assert!(!admits(&lease("kube-node-lease", "n2"), None, json!({})));
    assert!(!admits(&lease("default", "n1"), None, json!({})));

    let pod = target("pods", "", "d", "p").with_subresource("status");
    let on = |node: &str| json!({"spec": {"nodeName": node}});
    assert!(admits(&pod, Some(&on("n1")), on("n1")));
    assert!(!admits(&pod, Some(&on("n2")), on("n1")));
    assert!(!admits(&pod, None, on("n1")));
}
