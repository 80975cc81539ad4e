use std::time::{Duration, Instant};

use api::object::Node;
use serde_json::json;

use super::Heartbeats;

fn node(uid: &str, heartbeat: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": uid},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}}))
    .expect("a Node")
}

#[test]
fn unchanged_timestamps_are_not_heartbeats() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut heartbeat = Heartbeats::default();
    let time_since_heartbeat = |heartbeat: &Heartbeats, now| {
        heartbeat
            .time_since_heartbeat("n", at(now))
            .map(|time_since_heartbeat| time_since_heartbeat.as_secs())
    };
    heartbeat.lease("n", "t1", at(0));
    heartbeat.node(&node("a", "h1"), at(1));
    assert_eq!(time_since_heartbeat(&heartbeat, 5), Some(4));
    heartbeat.node(&node("a", "h1"), at(5));
    heartbeat.lease("n", "t1", at(5));
    assert_eq!(
        time_since_heartbeat(&heartbeat, 6),
        Some(5),
        "an unchanged renewal time is not a heartbeat"
    );
    // A renew time in the past also counts, because clocks are set.
    heartbeat.lease("n", "t0", at(6));
    assert_eq!(time_since_heartbeat(&heartbeat, 8), Some(2));
    heartbeat.node(&node("a", "h2"), at(8));
    assert_eq!(time_since_heartbeat(&heartbeat, 9), Some(1));
    heartbeat.node(&node("b", "h2"), at(12));
    assert_eq!(
        time_since_heartbeat(&heartbeat, 12),
        Some(0),
        "another Node of the same name"
    );
    heartbeat.remove_node("n");
    assert_eq!(time_since_heartbeat(&heartbeat, 13), None);
}
