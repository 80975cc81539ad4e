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
fn only_what_is_new_is_a_sign_of_life() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut heard = Heartbeats::default();
    let silence = |heard: &Heartbeats, now| heard.silence("n", at(now)).map(|silence| silence.as_secs());
    heard.lease("n", "t1", at(0));
    heard.node(&node("a", "h1"), at(1));
    assert_eq!(silence(&heard, 5), Some(4));
    heard.node(&node("a", "h1"), at(5));
    heard.lease("n", "t1", at(5));
    assert_eq!(silence(&heard, 6), Some(5), "the same again is no sign");
    // Back in time is as good as forward: clocks are set.
    heard.lease("n", "t0", at(6));
    assert_eq!(silence(&heard, 8), Some(2));
    heard.node(&node("a", "h2"), at(8));
    assert_eq!(silence(&heard, 9), Some(1));
    heard.node(&node("b", "h2"), at(12));
    assert_eq!(silence(&heard, 12), Some(0), "another Node of the same name");
    heard.remove_node("n");
    assert_eq!(silence(&heard, 13), None);
}
