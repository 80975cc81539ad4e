//! Announcing on a network of namespaces, seen from a client on it: who answers for an address, on the wire.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use apiserver::{Access, NODE_PORTS_DEFAULT, Server};
use balancer::announce::{LinkSelection, Metrics, NodeName, Settings, rendezvous};
use client::{Client, Config, JSON};
use http::Method;
use netlink::packet::{Frames, PacketSocket};
use netlink::route::{Connection, LinkChange};
use serde_json::{Value, json};
use store::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use testbed::{Cluster, Topology};

/// Longest wait for something that has to happen; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 200);
/// Pause between two questions of the client.
const QUESTION_PERIOD: Duration = Duration::from_millis(20);

type Hardware = [u8; 6];

/// An announcer on a thread of its own in its node's namespace.
struct Announcer {
    orders: Sender<Order>,
    hardware: Hardware,
}

enum Order {
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

/// An API server on the control plane, with a balancer; what its clients are configured with.
fn start_api(cluster: &Arc<Cluster>, directory: &TempDir) -> Config {
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
                service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
                node_ports: NODE_PORTS_DEFAULT,
                cluster_domain: "cluster.local".to_owned(),
                kubernetes_service: apiserver::KubernetesService::default(),
                access: Access::default(),
            };
            let _server = Server::start(config, Arc::new(store)).await.expect("a server");
            let config = Config::from_kubeconfig(&path.join("admin.conf")).expect("a kubeconfig");
            let client = Client::new(config.clone()).expect("a client");
            fill(&client, tell, config).await;
            balancer::run(client, balancer::Options::default(), std::future::pending()).await;
        });
    });
    told.recv_timeout(PATIENCE).expect("an API server")
}

/// Creates the Nodes, a pool of one address and a Service.
async fn fill(client: &Client, tell: Sender<Config>, config: Config) {
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
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": [format!("{ADDRESS}-{ADDRESS}")]},
    });
    create(client, "/apis/portolan.dev/v1alpha1/addresspools", pool).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    create(client, "/api/v1/namespaces/default/services", service).await;
    tell.send(config).expect("somebody waits");
}

async fn create(client: &Client, path: &str, object: Value) {
    let created = client.request(Method::POST, path, JSON, Some(&object)).await;
    created.expect("created");
}

