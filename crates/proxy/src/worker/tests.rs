use std::sync::Mutex;

use dataplane::{Applied, ClientSocket, ClientSocketError, ConnectCounts, Counts, Destroyed, SkippedService};

use api::object::ObjectKey;
use client::Event;
use netlink::nftables::{Batch, Chain, Change, Nftables, Table, TableFamily};

use plan::PodDetection;

use super::*;
use crate::config::{NodePortSelection, PodSelection};
use crate::reports::metrics::Packets;

/// Calls of the data plane.
#[derive(Default)]
pub(super) struct Calls {
    applied: Vec<Changes>,
    /// Number of comparisons.
    repairs: usize,
    /// Number of calls that will fail.
    failures: usize,
    /// A Service to refuse once.
    refused: Option<ObjectKey>,
    /// True if a part of the data plane is not in use.
    has_fault: bool,
    /// Open sockets of clients.
    pub(super) sockets: Vec<ClientSocket>,
}

/// A data plane that records its calls.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Calls>>);

impl Recorder {
    pub(super) fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.0.lock().expect("no thread panicked with it")
    }
}

impl Dataplane for Recorder {
    fn apply(&mut self, _: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let mut calls = self.calls();
        if calls.failures > 0 {
            calls.failures -= 1;
            return Err(DataplaneError::Connect {
                source: std::io::Error::other("refused"),
            });
        }
        calls.applied.push(changes.clone());
        let refused = calls.refused.take().into_iter();
        let skipped = refused.map(|service| SkippedService {
            service,
            reason: "refused".to_owned(),
        });
        Ok(Applied {
            elements: 1,
            skipped: skipped.collect(),
        })
    }

    fn repair(&mut self, _: &Plan) -> Result<usize, DataplaneError> {
        self.calls().repairs += 1;
        Ok(0)
    }

    fn fault(&self) -> Option<&str> {
        self.calls().has_fault.then_some("no cgroup2")
    }

    fn client_sockets(&self, each: &mut dyn FnMut(&ClientSocket)) -> Result<(), ClientSocketError> {
        self.calls().sockets.iter().for_each(each);
        Ok(())
    }

    fn destroy_client_sockets(
        &mut self,
        is_selected: &mut dyn FnMut(&ClientSocket) -> bool,
        done: Destroyed,
    ) -> Result<(), ClientSocketError> {
        let mut calls = self.calls();
        let sockets = &mut calls.sockets;
        let before = sockets.len();
        sockets.retain(|socket| !is_selected(socket));
        done(before - sockets.len());
        Ok(())
    }

    fn counts(&self) -> Counts {
        let is_attached = !self.calls().has_fault;
        Counts {
            connect: Some(ConnectCounts {
                is_attached,
                frontends: 1,
                destroys_sockets: false,
                lost_events: None,
            }),
            ..Counts::default()
        }
    }
}

