use std::time::Duration;

use serde_json::json;

use super::*;

fn node(labels: u32) -> Event<Node> {
    let metadata = json!({"name": "a", "labels": {"generation": labels.to_string()}});
    let node = json!({"metadata": metadata, "spec": {"unschedulable": true}});
    Event::Applied(serde_json::from_value(node).expect("a Node"))
}

fn pod(name: &str) -> Event<SchedulePod> {
    let metadata = json!({"namespace": "default", "name": name, "uid": name, "resourceVersion": "1"});
    Event::Applied(serde_json::from_value(json!({"metadata": metadata})).expect("a Pod"))
}

#[test]
fn pods_that_fit_on_no_node_are_retried_with_growing_delays() {
    let (mut scheduler, mut queue) = (Scheduler::new(WallClock::system()), Queue::default());
    let mut now = Instant::now();
    scheduler.apply_change(Change::Node(node(0)), &mut queue, now);
    scheduler.apply_change(Change::Pod(pod("p"), 1), &mut queue, now);
    let mut last = Duration::ZERO;
    for change in 1..=20 {
        let (key, _) = queue.take(now).expect("the Pod");
        assert!(matches!(scheduler.reconcile(&key, now), Action::Run(_)));
        queue.done(&key, now);
        scheduler.apply_change(Change::Node(node(change)), &mut queue, now);
        assert_eq!(queue.take(now), None, "the change waits for the delay");
        let wake = queue.next_wake().expect("a retry");
        assert!(wake - now >= last);
        last = wake - now;
        now = wake;
        queue.wake(now);
    }
    assert_eq!(last, Duration::from_secs(10));
    // After the delay a change leads to an attempt at once.
    let (key, _) = queue.take(now).expect("the Pod");
    scheduler.reconcile(&key, now);
    queue.done(&key, now);
    now += Duration::from_secs(60);
    scheduler.apply_change(Change::Node(node(100)), &mut queue, now);
    assert!(queue.take(now).is_some());
}
