use std::sync::Mutex;

use dataplane::{Applied, Skipped};

use api::object::ObjectKey;
use client::Event;

use super::*;
use crate::metrics::Packets;

/// What a dataplane was asked to do.
#[derive(Default)]
struct Asked {
    applied: Vec<Changes>,
    /// How often it is to fail from now on.
    failures: usize,
    /// A Service to refuse once.
    refused: Option<ObjectKey>,
}

/// A dataplane that remembers what it was asked.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Asked>>);

impl Recorder {
    fn asked(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.0.lock().expect("nobody panicked with it")
    }
}

impl Dataplane for Recorder {
    fn apply(&mut self, _: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let mut asked = self.asked();
        if asked.failures > 0 {
            asked.failures -= 1;
            return Err(DataplaneError::Connect {
                source: std::io::Error::other("refused"),
            });
        }
        asked.applied.push(changes.clone());
        let refused = asked.refused.take().into_iter();
        let skipped = refused.map(|service| Skipped {
            service,
            reason: "refused".to_owned(),
        });
        Ok(Applied {
            elements: 1,
            skipped: skipped.collect(),
        })
    }

    fn repair(&mut self, _: &Plan) -> Result<usize, DataplaneError> {
        Ok(0)
    }
}

fn worker() -> (Worker<Recorder>, Recorder) {
    let recorder = Recorder::default();
    let config = Config {
        node_name: "node-a".to_owned(),
        ..Config::default()
    };
    let own = vec!["172.30.0.11".parse().expect("IP")];
    (
        Worker::new(
            config,
            recorder.clone(),
            None,
            own,
            Arc::default(),
            Events::nowhere(),
        ),
        recorder,
    )
}

fn service(name: &str, ip: &str) -> Update {
    let text = r#"{"metadata":{"namespace":"ns","name":"NAME"},
        "spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":31000,
                "clusterIP":"ADDRESS","ports":[{"port":80,"nodePort":30080}]}}"#;
    let text = text.replace("NAME", name).replace("ADDRESS", ip);
    Update::Service(Box::new(Event::Applied(
        serde_json::from_str(&text).expect("a Service"),
    )))
}

fn node() -> Update {
    let text = r#"{"metadata":{"name":"node-a"},
        "status":{"addresses":[{"type":"InternalIP","address":"172.30.0.11"}]}}"#;
    Update::Node(Box::new(Event::Applied(
        serde_json::from_str(text).expect("a Node"),
    )))
}

/// Tells that all sources have told everything.
fn sync(worker: &mut Worker<Recorder>) {
    worker.take(Update::Service(Box::new(Event::Synced)));
    worker.take(Update::Slice(Event::Synced));
    worker.take(Update::Node(Box::new(Event::Synced)));
    worker.take(Update::NoServiceCidrs);
}

fn keys(names: &[&str]) -> Vec<ObjectKey> {
    names.iter().map(|name| ObjectKey::new("ns", name)).collect()
}

#[test]
fn nothing_is_written_before_all_is_known() {
    let (mut worker, recorder) = worker();
    worker.take(service("a", "10.96.0.1"));
    worker.take(Update::Service(Box::new(Event::Synced)));
    worker.take(Update::Node(Box::new(Event::Synced)));
    worker.take(Update::NoServiceCidrs);
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    assert!(recorder.asked().applied.is_empty());
    worker.take(Update::Slice(Event::Synced));
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    let asked = recorder.asked();
    assert_eq!(asked.applied.len(), 1);
    assert!(asked.applied[0].everything);
    assert_eq!(asked.applied[0].services, keys(&["a"]));
}

#[test]
fn what_changes_nothing_is_not_written() {
    let (mut worker, recorder) = worker();
    worker.take(service("a", "10.96.0.1"));
    sync(&mut worker);
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    worker.take(service("a", "10.96.0.1"));
    worker.take(Update::Service(Box::new(Event::Deleted(ObjectKey::new(
        "ns", "unknown",
    )))));
    worker.take(Update::Service(Box::new(Event::Malformed {
        key: ObjectKey::new("ns", "a"),
        error: "odd".to_owned(),
    })));
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    assert_eq!(recorder.asked().applied.len(), 1);
}

#[test]
fn what_failed_is_tried_again_with_what_came_since() {
    let (mut worker, recorder) = worker();
    sync(&mut worker);
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    recorder.asked().failures = 2;
    worker.take(service("a", "10.96.0.1"));
    worker.board.health.set_sync_period(Duration::ZERO);
    worker.board.health.queued(Moment::now());
    assert!(worker.apply().is_err());
    worker.take(service("b", "10.96.0.2"));
    assert!(worker.apply().is_err());
    assert!(
        !worker.board.health.is_healthy(Moment::now()),
        "a change waits for longer than it may"
    );
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    assert!(worker.board.health.is_healthy(Moment::now()));
    let asked = recorder.asked();
    assert_eq!(asked.applied.len(), 2);
    assert_eq!(asked.applied[1].services, keys(&["a", "b"]));
    assert!(!asked.applied[1].everything);
    let failures = "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 2";
    assert!(
        worker
            .board
            .metrics
            .render(Packets::default())
            .lines()
            .any(|line| line == failures)
    );
}