pub(super) fn worker() -> (Worker<Recorder>, Recorder) {
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
            Events::discarding(),
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

/// Completes the initial lists of all sources.
pub(super) fn sync(worker: &mut Worker<impl Dataplane>) {
    worker.apply_update(Update::Service(Box::new(Event::Synced)));
    worker.apply_update(Update::Slice(Event::Synced));
    worker.apply_update(Update::Node(Box::new(Event::Synced)));
    worker.apply_update(Update::ServiceCidrsNotAwaited);
}

fn keys(names: &[&str]) -> Vec<ObjectKey> {
    names.iter().map(|name| ObjectKey::new("ns", name)).collect()
}

#[test]
fn writes_nothing_before_initial_lists_are_complete() {
    let (mut worker, recorder) = worker();
    worker.apply_update(service("a", "10.96.0.1"));
    worker.apply_update(Update::Service(Box::new(Event::Synced)));
    worker.apply_update(Update::Node(Box::new(Event::Synced)));
    worker.apply_update(Update::ServiceCidrsNotAwaited);
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    assert!(recorder.calls().applied.is_empty());
    worker.apply_update(Update::Slice(Event::Synced));
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    let calls = recorder.calls();
    assert_eq!(calls.applied.len(), 1);
    assert!(calls.applied[0].needs_full_write);
    assert_eq!(calls.applied[0].services, keys(&["a"]));
}

#[test]
fn irrelevant_updates_are_not_written() {
    let (mut worker, recorder) = worker();
    worker.apply_update(service("a", "10.96.0.1"));
    sync(&mut worker);
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    worker.apply_update(service("a", "10.96.0.1"));
    worker.apply_update(Update::Service(Box::new(Event::Deleted(ObjectKey::new(
        "ns", "unknown",
    )))));
    worker.apply_update(Update::Service(Box::new(Event::Malformed {
        key: ObjectKey::new("ns", "a"),
        error: "odd".to_owned(),
    })));
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    assert_eq!(recorder.calls().applied.len(), 1);
}

#[test]
fn failed_changes_are_retried_with_later_ones() {
    let (mut worker, recorder) = worker();
    sync(&mut worker);
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    recorder.calls().failures = 2;
    worker.apply_update(service("a", "10.96.0.1"));
    worker.shared_status.health.set_sync_period(Duration::ZERO);
    worker.shared_status.health.queued(Moment::now());
    assert!(worker.apply().is_err());
    worker.apply_update(service("b", "10.96.0.2"));
    assert!(worker.apply().is_err());
    assert!(
        !worker.shared_status.health.is_healthy(Moment::now()),
        "a change waits for longer than it may"
    );
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    assert!(worker.shared_status.health.is_healthy(Moment::now()));
    let calls = recorder.calls();
    assert_eq!(calls.applied.len(), 2);
    assert_eq!(calls.applied[1].services, keys(&["a", "b"]));
    assert!(!calls.applied[1].needs_full_write);
    let failures = "kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 2";
    assert!(
        worker
            .shared_status
            .metrics
            .render(Packets::default())
            .finish()
            .lines()
            .any(|line| line == failures)
    );
}

#[test]
fn refused_service_is_retried_alone() {
    let (mut worker, recorder) = worker();
    worker.apply_update(service("a", "10.96.0.1"));
    worker.apply_update(service("b", "10.96.0.2"));
    sync(&mut worker);
    recorder.calls().refused = Some(ObjectKey::new("ns", "b"));
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Incomplete);
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    let calls = recorder.calls();
    assert_eq!(calls.applied[1].services, keys(&["b"]));
    assert!(!calls.applied[1].needs_full_write);
}

/// Events of a watch after the server was away and has another history (`client::watch`). They are all current
/// objects, the deleted ones, and the end of the list.
#[test]
fn relist_writes_differences_only() {
    let (mut worker, recorder) = worker();
    for (name, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2"), ("c", "10.96.0.3")] {
        worker.apply_update(service(name, ip));
    }
    sync(&mut worker);
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    let frontend = |worker: &Worker<Recorder>, ip: &str| {
        let ip = Some(ip.parse().expect("IP"));
        worker.plan.frontend(Family::V4, ip, Protocol::Tcp, 80).is_some()
    };
    // Without events, the applied state stays and nothing is written.
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    assert!(frontend(&worker, "10.96.0.2"));
    // The list of the new history: one object is deleted, one changed, one new, one unchanged.
    for _ in 0..2 {
        worker.apply_update(service("a", "10.96.0.1"));
        worker.apply_update(service("c", "10.96.0.30"));
        worker.apply_update(service("d", "10.96.0.4"));
        worker.apply_update(Update::Service(Box::new(Event::Deleted(ObjectKey::new(
            "ns", "b",
        )))));
        sync(&mut worker);
        assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    }
    assert!(!frontend(&worker, "10.96.0.2") && frontend(&worker, "10.96.0.30"));
    let calls = recorder.calls();
    assert_eq!(calls.applied.len(), 2, "the second list changes nothing");
    assert_eq!(calls.applied[1].services, keys(&["b", "c", "d"]));
    assert!(!calls.applied[1].needs_full_write);
}

