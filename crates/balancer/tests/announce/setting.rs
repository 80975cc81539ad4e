//! A cluster with an API server, what assigns addresses, and announcers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use apiserver::{Access, NODE_PORTS_DEFAULT, Server};
use balancer::announce::{LinkSelection, Metrics, Settings};
use client::{Client, Config, JSON};
use http::Method;
use netlink::route::{Connection, LinkIndex, NetworkNamespace};
use serde_json::{Value, json};
use store::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use testbed::Cluster;

/// Longest wait for something that has to happen; only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 200);
/// An address that every node may answer for, on every link.
pub const OTHER: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 201);
/// An address of the edge.
pub const EDGE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 202);
pub const SERVICES: &str = "/api/v1/namespaces/default/services";
pub const POOLS: &str = "/apis/portolan.dev/v1alpha1/addresspools";
/// Pause between two questions of the client.
pub const QUESTION_PERIOD: Duration = Duration::from_millis(20);

pub type Hardware = [u8; 6];

/// An announcer on a thread of its own in its node's namespace.
pub struct Announcer {
    pub orders: Sender<Order>,
    pub hardware: Hardware,
}

pub enum Order {
    /// To stand still for so long.
    Freeze(Duration),
    /// To be gone at once.
    Die,
    /// To end as a process that is asked to.
    End,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Runs `work` on a thread in a member's namespace.
fn spawn_in(cluster: &Arc<Cluster>, member: &str, work: impl FnOnce() + Send + 'static) {
    let (cluster, member) = (Arc::clone(cluster), member.to_owned());
    thread::spawn(move || {
        let member = cluster.member(&member).expect("a member");
        member.enter(work).expect("its namespace");
    });
}

/// How the API is reached: as the administrator, as announcers do, and as announcers whose role is of before pools said
/// anything about announcing.
pub struct Api {
    pub admin: Config,
    pub announcer: Config,
    pub earlier: Config,
}

/// The user whose role is to be made.
pub const EARLIER: &str = "announcer-of-before";

/// An API server on the control plane, with a balancer.
pub fn start_api(cluster: &Arc<Cluster>, directory: &TempDir) -> Api {
    let path = directory.path().to_owned();
    let ip = cluster.topology.control_plane.address.ipv4;
    let (tell, told) = channel();
    spawn_in(cluster, "control-plane", move || {
        runtime().block_on(async {
            let store = SqliteStore::open(path.join("store"), SqliteOptions::default()).expect("a store");
            let config = apiserver::Config {
                listen: (ip, 0).into(),
                kubeconfig: Some(path.join("admin.conf")),
                token_auth_file: None,
                data_dir: path.clone(),
                node_name: "control-plane".to_owned(),
                advertise_address: Some(ip.into()),
                service_cidrs: ["10.96.0.0/16", "fd00:10:96::/112"]
                    .map(|range| range.parse().expect("a range"))
                    .to_vec(),
                node_ports: NODE_PORTS_DEFAULT,
                cluster_domain: "cluster.local".to_owned(),
                kubernetes_service: apiserver::KubernetesService::default(),
                access: Access::default(),
            };
            let server = Server::start(config, Arc::new(store)).await.expect("a server");
            let admin = Config::from_kubeconfig(&path.join("admin.conf")).expect("a kubeconfig");
            let as_user = |user: &str| {
                let issued =
                    apiserver::pki::client(&path.join("pki"), user, user, "").expect("a certificate");
                let pair = issued.pair;
                Config {
                    server: apiserver::kubeconfig::server_url(server.address()),
                    certificate_authority: issued.authority.into_bytes(),
                    client_certificate: Some((pair.certificate.into_bytes(), pair.key.into_bytes())),
                    ..Config::default()
                }
            };
            let client = Client::new(admin.clone()).expect("a client");
            fill(&client).await;
            let api = Api {
                announcer: as_user("system:portolan-announcer"),
                earlier: as_user(EARLIER),
                admin,
            };
            tell.send(api).expect("somebody waits");
            let options = balancer::Options {
                has_edges: true,
                ..balancer::Options::default()
            };
            balancer::run(client, options, std::future::pending()).await;
        });
    });
    told.recv_timeout(PATIENCE).expect("an API server")
}

/// Creates the Nodes, a pool of one address and a Service.
async fn fill(client: &Client) {
    for (name, ip) in [("node-1", 11), ("node-2", 12), ("node-3", 13)] {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        create(client, "/api/v1/nodes", node).await;
        let status =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": format!("172.30.0.{ip}")}]}});
        let path = format!("/api/v1/nodes/{name}/status");
        let patched = client
            .request(Method::PATCH, &path, client::MERGE_PATCH, Some(&status))
            .await;
        patched.expect("patched");
    }
    create(client, POOLS, pool("p", &[ADDRESS.into()])).await;
    create(client, SERVICES, service("a", json!({}))).await;
}

pub fn pool(name: &str, addresses: &[IpAddr]) -> Value {
    let addresses = addresses.iter().map(|address| format!("{address}-{address}"));
    json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": name},
        "spec": {"addresses": addresses.collect::<Vec<_>>()},
    })
}