fn start_announcer(cluster: &Arc<Cluster>, config: &Config, name: &str) -> Announcer {
    let member = cluster.member(name).expect("a member");
    let (orders, taken) = channel();
    let settings = Settings {
        node_name: name.to_owned(),
        node_ip: None,
        port: 7_947,
        links: LinkSelection::default(),
        served: None,
    };
    let config = config.clone();
    spawn_in(cluster, name, move || {
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
        hardware: hardware_of(member),
    }
}

fn hardware_of(member: &testbed::Member) -> Hardware {
    let mut connection = Connection::open_in(&member.namespace).expect("a connection");
    let links = connection.links().expect("links");
    let link = links
        .into_iter()
        .find(|link| link.name == "eth0")
        .expect("a link");
    link.ethernet.expect("an Ethernet address")
}

/// The client, on the outside.
struct Asker {
    socket: PacketSocket,
    hardware: Hardware,
    /// Who said that it has the address, one entry for each change.
    seen: Vec<Hardware>,
}

impl Asker {
    fn start(cluster: &Cluster) -> Self {
        let outside = cluster.outside().expect("the outside");
        let mut connection = Connection::open_in(&outside.namespace).expect("a connection");
        let link = connection
            .link_index(&"eth0".parse().expect("a name"))
            .expect("a link");
        let socket = outside.enter(|| PacketSocket::open(link, Frames::Arp));
        Self {
            socket: socket.expect("the namespace").expect("a socket"),
            hardware: hardware_of(outside),
            seen: Vec::new(),
        }
    }

    /// Asks again and again, for a while, or until only the one who is awaited has answered since.
    fn until(&mut self, lasts: Duration, is_awaited: impl Fn(&Hardware) -> bool) -> Option<Hardware> {
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            self.ask();
            thread::sleep(QUESTION_PERIOD);
            if let Some(last) = self.listen()
                && is_awaited(&last)
            {
                return Some(last);
            }
        }
        None
    }

    fn ask(&self) {
        let mut frame = vec![0xff; 6];
        frame.extend(self.hardware);
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(self.hardware);
        frame.extend([172, 30, 0, 100, 0, 0, 0, 0, 0, 0]);
        frame.extend(ADDRESS.octets());
        self.socket.send(&frame).expect("sent");
    }

    /// Takes in what came; who said last that it has the address.
    fn listen(&mut self) -> Option<Hardware> {
        let mut frame = [0; 128];
        let mut last = None;
        loop {
            match self.socket.receive(&mut frame) {
                Ok(_) if frame[28..32] == ADDRESS.octets() => {
                    let hardware = frame[22..28].try_into().expect("six bytes");
                    if self.seen.last() != Some(&hardware) {
                        self.seen.push(hardware);
                    }
                    last = Some(hardware);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return last,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn one_node_answers_whatever_happens_to_it() {
    testbed::in_namespace(|| {
        let topology = Topology::with_nodes(3).expect("three nodes");
        let cluster = Arc::new(Cluster::start(topology).expect("a cluster"));
        let directory = tempfile::tempdir().expect("a directory");
        let config = start_api(&cluster, &directory);
        let start = |name: &str| start_announcer(&cluster, &config, name);
        let mut announcers: Vec<Announcer> = ["node-1", "node-2", "node-3"].map(start).into();
        let mut asker = Asker::start(&cluster);
        // The three find each other, and while they do, the address may move.
        await_members(&cluster, &config);
        asker.until(Duration::from_secs(2), |_| false);
        asker.seen.clear();
        let names = ["node-1", "node-2", "node-3"].map(NodeName::from);
        let winner = rendezvous::winner(ADDRESS.into(), names.iter());
        let owner_number = names.iter().position(|name| Some(name) == winner);
        let owner_number = owner_number.expect("a winner");
        let owner = announcers[owner_number].hardware;
        asker.until(PATIENCE, |last| *last == owner).expect("an owner");

        // Frozen: another one answers, and when it wakes up, it gets the address back by being given it.
        let order = |announcer: &Announcer, order| announcer.orders.send(order).expect("it runs");
        order(&announcers[owner_number], Order::Freeze(Duration::from_secs(4)));
        let second = asker
            .until(PATIENCE, |last| *last != owner)
            .expect("another owner");
        asker
            .until(PATIENCE, |last| *last == owner)
            .expect("the owner again");

        // Cut off from all: another one answers; and so again.
        let port = owner_number + 1;
        set_link(&cluster, port, false);
        asker
            .until(PATIENCE, |last| *last == second)
            .expect("the same choice");
        set_link(&cluster, port, true);
        asker
            .until(PATIENCE, |last| *last == owner)
            .expect("the owner again");

        // Dead, and started anew.
        order(&announcers[owner_number], Order::Die);
        asker
            .until(PATIENCE, |last| *last == second)
            .expect("another owner");
        let name = format!("node-{}", owner_number + 1);
        announcers[owner_number] = start_announcer(&cluster, &config, &name);
        asker
            .until(PATIENCE, |last| *last == owner)
            .expect("the owner again");

        // Asked to end: handed over.
        order(&announcers[owner_number], Order::End);
        asker
            .until(PATIENCE, |last| *last == second)
            .expect("another owner");

        // Two who answer at the same time would be seen by turns, with every question anew. A busy machine may have
        // moved the address once or twice more than it was made to.
        asker.until(Duration::from_secs(1), |_| false);
        let made_to = 8;
        assert!(asker.seen.len() < 2 * made_to, "{:?}", asker.seen);
        told_of(&cluster, &config);
    });
}

/// Sets a port of the bridge up or down.
fn set_link(cluster: &Cluster, port: usize, up: bool) {
    let mut connection = Connection::open_in(&cluster.underlay().namespace).expect("a connection");
    let name = format!("port{port}").parse().expect("a name");
    let link = connection.link_index(&name).expect("the port");
    let change = LinkChange {
        up: Some(up),
        ..LinkChange::default()
    };
    connection.change_link(link, &change).expect("changed");
}

/// Waits until something in the API is as it should be.
fn await_api(cluster: &Cluster, config: &Config, path: &str, is_so: impl Fn(&Value) -> bool + Sync) {
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
fn await_members(cluster: &Cluster, config: &Config) {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-announcer";
    await_api(cluster, config, path, |lease| {
        let record = lease["metadata"]["annotations"]["portolan.dev/announcers"].as_str();
        let record: Value = serde_json::from_str(record.unwrap_or("null")).expect("JSON");
        let count = record["members"].as_object().map_or(0, serde_json::Map::len);
        count == 3 && record.get("joining").is_none()
    });
}

/// Waits for the Event that says who announces.
fn told_of(cluster: &Cluster, config: &Config) {
    await_api(cluster, config, "/api/v1/namespaces/default/events", |list| {
        let events = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        events.iter().any(|event| {
            event["reason"] == "nodeAssigned"
                && event["message"]
                    .as_str()
                    .is_some_and(|text| text.starts_with("announcing from node"))
        })
    });
}
