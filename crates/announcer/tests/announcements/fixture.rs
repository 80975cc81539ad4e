//! A cluster with an API server, the assigner, and announcers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use announcer::{LinkSelection, Metrics, Settings};
use client::{Client, Config};
use http::Method;
use netlink::route::{Connection, LinkChange, LinkIndex, NetworkNamespace};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::{Cluster, Topology};

use crate::support::{self, create, create_node, request, runtime, spawn_in};

/// Longest wait for an expected change; only a failing test waits so long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 200);
/// An address for which every node is a candidate, on every link.
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 201);
/// Address of the edge.
pub(crate) const EDGE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 202);
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(crate) const POOLS: &str = "/apis/portolan.dev/v1alpha1/addresspools";
/// Pause between two requests of the client.
pub(crate) const REQUEST_PERIOD: Duration = Duration::from_millis(20);

pub(crate) use testbed::arp_client::EthernetAddress;

/// An announcer on its own thread, in the namespace of its node.
pub(crate) struct Announcer {
    pub signals: Sender<Signal>,
    pub hardware: EthernetAddress,
    thread: thread::JoinHandle<()>,
}

impl Announcer {
    /// Kills the announcer and waits until its sockets are closed, so that another one can bind the same addresses.
    pub(crate) fn kill(self) {
        self.signals.send(Signal::Kill).expect("a running announcer");
        self.thread.join().expect("no panic in the announcer");
    }

    /// Shuts the announcer down and waits for its end.
    pub(crate) fn shut_down(self) {
        self.signals.send(Signal::ShutDown).expect("a running announcer");
        self.thread.join().expect("no panic in the announcer");
    }
}

pub(crate) enum Signal {
    /// Freeze for this duration.
    Freeze(Duration),
    /// Exit at once, without a shutdown.
    Kill,
    /// Shut down.
    ShutDown,
}

/// A cluster with an API server and the assigner on the control plane, Nodes, a pool of one address and a Service.
pub(crate) struct Fixture {
    pub cluster: Arc<Cluster>,
    pub api: Api,
    _directory: TempDir,
}

impl Fixture {
    /// Starts with that many nodes.
    pub(crate) fn start(nodes: usize) -> Self {
        let topology = Topology::with_nodes(nodes).expect("so many nodes");
        let cluster = Arc::new(Cluster::start(topology).expect("a cluster"));
        let directory = tempfile::tempdir().expect("a directory");
        Self {
            api: start_api(&cluster, &directory),
            cluster,
            _directory: directory,
        }
    }
}

/// Configurations of API clients: administrator, announcers, and announcers with the role of versions without pool
/// selectors.
pub(crate) struct Api {
    pub admin: Config,
    pub announcer: Config,
    pub earlier: Config,
}

/// User whose role the test creates.
pub(crate) const EARLIER: &str = "announcer-of-before";

/// Starts an API server and the assigner on the control plane; creates Nodes, a pool of one address and a Service.
pub(crate) fn start_api(cluster: &Arc<Cluster>, directory: &TempDir) -> Api {
    let api = support::start_api(cluster, directory.path());
    for (name, ip) in [("node-1", 11), ("node-2", 12), ("node-3", 13)] {
        create_node(cluster, &api.admin, name, &format!("172.30.0.{ip}"));
    }
    create(cluster, &api.admin, POOLS, &pool("p", &[ADDRESS.into()]));
    create(cluster, &api.admin, SERVICES, &service("a", json!({})));
    Api {
        announcer: api.as_user("system:portolan-load-balancer"),
        earlier: api.as_user(EARLIER),
        admin: api.admin,
    }
}

pub(crate) fn pool(name: &str, addresses: &[IpAddr]) -> Value {
    let addresses = addresses.iter().map(|address| format!("{address}-{address}"));
    json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": name},
        "spec": {"addresses": addresses.collect::<Vec<_>>()},
    })
}

pub(crate) fn service(name: &str, more: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    for (field, value) in more.as_object().expect("fields") {
        service["spec"][field] = value.clone();
    }
    service
}

pub(crate) fn start_announcer(cluster: &Arc<Cluster>, config: &Config, name: &str) -> Announcer {
    start_with(cluster, config, name, false)
}

/// Starts an announcer that waits for the exit of the present one of its node.
pub(crate) fn start_successor(cluster: &Arc<Cluster>, config: &Config, name: &str) -> Announcer {
    start_process(cluster, config, name, false, true)
}

