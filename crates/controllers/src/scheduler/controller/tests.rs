use std::time::Duration;

use serde_json::{Value, json};

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

struct Model {
    scheduler: Scheduler,
    queue: Queue<ObjectKey>,
    now: Instant,
}

impl Model {
    /// Creates a scheduler with these Nodes.
    fn with_nodes(names: &[&str]) -> Self {
        let mut model = Self {
            scheduler: Scheduler::new(WallClock::system()),
            queue: Queue::default(),
            now: Instant::now(),
        };
        for name in names {
            let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            let node = json!({"metadata": {"name": name}, "status": status});
            let node = serde_json::from_value(node).expect("a Node");
            model.apply(Change::Node(Event::Applied(node)));
        }
        model
    }

    fn apply(&mut self, change: Change) {
        self.scheduler.apply_change(change, &mut self.queue, self.now);
    }

    /// Applies a Pod with the host port 80. Its Node is empty if it is pending.
    fn apply_pod(&mut self, name: &str, version: u32, node: &str, phase: &str) {
        let containers = json!([{"ports": [{"hostPort": 80, "protocol": "TCP"}]}]);
        let pod: Value = json!({
            "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": version.to_string()},
            "spec": {"nodeName": node, "containers": containers},
            "status": {"phase": phase},
        });
        let pod = serde_json::from_value(pod).expect("a Pod");
        self.apply(Change::Pod(Event::Applied(pod), 0));
    }

    /// Schedules a Pod; returns the Node that is chosen.
    fn schedule(&mut self, name: &str) -> Option<String> {
        match self.scheduler.reconcile(&ObjectKey::new("n", name), self.now) {
            Action::Run(Job {
                placement: Placement::Node(node),
                ..
            }) => Some(node),
            _ => None,
        }
    }

    /// Takes all keys from the queue; returns true if the Pod is among them.
    fn takes(&mut self, name: &str) -> bool {
        let mut is_taken = false;
        while let Some((key, _)) = self.queue.take(self.now) {
            is_taken |= &*key.name == name;
            self.queue.done(&key, self.now);
        }
        is_taken
    }
}

#[test]
fn pods_with_a_node_occupy_it() {
    let mut model = Model::with_nodes(&["a", "b"]);
    model.apply_pod("first", 1, "a", "Running");
    model.apply_pod("second", 2, "", "Pending");
    assert!(model.takes("second"));
    assert_eq!(model.schedule("second").as_deref(), Some("b"));
}

#[test]
fn pods_that_are_being_bound_occupy_their_node() {
    let mut model = Model::with_nodes(&["a"]);
    model.apply_pod("first", 1, "", "Pending");
    model.apply_pod("second", 2, "", "Pending");
    assert_eq!(model.schedule("first").as_deref(), Some("a"));
    assert_eq!(model.schedule("second"), None);
}

#[test]
fn pods_that_have_ended_or_are_deleted_free_their_node() {
    for is_deleted in [false, true] {
        let mut model = Model::with_nodes(&["a"]);
        model.apply_pod("first", 1, "a", "Running");
        model.apply_pod("second", 2, "", "Pending");
        assert!(model.takes("second"));
        assert_eq!(model.schedule("second"), None);
        // After the delay of the first retry.
        model.now += Duration::from_secs(60);
        if is_deleted {
            model.apply(Change::Pod(Event::Deleted(ObjectKey::new("n", "first")), 0));
        } else {
            model.apply_pod("first", 3, "a", "Succeeded");
        }
        assert!(model.takes("second"));
        assert_eq!(model.schedule("second").as_deref(), Some("a"));
    }
}

#[test]
fn bound_pods_are_not_scheduled_again() {
    let mut model = Model::with_nodes(&["a", "b"]);
    model.apply_pod("first", 1, "", "Pending");
    assert_eq!(model.schedule("first").as_deref(), Some("a"));
    model.apply_pod("first", 2, "a", "Pending");
    assert_eq!(model.schedule("first"), None);
    let on_node = model.scheduler.on_node.get("a").expect("Pods on the Node");
    assert!(on_node.iter().any(|key| *key == ObjectKey::new("n", "first")));
}