#[test]
fn retry_pauses_grow_up_to_maximum() {
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
fn node_ports_follow_node_addresses() {
    let (mut worker, recorder) = worker();
    sync(&mut worker);
    assert_eq!(
        worker.plan.settings().node_port_ips(Family::V4),
        Some(vec![]),
        "no addresses while the IP of the node is unknown"
    );
    worker.apply_update(node());
    let ip: IpAddr = "172.30.0.11".parse().expect("IP");
    assert_eq!(worker.plan.settings().node_port_ips(Family::V4), Some(vec![ip]));
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    worker.apply_update(Update::Addresses(vec!["192.0.2.7".parse().expect("IP")]));
    assert_eq!(worker.plan.settings().node_port_ips(Family::V4), Some(vec![]));
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    assert!(recorder.calls().applied[1].needs_full_write);
}

#[test]
fn service_cidrs_come_from_all_objects() {
    let (mut worker, _) = worker();
    let cidr = |name: &str, cidrs: &[&str]| {
        let object = serde_json::json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}});
        Update::ServiceCidr(Event::Applied(
            serde_json::from_value(object).expect("a ServiceCIDR"),
        ))
    };
    worker.apply_update(cidr("kubernetes", &["10.96.0.0/16", "fd00:10:96::/112"]));
    worker.apply_update(cidr("more", &["10.97.0.0/16", "10.96.0.0/16", "nonsense"]));
    let texts: Vec<String> = worker
        .plan
        .settings()
        .service_cidrs
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(texts, ["10.96.0.0/16", "10.97.0.0/16", "fd00:10:96::/112"]);
    worker.apply_update(Update::ServiceCidr(Event::Deleted(ObjectKey::new(
        "",
        "kubernetes",
    ))));
    assert_eq!(worker.plan.settings().service_cidrs.len(), 2);
}

#[test]
fn closed_queue_is_drained_and_ends_worker() {
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
        Update::ServiceCidrsNotAwaited,
        service("b", "10.96.0.2"),
    ] {
        sender.try_send(update).expect("there is room");
    }
    let change_sender = sender.downgrade();
    drop(sender);
    worker
        .run(receiver, change_sender, runtime.handle())
        .expect("no failure");
    let calls = recorder.calls();
    assert_eq!(calls.applied.len(), 1, "all that waits is one step");
    assert_eq!(calls.applied[0].services, keys(&["a", "b"]));
    // Both claim node port 30080; each has its health check nevertheless.
    assert_eq!(calls.applied[0].health_checks, keys(&["a", "b"]));
}

/// KPF-20, KPF-21: a change waits for the minimum period, and comparisons follow the sync period.
#[test]
fn change_waits_for_minimum_period_and_comparisons_do_not() {
    const LIMIT: Duration = Duration::from_secs(60);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (mut worker, recorder) = worker();
    worker.config.min_sync_period = Duration::from_secs(3_600);
    worker.config.repair_period = Duration::from_millis(1);
    worker.apply_update(service("a", "10.96.0.1"));
    sync(&mut worker);
    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    let change_sender = sender.downgrade();
    let handle = runtime.handle();
    std::thread::scope(|scope| {
        scope.spawn(move || worker.run(receiver, change_sender, handle).expect("no failure"));
        let applied = || recorder.calls().applied.len();
        let compared = |count| {
            testbed::wait_until("comparisons", LIMIT, || {
                (recorder.calls().repairs >= count).then_some(())
            });
        };
        testbed::wait_until("the first change", LIMIT, || (applied() == 1).then_some(()));
        sender.try_send(service("b", "10.96.0.2")).expect("there is room");
        let before = recorder.calls().repairs;
        compared(before + 3);
        assert_eq!(applied(), 1, "the second change waits");
        drop(sender);
    });
    assert_eq!(recorder.calls().applied.len(), 2);
}

/// Chain in the table of kube-proxy's nftables mode.
const UPSTREAM_CHAIN: &str = "upstream";

fn add_upstream_table(nftables: &mut Nftables) {
    let mut batch = Batch::of_family(TableFamily::Ipv4, "kube-proxy");
    let table = Table {
        name: "kube-proxy".to_owned(),
        comment: String::new(),
        is_dormant: false,
    };
    let chain = Chain {
        name: UPSTREAM_CHAIN.to_owned(),
        base: None,
        comment: String::new(),
    };
    batch.table(Change::Add, &table, 0);
    batch.chain(Change::Add, &chain, 0);
    nftables.commit(batch).expect("a table");
}

fn has_upstream_table(nftables: &mut Nftables) -> bool {
    let chains = nftables.chain_names(TableFamily::Ipv4).expect("chains");
    chains.iter().any(|name| name == UPSTREAM_CHAIN)
}