/// Starts an announcer; with an edge if `has_edge`, which serves its address as soon as it is requested.
pub(crate) fn start_with(cluster: &Arc<Cluster>, config: &Config, name: &str, has_edge: bool) -> Announcer {
    start_process(cluster, config, name, has_edge, false)
}

fn start_process(
    cluster: &Arc<Cluster>,
    config: &Config,
    name: &str,
    has_edge: bool,
    waits_for_port: bool,
) -> Announcer {
    let (serve, served) = tokio::sync::watch::channel(Arc::new(BTreeSet::from([EDGE.into()])));
    let member = cluster.member(name).expect("a member");
    let (signals, taken) = channel();
    let settings = Settings {
        node_name: name.to_owned(),
        node_ip: None,
        port: 7_947,
        waits_for_port,
        links: LinkSelection::default(),
        metallb_namespace: None,
        ignores_exclude_label: false,
        served: has_edge.then_some(served),
    };
    let config = config.clone();
    let thread = spawn_in(cluster, name, move || {
        let _serve = serve;
        runtime().block_on(async {
            let client = Client::new(config).expect("a client");
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let ended = async { drop(ended.await) };
            let running = announcer::run(client, settings, Arc::<Metrics>::default(), ended);
            tokio::pin!(running);
            let mut end = Some(end);
            loop {
                match taken.try_recv() {
                    // Nothing else runs on this thread, so all of the announcer is frozen.
                    Ok(Signal::Freeze(lasts)) => thread::sleep(lasts),
                    Ok(Signal::Kill) => return,
                    Ok(Signal::ShutDown) => drop(end.take()),
                    Err(_) => {}
                }
                tokio::select! {
                    ended = &mut running => return ended.expect("an end without error"),
                    () = tokio::time::sleep(Duration::from_millis(5)) => {}
                }
            }
        });
    });
    Announcer {
        signals,
        hardware: link_of(&member.namespace, "eth0").1,
        thread,
    }
}

pub(crate) fn link_of(namespace: &NetworkNamespace, name: &str) -> (LinkIndex, EthernetAddress) {
    let mut connection = Connection::open_in(namespace).expect("a connection");
    let links = connection.links().expect("links");
    let link = links.into_iter().find(|link| link.name == name).expect("a link");
    (link.index, link.ethernet.expect("an Ethernet address"))
}

/// Sets a port of the bridge up or down.
pub(crate) fn set_link(cluster: &Cluster, port: usize, up: bool) {
    let mut connection = Connection::open_in(&cluster.underlay().namespace).expect("a connection");
    let name = format!("port{port}").parse().expect("a name");
    let link = connection.link_index(&name).expect("the port");
    let change = LinkChange {
        up: Some(up),
        ..LinkChange::default()
    };
    connection.change_link(link, &change).expect("changed");
}

/// Sends a request to the API.
pub(crate) fn request_api(
    cluster: &Cluster,
    config: &Config,
    method: Method,
    path: &str,
    kind: &str,
    body: &Value,
) {
    request(cluster, config, method, path, kind, Some(body));
}

/// Waits until an object in the API satisfies a condition.
pub(crate) fn wait_for_object(
    cluster: &Cluster,
    config: &Config,
    path: &str,
    is_expected: impl Fn(&Value) -> bool + Sync,
) {
    let control_plane = cluster.control_plane().expect("a control plane");
    let waiting = || {
        runtime().block_on(async {
            let client = Client::new(config.clone()).expect("a client");
            let end = Instant::now() + TIMEOUT;
            loop {
                let found = client.get::<Value>(path).await.unwrap_or_default();
                if is_expected(&found) {
                    return;
                }
                assert!(Instant::now() < end, "{path} stays {found:#}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    };
    control_plane.enter(waiting).expect("its namespace");
}

/// Waits until all three are members.
pub(crate) fn wait_for_members(cluster: &Cluster, config: &Config) {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-announcer";
    wait_for_object(cluster, config, path, |lease| {
        let record = lease["metadata"]["annotations"]["portolan.dev/announcers"].as_str();
        let record: Value = serde_json::from_str(record.unwrap_or("null")).expect("JSON");
        let count = record["members"].as_object().map_or(0, serde_json::Map::len);
        count == 3 && record.get("joining").is_none()
    });
}