pub fn service(name: &str, more: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    for (field, value) in more.as_object().expect("fields") {
        service["spec"][field] = value.clone();
    }
    service
}

async fn create(client: &Client, path: &str, object: Value) {
    let created = client.request(Method::POST, path, JSON, Some(&object)).await;
    created.expect("created");
}

pub fn start_announcer(cluster: &Arc<Cluster>, config: &Config, name: &str) -> Announcer {
    start_with(cluster, config, name, false)
}

/// The same, with an edge that serves its address as soon as it is asked.
pub fn start_with(cluster: &Arc<Cluster>, config: &Config, name: &str, has_edge: bool) -> Announcer {
    let (serve, served) = tokio::sync::watch::channel(Arc::new(BTreeSet::from([EDGE.into()])));
    let member = cluster.member(name).expect("a member");
    let (orders, taken) = channel();
    let settings = Settings {
        node_name: name.to_owned(),
        node_ip: None,
        port: 7_947,
        links: LinkSelection::default(),
        served: has_edge.then_some(served),
    };
    let config = config.clone();
    spawn_in(cluster, name, move || {
        let _serve = serve;
        runtime().block_on(async {
            let client = Client::new(config).expect("a client");
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            let ended = async { drop(ended.await) };
            let running = balancer::announce::run(client, settings, Arc::<Metrics>::default(), ended);
            tokio::pin!(running);
            let mut end = Some(end);
            loop {
                match taken.try_recv() {
                    // Nothing else is on this thread, so nothing of the announcer goes on.
                    Ok(Order::Freeze(lasts)) => thread::sleep(lasts),
                    Ok(Order::Die) => return,
                    Ok(Order::End) => drop(end.take()),
                    Err(_) => {}
                }
                tokio::select! {
                    ended = &mut running => return ended.expect("a good end"),
                    () = tokio::time::sleep(Duration::from_millis(5)) => {}
                }
            }
        });
    });
    Announcer {
        orders,
        hardware: link_of(&member.namespace, "eth0").1,
    }
}

pub fn link_of(namespace: &NetworkNamespace, name: &str) -> (LinkIndex, Hardware) {
    let mut connection = Connection::open_in(namespace).expect("a connection");
    let links = connection.links().expect("links");
    let link = links.into_iter().find(|link| link.name == name).expect("a link");
    (link.index, link.ethernet.expect("an Ethernet address"))
}

/// Asks the API for something.
pub fn ask_api(cluster: &Cluster, config: &Config, method: Method, path: &str, kind: &str, body: &Value) {
    let control_plane = cluster.control_plane().expect("a control plane");
    let asking = || {
        runtime().block_on(async {
            let client = Client::new(config.clone()).expect("a client");
            client.request(method, path, kind, Some(body)).await.expect(path);
        });
    };
    control_plane.enter(asking).expect("its namespace");
}

/// Waits until something in the API is as it should be.
pub fn await_api(cluster: &Cluster, config: &Config, path: &str, is_so: impl Fn(&Value) -> bool + Sync) {
    let control_plane = cluster.control_plane().expect("a control plane");
    let waiting = || {
        runtime().block_on(async {
            let client = Client::new(config.clone()).expect("a client");
            let end = Instant::now() + PATIENCE;
            loop {
                let found = client.get::<Value>(path).await.unwrap_or_default();
                if is_so(&found) {
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
pub fn await_members(cluster: &Cluster, config: &Config) {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-announcer";
    await_api(cluster, config, path, |lease| {
        let record = lease["metadata"]["annotations"]["portolan.dev/announcers"].as_str();
        let record: Value = serde_json::from_str(record.unwrap_or("null")).expect("JSON");
        let count = record["members"].as_object().map_or(0, serde_json::Map::len);
        count == 3 && record.get("joining").is_none()
    });
}
