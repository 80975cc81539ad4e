use super::super::up::board::Part;
use super::*;
use serde_json::json;

#[test]
fn each_part_has_a_line_with_its_reason() {
    let part = |is_running, since_seconds, restarts, reason: Option<&str>| Part {
        is_running,
        since_seconds,
        restarts,
        reason: reason.map(str::to_owned),
    };
    let report = Report {
        parts: [
            ("agent".to_owned(), part(true, 9_400, 0, None)),
            ("dns".to_owned(), part(false, 9_995, 3, Some("port 53 is in use"))),
        ]
        .into(),
        ..Report::default()
    };
    let expected = "PART         STATE       FOR       RESTARTS  REASON\n\
                    apiserver    ready\n\
                    node         not ready                       its condition Ready is False; see kubectl describe node\n\
                    agent        running     10m       0\n\
                    dns          restarting  5s        3         port 53 is in use\n";
    let node = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let node: Node = serde_json::from_value(node).expect("a Node");
    let cluster = Cluster {
        api: Ok(()),
        node: readiness(&node).map_err(Failure::from),
    };
    assert_eq!(table(&report, &cluster, 10_000), expected);
}

#[test]
fn a_node_is_well_once_its_agent_says_that_it_is_ready() {
    let mut node = Node::default();
    assert!(readiness(&node).is_err());
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    node.status.conditions = serde_json::from_value(conditions).expect("conditions");
    assert_eq!(readiness(&node), Ok(()));
}