#[test]
fn a_refused_service_is_tried_again_alone() {
    let (mut worker, recorder) = worker();
    worker.take(service("a", "10.96.0.1"));
    worker.take(service("b", "10.96.0.2"));
    sync(&mut worker);
    recorder.asked().refused = Some(ObjectKey::new("ns", "b"));
    assert_eq!(worker.apply().expect("no failure"), Outcome::Incomplete);
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    let asked = recorder.asked();
    assert_eq!(asked.applied[1].services, keys(&["b"]));
    assert!(!asked.applied[1].everything);
}

/// What a watch tells when the server was away and has another history afterwards: all that is there, what is gone, and
/// that this is all (`client::watch`).
#[test]
fn a_server_that_was_away_costs_what_it_changed_meanwhile() {
    let (mut worker, recorder) = worker();
    for (name, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2"), ("c", "10.96.0.3")] {
        worker.take(service(name, ip));
    }
    sync(&mut worker);
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    let frontend = |worker: &Worker<Recorder>, ip: &str| {
        let ip = Some(ip.parse().expect("IP"));
        worker.plan.frontend(Family::V4, ip, Protocol::Tcp, 80).is_some()
    };
    // Nobody tells anything: what was in force stays, and nothing is written.
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    assert!(frontend(&worker, "10.96.0.2"));
    // The list of another history: one is gone, one moved, one is new, one is as it was.
    for _ in 0..2 {
        worker.take(service("a", "10.96.0.1"));
        worker.take(service("c", "10.96.0.30"));
        worker.take(service("d", "10.96.0.4"));
        worker.take(Update::Service(Box::new(Event::Deleted(ObjectKey::new(
            "ns", "b",
        )))));
        sync(&mut worker);
        assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    }
    assert!(!frontend(&worker, "10.96.0.2") && frontend(&worker, "10.96.0.30"));
    let asked = recorder.asked();
    assert_eq!(asked.applied.len(), 2, "the second list changes nothing");
    assert_eq!(asked.applied[1].services, keys(&["b", "c", "d"]));
    assert!(!asked.applied[1].everything);
}

#[test]
fn pauses_grow_and_are_bounded() {
    let mut retry = Retry::after(None);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        pauses.push(retry.pause);
        retry = Retry::after(Some(retry));
    }
    assert!(pauses.is_sorted());
    assert_eq!((pauses[0], pauses[11]), (RETRY_MIN, RETRY_MAX));
}

#[test]
fn node_ports_follow_the_node_and_its_addresses() {
    let (mut worker, recorder) = worker();
    sync(&mut worker);
    assert_eq!(
        worker.plan.settings().node_port_ips(Family::V4),
        Some(vec![]),
        "none while no IP is known"
    );
    worker.take(node());
    let ip: IpAddr = "172.30.0.11".parse().expect("IP");
    assert_eq!(worker.plan.settings().node_port_ips(Family::V4), Some(vec![ip]));
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    worker.take(Update::Addresses(vec!["192.0.2.7".parse().expect("IP")]));
    assert_eq!(worker.plan.settings().node_port_ips(Family::V4), Some(vec![]));
    assert_eq!(worker.apply().expect("no failure"), Outcome::InForce);
    assert!(recorder.asked().applied[1].everything);
}

#[test]
fn service_cidrs_are_those_of_all_objects() {
    let (mut worker, _) = worker();
    let cidr = |name: &str, cidrs: &[&str]| {
        let object = serde_json::json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
        Update::ServiceCidr(Event::Applied(
            serde_json::from_value(object).expect("a ServiceCIDR"),
        ))
    };
    worker.take(cidr("kubernetes", &["10.96.0.0/16", "fd00:10:96::/112"]));
    worker.take(cidr("more", &["10.97.0.0/16", "10.96.0.0/16", "nonsense"]));
    let texts: Vec<String> = worker
        .plan
        .settings()
        .service_cidrs
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(texts, ["10.96.0.0/16", "10.97.0.0/16", "fd00:10:96::/112"]);
    worker.take(Update::ServiceCidr(Event::Deleted(ObjectKey::new(
        "",
        "kubernetes",
    ))));
    assert_eq!(worker.plan.settings().service_cidrs.len(), 2);
}

#[test]
fn the_queue_is_drained_and_its_end_ends_the_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (worker, recorder) = worker();
    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    for update in [
        service("a", "10.96.0.1"),
        Update::Service(Box::new(Event::Synced)),
        Update::Slice(Event::Synced),
        Update::Node(Box::new(Event::Synced)),
        Update::NoServiceCidrs,
        service("b", "10.96.0.2"),
    ] {
        sender.try_send(update).expect("there is room");
    }
    let others = sender.downgrade();
    drop(sender);
    worker
        .run(receiver, others, runtime.handle())
        .expect("no failure");
    let asked = recorder.asked();
    assert_eq!(asked.applied.len(), 1, "all that waits is one step");
    assert_eq!(asked.applied[0].services, keys(&["a", "b"]));
    // Both want node port 30080; the health check of each is there all the same.
    assert_eq!(asked.applied[0].health_checks, keys(&["a", "b"]));
}
