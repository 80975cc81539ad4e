use serde_json::json;

use super::*;

fn pod(name: &str) -> Change {
    let pod = json!({
        "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"nodeName": "node-1"},
    });
    Change::Pod(Event::Applied(serde_json::from_value(pod).expect("a Pod")), 0)
}

fn is_added(queue: &mut Queue<ObjectKey>, name: &str, now: Instant) -> bool {
    queue.take(now).is_some_and(|(key, _)| &*key.name == name)
}

#[test]
fn pods_are_examined_once_their_node_has_a_taint() {
    let mut controller = TaintEviction::new(WallClock::system());
    let (mut queue, now) = (Queue::default(), Instant::now());
    controller.apply_change(pod("early"), &mut queue, now);
    assert!(queue.take(now).is_none());
    let node = json!({
        "metadata": {"name": "node-1"},
        "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]},
    });
    let node = serde_json::from_value(node).expect("a Node");
    controller.apply_change(Change::Node(Event::Applied(node)), &mut queue, now);
    assert!(is_added(&mut queue, "early", now));
    controller.apply_change(pod("late"), &mut queue, now);
    assert!(is_added(&mut queue, "late", now));
}
