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

fn told(pod: &SchedulePod, node: &Node, occupied: &Occupied<'_>) -> String {
    let refusals = refusals(pod, node, occupied);
    let told: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    told.join(", ")
}

fn refused(spec: Value, change: Value) -> String {
    told(&pod(spec), &node(change), &Occupied::default())
}

#[test]
fn a_node_that_is_ready_takes_pods() {
    assert_eq!(refused(json!({}), json!({})), "");
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(refused(json!({}), lost), "node(s) were not ready");
}

#[test]
fn cordoned_nodes_take_only_who_puts_up_with_it() {
    let cordoned = json!({"spec": {"unschedulable": true}});
    assert_eq!(refused(json!({}), cordoned.clone()), "node(s) were unschedulable");
    let tolerations = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    assert_eq!(refused(json!({"tolerations": tolerations}), cordoned), "");
}

#[test]
fn taints_keep_pods_away_that_do_not_tolerate_them() {
    let tainted = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    assert_eq!(
        refused(json!({}), tainted("NoSchedule")),
        "node(s) had untolerated taint {k: v}"
    );
    assert_eq!(refused(json!({}), tainted("PreferNoSchedule")), "");
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
        let refused = refused(json!({"tolerations": [toleration]}), tainted("NoExecute"));
        assert_eq!(refused.is_empty(), is_enough, "{toleration}");
    }
}

#[test]
fn labels_that_are_selected_must_be_there() {
    assert_eq!(refused(json!({"nodeSelector": {"disk": "ssd"}}), json!({})), "");
    assert_eq!(
        refused(json!({"nodeSelector": {"disk": "hdd"}}), json!({})),
        "node(s) didn't match Pod's node affinity/selector"
    );
}

#[test]
fn there_must_be_enough_left() {
    let asks = |requests: Value| pod(json!({"containers": [{"resources": {"requests": requests}}]}));
    let occupied = |pods, cpu_millis, memory_bytes| Occupied {
        pods,
        resources: Resources {
            cpu_millis,
            memory_bytes,
        },
        ..Occupied::default()
    };
    let half = asks(json!({"cpu": "500m", "memory": "512Mi"}));
    assert_eq!(told(&half, &node(json!({})), &occupied(2, 1_500, 512 << 20)), "");
    assert_eq!(
        told(&half, &node(json!({})), &occupied(3, 1_501, (512 << 20) + 1)),
        "Too many pods, Insufficient cpu, Insufficient memory"
    );
    assert_eq!(
        told(&asks(json!({})), &node(json!({})), &occupied(2, 9_000, 0)),
        ""
    );
}

#[test]
fn what_starting_takes_counts_if_it_is_more() {
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let mut beside = container("300m");
    beside["restartPolicy"] = json!("Always");
    let pod = pod(json!({
        "containers": [container("100m"), {"resources": {"limits": {"cpu": "200m"}}}],
        "initContainers": [beside, container("900m")],
        "overhead": {"cpu": "10m"},
    }));
    assert_eq!(pod.requests().cpu_millis, 1_210);
}

#[test]
fn a_port_of_the_node_is_given_once() {
    let asks = |ip: &str| {
        let port = json!({"hostPort": 80, "hostIP": ip, "protocol": "TCP"});
        pod(json!({"containers": [{"ports": [port]}]}))
    };
    let (first, any) = (asks("192.0.2.1"), asks(""));
    let occupied = Occupied {
        ports: first.host_ports().collect(),
        ..Occupied::default()
    };
    assert_eq!(told(&asks("192.0.2.2"), &node(json!({})), &occupied), "");
    assert!(told(&any, &node(json!({})), &occupied).contains("free ports"));
}

#[test]
fn the_sentence_counts_the_reasons() {
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