#[test]
fn rules_of_kube_proxy_are_removed_after_first_sync_and_after_its_exit() {
    testbed::in_namespace(|| {
        let mut nftables = Nftables::open().expect("nftables");
        let (mut worker, _) = worker();
        worker.config.leftovers = Some(LeftoverScope::KubeProxyToo);
        worker.config.proxy_mode = "nftables".to_owned();
        add_upstream_table(&mut nftables);
        worker.apply_update(Update::AddressReleased);
        assert!(
            !worker.has_taken_over,
            "the rules carry the traffic until the first sync"
        );
        worker.apply_update(service("a", "10.96.0.1"));
        sync(&mut worker);
        for _ in 0..2 {
            worker.apply().expect("no failure");
            testbed::wait_until("removal of the table", Duration::from_secs(60), || {
                (!has_upstream_table(&mut nftables)).then_some(())
            });
            // A running kube-proxy restores its table; the address is free after its exit.
            add_upstream_table(&mut nftables);
            worker.apply_update(Update::AddressReleased);
        }
    });
}

/// KPF-01: settings that apply at runtime, and those that do not.
#[test]
fn changed_configuration_reaches_plan_without_restart() {
    let (mut worker, recorder) = worker();
    worker.apply_update(node());
    sync(&mut worker);
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    worker.apply_update(Update::Config(Box::new(Config {
        node_name: "node-b".to_owned(),
        masquerade_all: true,
        node_port_addresses: NodePortSelection::All,
        pods: "10.244.0.0/16"
            .parse()
            .map(|net| PodSelection::Given(PodDetection::Ranges(vec![net])))
            .expect("CIDR"),
        ..Config::default()
    })));
    let settings = worker.plan.settings();
    assert!(settings.masquerade_all);
    assert_eq!(settings.node_port_ips(Family::V4), None, "all addresses");
    assert!(settings.pods.covers(Family::V4));
    assert_eq!(
        worker.config.node_name, "node-a",
        "a changed node name needs a restart"
    );
    assert_eq!(worker.apply().expect("no failure"), SyncResult::Applied);
    assert!(recorder.calls().applied[1].needs_full_write);
}

/// MET-12, MET-13.
#[test]
fn fault_of_the_data_plane_is_reported_while_it_lasts() {
    let (mut worker, recorder) = worker();
    recorder.calls().has_fault = true;
    worker.apply_update(service("a", "10.96.0.1"));
    sync(&mut worker);
    worker.apply().expect("no failure");
    let metric = |worker: &Worker<Recorder>| {
        let text = worker.shared_status.metrics.render(Packets::default()).finish();
        let line = text
            .lines()
            .find(|line| line.starts_with("kubeproxy_ebpf_attached "));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    let status = worker.shared_status.status(&worker.config);
    assert_eq!(status["ebpf"]["fault"], "no cgroup2");
    assert_eq!(metric(&worker), Some(0));
    recorder.calls().has_fault = false;
    worker.repair();
    let status = worker.shared_status.status(&worker.config);
    assert_eq!(status["ebpf"]["fault"], json!(null));
    assert_eq!(metric(&worker), Some(1));
}

#[test]
fn changes_that_concern_no_rule_do_not_stay_pending() {
    let (mut worker, _) = worker();
    worker.apply_update(service("a", "10.96.0.1"));
    sync(&mut worker);
    worker.apply().expect("no failure");
    let pending = |worker: &Worker<Recorder>| {
        let text = worker.shared_status.metrics.render(Packets::default()).finish();
        let lines = text.lines().filter(|line| line.contains("changes_pending "));
        let values = lines.filter(|line| !line.starts_with('#'));
        values
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum::<u64>()
    };
    worker.apply_update(service("a", "10.96.0.1"));
    assert_eq!(pending(&worker), 1);
    worker.apply().expect("no failure");
    assert_eq!(pending(&worker), 0);
}

#[test]
fn health_checks_listen_on_loopback_if_node_ports_do() {
    let (mut worker, _) = worker();
    worker.config.node_port_addresses = "127.0.0.0/8".parse().expect("CIDR");
    worker.apply_update(node());
    assert_eq!(worker.plan.settings().node_port_ips(Family::V4), Some(vec![]));
    assert_eq!(
        worker.shared_status.checks.addresses(),
        Some(vec![node::LOCALHOST])
    );
}

pub(super) fn annotated(annotations: &serde_json::Value, affinity: &str) -> Update {
    let service = json!({
        "metadata": {"namespace": "ns", "name": "a", "annotations": annotations},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}], "sessionAffinity": affinity},
    });
    Update::Service(Box::new(Event::Applied(
        serde_json::from_value(service).expect("a Service"),
    )))
}

