use serde_json::{Value, json};

use super::*;

fn node(change: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": "a", "labels": {"disk": "ssd"}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"},
        },
    });
    for (field, value) in change.as_object().expect("fields") {
        node[field] = value.clone();
    }
    serde_json::from_value(node).expect("a Node")
}

fn pod(spec: Value) -> SchedulePod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a Pod")
}

fn reasons_against(pod: &SchedulePod, node: &Node, usage: &NodeUsage<'_>) -> String {
    let refusals = refusals(pod, node, usage);
    let reasons: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    reasons.join(", ")
}

fn all_reasons(spec: Value, change: Value) -> String {
    reasons_against(&pod(spec), &node(change), &NodeUsage::default())
}

#[test]
fn ready_nodes_accept_pods() {
    assert_eq!(all_reasons(json!({}), json!({})), "");
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(all_reasons(json!({}), lost), "node(s) were not ready");
}

#[test]
fn cordoned_nodes_accept_only_tolerating_pods() {
    let cordoned = json!({"spec": {"unschedulable": true}});
    assert_eq!(
        all_reasons(json!({}), cordoned.clone()),
        "node(s) were unschedulable"
    );
    let tolerations = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    assert_eq!(all_reasons(json!({"tolerations": tolerations}), cordoned), "");
}

#[test]
fn untolerated_taints_reject_pods() {
    let tainted = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    assert_eq!(
        all_reasons(json!({}), tainted("NoSchedule")),
        "node(s) had untolerated taint {k: v}"
    );
    assert_eq!(all_reasons(json!({}), tainted("PreferNoSchedule")), "");
    for (toleration, is_enough) in [
        (json!({"key": "k", "value": "v"}), true),
        (json!({"key": "k", "operator": "Equal", "value": "w"}), false),
        (
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
            true,
        ),
        (
            json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}),
            false,
        ),
        (json!({"operator": "Exists"}), true),
        (json!({}), false),
    ] {
        let all_reasons = all_reasons(json!({"tolerations": [toleration]}), tainted("NoExecute"));
        assert_eq!(all_reasons.is_empty(), is_enough, "{toleration}");
    }
}

#[test]
fn node_selectors_must_match() {
    assert_eq!(
        all_reasons(json!({"nodeSelector": {"disk": "ssd"}}), json!({})),
        ""
    );
    assert_eq!(
        all_reasons(json!({"nodeSelector": {"disk": "hdd"}}), json!({})),
        "node(s) didn't match Pod's node affinity/selector"
    );
}

#[test]
fn node_affinity_is_bounded() {
    let others: Vec<String> = (0..5_000).map(|number| format!("node-{number}")).collect();
    let all_reasons_for = |values: &[String]| {
        let requirement = json!({"key": "metadata.name", "operator": "NotIn", "values": values});
        let terms = json!([{"matchFields": [requirement]}]);
        let required = json!({"nodeSelectorTerms": terms});
        let node_affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
        all_reasons(json!({"affinity": {"nodeAffinity": node_affinity}}), json!({}))
    };
    // The term and its requirement count, too.
    assert_eq!(all_reasons_for(&others[..4_094]), "");
    assert_eq!(
        all_reasons_for(&others[..4_095]),
        "pod's node affinity exceeded 4096 terms, requirements and values"
    );
}

#[test]
fn insufficient_resources_reject_pods() {
    let asks = |requests: Value| pod(json!({"containers": [{"resources": {"requests": requests}}]}));
    let usage = |pods, cpu_millis, memory_bytes| NodeUsage {
        pods,
        resources: Resources {
            cpu_millis,
            memory_bytes,
        },
        ..NodeUsage::default()
    };
    let half = asks(json!({"cpu": "500m", "memory": "512Mi"}));
    assert_eq!(
        reasons_against(&half, &node(json!({})), &usage(2, 1_500, 512 << 20)),
        ""
    );
    assert_eq!(
        reasons_against(&half, &node(json!({})), &usage(3, 1_501, (512 << 20) + 1)),
        "Too many pods, Insufficient cpu, Insufficient memory"
    );
    assert_eq!(
        reasons_against(&asks(json!({})), &node(json!({})), &usage(2, 9_000, 0)),
        ""
    );
}

#[test]
fn init_containers_count_if_they_request_more() {
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let mut sidecars = container("300m");
    sidecars["restartPolicy"] = json!("Always");
    let pod = pod(json!({
        "containers": [container("100m"), {"resources": {"limits": {"cpu": "200m"}}}],
        "initContainers": [sidecars, container("900m")],
        "overhead": {"cpu": "10m"},
    }));
    assert_eq!(pod.requests().cpu_millis, 1_210);
}

#[test]
fn negative_requests_free_no_capacity() {
    let container = json!({"resources": {"requests": {"cpu": "-5", "memory": "-1Gi"}}});
    let pod = pod(json!({"containers": [container], "overhead": {"cpu": "-1"}}));
    assert_eq!(pod.requests(), Resources::default());
}

#[test]
fn host_ports_conflict() {
    let asks = |ip: &str| {
        let port = json!({"hostPort": 80, "hostIP": ip, "protocol": "TCP"});
        pod(json!({"containers": [{"ports": [port]}]}))
    };
    let (first, any) = (asks("192.0.2.1"), asks(""));
    let usage = NodeUsage {
        ports: first.host_ports().collect(),
        ..NodeUsage::default()
    };
    assert_eq!(reasons_against(&asks("192.0.2.2"), &node(json!({})), &usage), "");
    assert!(reasons_against(&any, &node(json!({})), &usage).contains("free ports"));
    assert!(reasons_against(&asks("0.0.0.0"), &node(json!({})), &usage).contains("free ports"));
    assert_eq!(reasons_against(&asks("::"), &node(json!({})), &usage), "");
    let ipv6 = asks("2001:db8::1");
    let usage_of_ipv6 = NodeUsage {
        ports: ipv6.host_ports().collect(),
        ..NodeUsage::default()
    };
    let same_address = asks("2001:0db8::1");
    assert!(reasons_against(&same_address, &node(json!({})), &usage_of_ipv6).contains("free ports"));
    let init = |policy: &str| {
        let ports = json!([{"hostPort": 80, "protocol": "TCP"}]);
        pod(json!({"initContainers": [{"restartPolicy": policy, "ports": ports}]}))
    };
    assert!(reasons_against(&init("Always"), &node(json!({})), &usage).contains("free ports"));
    assert_eq!(reasons_against(&init(""), &node(json!({})), &usage), "");
}

#[test]
fn message_counts_the_reasons() {
    let tainted = Refusal::Tainted {
        key: "k".to_owned(),
        value: String::new(),
    };
    let refusals = [
        Refusal::Insufficient("cpu"),
        tainted,
        Refusal::Insufficient("cpu"),
    ];
    assert_eq!(
        summary(3, &refusals),
        "0/3 nodes are available: 1 node(s) had untolerated taint {k: }, 2 Insufficient cpu."
    );
    assert_eq!(summary(0, &[]), "no nodes available to schedule pods");
}
