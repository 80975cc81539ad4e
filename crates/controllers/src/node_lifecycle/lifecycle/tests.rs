//! The controller in virtual time, with Nodes that stop renewing, return, and never start.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::object::{Lease, Node, NodeCondition};
use serde_json::json;

use super::super::{Lifecycle, Settings, Step};

/// A cluster whose server applies every write at once.
struct Cluster {
    lifecycle: Lifecycle,
    start: Instant,
    second: u64,
    nodes: BTreeMap<String, Node>,
}

impl Cluster {
    fn new(names: &[&str], settings: Settings) -> Self {
        let mut cluster = Self {
            lifecycle: Lifecycle::new(settings),
            start: Instant::now(),
            second: 0,
            nodes: BTreeMap::new(),
        };
        for name in names {
            let node: Node = serde_json::from_value(json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
            .expect("a Node");
            cluster.lifecycle.apply_node(&node, cluster.start);
            cluster.nodes.insert((*name).to_owned(), node);
        }
        cluster
    }

    /// Lets time pass. The Nodes in `alive` renew their Leases every ten seconds and report ready.
    fn advance(&mut self, seconds: u64, alive: &[&str]) {
        for _ in 0..seconds {
            self.second += 1;
            let now = self.start + Duration::from_secs(self.second);
            if self.second.is_multiple_of(10) {
                for name in alive {
                    let renew =
                        json!({"metadata": {"name": name}, "spec": {"renewTime": self.second.to_string()}});
                    let lease: Lease = serde_json::from_value(renew).expect("a Lease");
                    self.lifecycle.apply_lease(&lease, now);
                    self.set_condition(name, "Ready", "True", now);
                }
            }
            if self.second.is_multiple_of(5) {
                for name in self.lifecycle.check_nodes(now) {
                    self.execute(&name, now);
                }
            }
        }
    }

    fn execute(&mut self, name: &str, now: Instant) {
        for _ in 0..3 {
            match self.lifecycle.decide(name, now, "2026-01-01T00:00:00Z") {
                None => return,
                Some(Step::SetUnknown(changes)) => {
                    for change in changes {
                        self.set_condition(name, change.kind, "Unknown", now);
                    }
                }
                Some(Step::Taint(taints)) => {
                    let node = self.nodes.get_mut(name).expect("a Node");
                    node.spec.taints = taints;
                    self.lifecycle.apply_node(node, now);
                }
            }
        }
        panic!("{name} does not come to rest");
    }

    fn set_condition(&mut self, name: &str, kind: &str, status: &str, now: Instant) {
        let node = self.nodes.get_mut(name).expect("a Node");
        node.status.conditions.retain(|condition| condition.kind != kind);
        node.status.conditions.push(NodeCondition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            last_heartbeat_time: None,
        });
        self.lifecycle.apply_node(node, now);
    }

    fn out(&self) -> Vec<&str> {
        let out = self
            .nodes
            .keys()
            .filter(|name| self.lifecycle.needs_unready_pods(name));
        out.map(String::as_str).collect()
    }
}

#[test]
fn nodes_without_renewals_have_the_eviction_taint_until_a_renewal() {
    let mut cluster = Cluster::new(&["a", "b", "c"], Settings::default());
    cluster.advance(100, &["a", "b", "c"]);
    assert_eq!(cluster.out(), Vec::<&str>::new());
    cluster.advance(50, &["a", "b"]);
    assert!(cluster.nodes["c"].is_ready(), "the grace is not over");
    cluster.advance(10, &["a", "b"]);
    assert_eq!(cluster.out(), ["c"]);
    assert!(!cluster.nodes["c"].is_ready());
    cluster.advance(15, &["a", "b", "c"]);
    assert_eq!(cluster.out(), Vec::<&str>::new());
    assert!(cluster.nodes["c"].spec.taints.is_empty());
}

#[test]
fn simultaneously_failed_nodes_get_the_eviction_taint_one_by_one() {
    let mut cluster = Cluster::new(&["a", "b", "c", "d", "e"], Settings::default());
    cluster.advance(20, &["a", "b", "c", "d", "e"]);
    cluster.advance(55, &["a", "b", "c"]);
    assert_eq!(cluster.out(), ["d"]);
    cluster.advance(10, &["a", "b", "c"]);
    assert_eq!(cluster.out(), ["d", "e"]);
}

#[test]
fn node_that_never_started_does_not_delay_evictions() {
    let mut cluster = Cluster::new(&["a", "new", "z"], Settings::default());
    let new = cluster.nodes.get_mut("new").expect("a Node");
    new.status.conditions.clear();
    cluster.lifecycle.apply_node(new, cluster.start);
    cluster.advance(20, &["a", "z"]);
    // The new Node is within its longer grace period when the other one becomes Unknown.
    cluster.advance(34, &["a"]);
    assert_eq!(cluster.out(), Vec::<&str>::new());
    let now = cluster.start + Duration::from_secs(cluster.second);
    cluster.set_condition("z", "Ready", "False", now);
    cluster.advance(5, &["a"]);
    assert_eq!(cluster.out(), ["z"]);
}

#[test]
fn nodes_get_no_eviction_taint_if_none_is_ready() {
    let mut cluster = Cluster::new(&["a", "b"], Settings::default());
    cluster.advance(20, &["a", "b"]);
    cluster.advance(600, &[]);
    assert!(!cluster.nodes["a"].is_ready() && !cluster.nodes["b"].is_ready());
    assert_eq!(cluster.out(), Vec::<&str>::new());
}

#[test]
fn nodes_without_a_lease_have_the_startup_grace_period() {
    let settings = Settings {
        monitor_grace_period: Duration::from_secs(10),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(&["a", "made-by-hand"], settings);
    cluster.advance(60, &["a"]);
    assert!(cluster.nodes["made-by-hand"].is_ready());
    cluster.advance(10, &["a"]);
    assert!(!cluster.nodes["made-by-hand"].is_ready());
}

#[test]
fn settings_for_small_clusters_taint_a_failed_node_within_ten_seconds() {
    const RENEWAL_SECONDS: u64 = 2;
    // For each moment between two renewals.
    for failed_at in 20..20 + RENEWAL_SECONDS {
        let settings = Settings::for_small_clusters();
        let period = settings.monitor_period.as_secs();
        let mut cluster = Cluster::new(&["a", "b"], settings);
        let mut out_at = None;
        for second in 1..60 {
            let now = cluster.start + Duration::from_secs(second);
            let alive: &[&str] = if second < failed_at { &["a", "b"] } else { &["a"] };
            for name in alive.iter().filter(|_| second.is_multiple_of(RENEWAL_SECONDS)) {
                let renew = json!({"metadata": {"name": name}, "spec": {"renewTime": second.to_string()}});
                let lease: Lease = serde_json::from_value(renew).expect("a Lease");
                cluster.lifecycle.apply_lease(&lease, now);
            }
            if second.is_multiple_of(period) {
                for name in cluster.lifecycle.check_nodes(now) {
                    cluster.execute(&name, now);
                }
            }
            assert!(!cluster.lifecycle.needs_unready_pods("a"));
            if cluster.lifecycle.needs_unready_pods("b") {
                out_at.get_or_insert(second);
            }
        }
        let out_at = out_at.expect("noticed");
        assert!(
            (failed_at..=failed_at + 10).contains(&out_at),
            "failed at {failed_at}, out at {out_at}"
        );
    }
}