#[test]
fn annotations_that_end_connections_have_no_fault_in_userspace_mode() {
    let (mut worker, _) = worker();
    worker.config.proxy_mode = "userspace".to_owned();
    let annotations = json!({
        "service.portolan.dev/drain-seconds": "30",
        "service.portolan.dev/max-connection-age-seconds": "60",
        "service.portolan.dev/rebalance-percent": "10",
    });
    worker.apply_update(annotated(&annotations, "None"));
    sync(&mut worker);
    worker.apply().expect("an applied change");
    let faults = worker.faults_of(&ObjectKey::new("ns", "a"));
    assert_eq!(faults.len(), 0, "{faults:?}");
    assert_eq!(
        worker.ages.next(),
        None,
        "conntrack entries do not lead to endpoints"
    );
    assert!(worker.rebalancing.is_used());
}

#[test]
fn rebalancing_with_session_affinity_is_a_fault() {
    for (affinity, expected) in [("ClientIP", 1), ("None", 0)] {
        let (mut worker, _) = worker();
        let annotations = json!({"service.portolan.dev/rebalance-percent": "10"});
        worker.apply_update(annotated(&annotations, affinity));
        worker.plan.take_changes();
        let faults = worker.faults_of(&ObjectKey::new("ns", "a"));
        assert_eq!(faults.len(), expected, "{faults:?}");
    }
}

#[test]
fn rebalancing_without_start_times_of_connections_is_a_fault() {
    let (mut worker, _) = worker();
    worker.ages = ConnectionAges::without_start_times("read-only");
    let annotations = json!({"service.portolan.dev/rebalance-percent": "10"});
    worker.apply_update(annotated(&annotations, "None"));
    worker.plan.take_changes();
    let faults = worker.faults_of(&ObjectKey::new("ns", "a"));
    let reasons: Vec<_> = faults.iter().map(|fault| fault.reason).collect();
    assert_eq!(reasons, ["ConnectionBeginsUnknown"]);
}

/// Sends an endpoint that becomes unready to the check of its node. Returns the endpoints that are checked.
fn checked_endpoints(worker: Worker<Recorder>, has_service: bool) -> Vec<String> {
    let (sender, mut departed) = tokio::sync::mpsc::channel(1);
    let mut worker = worker.check_departed(sender);
    if has_service {
        worker.apply_update(annotated(&json!({}), "None"));
    }
    sync(&mut worker);
    for is_ready in [true, false] {
        let slice = json!({
            "metadata": {"namespace": "ns", "name": "a-1", "labels": {"kubernetes.io/service-name": "a"}},
            "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": ["10.244.1.2"], "nodeName": "node-b",
                "conditions": {"ready": is_ready, "serving": is_ready}}],
        });
        let slice = serde_json::from_value(slice).expect("a slice");
        worker.apply_update(Update::Slice(Event::Applied(slice)));
        worker.apply().expect("an applied change");
    }
    worker.report_due_departed(Instant::now());
    departed.try_recv().expect_err("no report before it is due");
    let due = worker.departed_due.expect("a scheduled report");
    worker.report_due_departed(due);
    assert_eq!(worker.departed_due, None);
    let received = departed.try_recv().unwrap_or_default();
    let shown = received
        .iter()
        .map(|departed| format!("{} {} {}", departed.service, departed.endpoint, departed.node));
    shown.collect()
}

/// In userspace mode, connection tracking does not show which endpoints have connections.
#[test]
fn departed_endpoints_are_sent_to_the_check_of_their_nodes() {
    for (has_service, expected) in [(true, vec!["ns/a 10.244.1.2:8080 node-b"]), (false, vec![])] {
        let (mut worker, _) = worker();
        worker.config.proxy_mode = "userspace".to_owned();
        assert_eq!(checked_endpoints(worker, has_service), expected);
    }
}

/// Each check reads a Node, and the endpoints of a deleted Service may be on all nodes.
#[test]
fn departed_endpoints_without_a_connection_are_not_checked() {
    testbed::in_namespace(|| {
        let (mut worker, _) = worker();
        worker.config.proxy_mode = "nftables".to_owned();
        worker.conntrack = Some(Conntrack::open().expect("connection tracking"));
        assert_eq!(checked_endpoints(worker, true), [""; 0]);
    });
}
