//! Crashes of the node process and of the API server, and odd objects, under traffic in network namespaces.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use testbed::{Cluster, RUN_DIRECTORY, Topology, exchange_udp, in_namespace, request_tcp};

use crate::support::{Component, wait_for};

/// How long a probe waits for an answer.
const PROBE: Duration = Duration::from_secs(2);
const KILLS: u16 = 5;
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// Port of the backend that answers `a`; the next one answers `b`.
const BACKEND: u16 = 7001;
const DNS_PORT: u16 = 10053;

/// An API server, a node with its proxy, and two backends beside the API server.
struct World {
    cluster: Cluster,
    kubeconfig: PathBuf,
    api: Option<Component>,
    proxy: Option<Component>,
}

impl World {
    /// With an API server of its own and a proxy on the node.
    fn start() -> World {
        let mut world = World::without_components();
        world.start_api();
        world.start_proxy();
        world
    }

    fn without_components() -> World {
        let topology = Topology::with_nodes(1).expect("a topology");
        let world = World {
            cluster: Cluster::start(topology).expect("a cluster"),
            kubeconfig: Path::new(RUN_DIRECTORY).join("admin.conf"),
            api: None,
            proxy: None,
        };
        for (port, answer) in [(BACKEND, "a"), (BACKEND + 1, "b")] {
            world.serve(port, answer);
        }
        world
    }

    fn address(&self) -> Ipv4Addr {
        self.cluster.topology.control_plane.address.ipv4
    }

    fn spawn(&self, member: &str, arguments: &[&str]) -> Component {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command
            .args(arguments)
            .arg("--log-level=error")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.cluster
            .spawn(member, &mut command)
            .expect("it starts")
            .into()
    }

    fn start_api(&mut self) {
        let address = SocketAddr::from((self.address(), 6443));
        self.api = Some(self.spawn(
            "control-plane",
            &[
                "apiserver",
                &format!("--listen={address}"),
                &format!("--data-dir={RUN_DIRECTORY}/api"),
                &format!("--write-kubeconfig={}", self.kubeconfig.display()),
            ],
        ));
        let connects = || TcpStream::connect_timeout(&address, PROBE).is_ok();
        let plane = self.cluster.control_plane().expect("a control plane");
        wait_for("the API server", || {
            self.kubeconfig.exists() && plane.enter(connects).expect("a namespace")
        });
    }

    fn start_proxy(&mut self) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let arguments = [
            "proxy",
            &kubeconfig,
            "--hostname-override=node-1",
            "--cluster-cidr=10.244.0.0/16",
        ];
        self.proxy = Some(self.spawn("node-1", &arguments));
    }

    /// All of Portolan in one process on the node.
    fn start_all_in_one(&mut self) {
        let address = SocketAddr::from((self.cluster.topology.nodes[0].member.address.ipv4, 6443));
        self.api = Some(self.spawn(
            "node-1",
            &[
                "up",
                &format!("--listen={address}"),
                &format!("--data-dir={RUN_DIRECTORY}/up"),
                &format!("--write-kubeconfig={}", self.kubeconfig.display()),
            ],
        ));
        let plane = self.cluster.control_plane().expect("a control plane");
        let connects = || TcpStream::connect_timeout(&address, PROBE).is_ok();
        wait_for("the API server", || {
            self.kubeconfig.exists() && plane.enter(connects).expect("a namespace")
        });
    }

    /// A backend that says one word to everybody.
    fn serve(&self, port: u16, word: &'static str) {
        let plane = self.cluster.control_plane().expect("a control plane");
        let listener = plane.enter(|| TcpListener::bind(("0.0.0.0", port)));
        let listener = listener.expect("a namespace").expect("a free port");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let answered = stream
                    .read_exact(&mut [0])
                    .and_then(|()| stream.write_all(word.as_bytes()));
                if let Err(error) = answered {
                    eprintln!("the backend {word}: {error}");
                }
            }
        });
    }

    fn call(&self, method: Method, path: &str, content_type: &str, body: Option<Value>) -> Value {
        let plane = self.cluster.control_plane().expect("a control plane");
        let call = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let client = Client::new(Config::from_kubeconfig(&self.kubeconfig)?)?;
                let answer = client.request(method, path, content_type, body.as_ref()).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer)
            })
        };
        let answer = plane.enter(call).expect("a namespace");
        answer.unwrap_or_else(|error| panic!("{error} for {body:?}"))
    }

    /// A Service at this address with an endpoint that is written by hand.
    fn create(&self, name: &str, ip: Ipv4Addr, port: u16) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"clusterIP": ip, "ports": [{"port": 80}]},
        });
        self.call(Method::POST, SERVICES, JSON, Some(service));
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": [self.address()]}], "ports": [{"port": port}],
        });
        self.call(Method::POST, SLICES, JSON, Some(slice));
    }

    fn delete(&self, name: &str) {
        for collection in [SERVICES, SLICES] {
            self.call(Method::DELETE, &format!("{collection}/{name}"), JSON, None);
        }
    }

    fn move_to(&self, name: &str, port: u16) {
        let patch = json!({"ports": [{"port": port}]});
        self.call(
            Method::PATCH,
            &format!("{SLICES}/{name}"),
            MERGE_PATCH,
            Some(patch),
        );
    }

    /// What a new connection from outside is answered.
    fn probe(&self, ip: Ipv4Addr) -> Option<String> {
        let outside = self.cluster.outside().expect("a client");
        let answer = request_tcp(outside, (ip, 80).into(), b"?", PROBE).ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    }

    fn wait_for_answer(&self, ip: Ipv4Addr, word: Option<&str>) {
        wait_for(&format!("{word:?} from {ip}"), || {
            self.probe(ip).as_deref() == word
        });
    }

    /// The address that DNS has for a Service of the default namespace.
    fn resolves_to(&self, name: &str, ip: Ipv4Addr) -> bool {
        let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in [name, "default", "svc", "cluster", "local"] {
            question.push(label.len() as u8);
            question.extend_from_slice(label.as_bytes());
        }
        question.extend_from_slice(&[0, 0, 1, 0, 1]);
        let outside = self.cluster.outside().expect("a client");
        let server = SocketAddr::new(IpAddr::V4(self.address()), DNS_PORT);
        exchange_udp(outside, server, &question, PROBE).is_ok_and(|answer| answer.ends_with(&ip.octets()))
    }
}

fn ip(last: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 96, 9, last as u8)
}

#[test]
fn traffic_goes_on_without_the_proxy_and_the_next_one_catches_up() {
    in_namespace(|| {
        let mut world = World::start();
        let stays = ip(1);
        world.create("stays", stays, BACKEND);
        world.wait_for_answer(stays, Some("a"));
        for round in 0..KILLS {
            let (goes, comes) = (ip(10 + 2 * round), ip(11 + 2 * round));
            let (now, next) = match round % 2 {
                0 => ("a", (BACKEND + 1, "b")),
                _ => ("b", (BACKEND, "a")),
            };
            world.create(&format!("goes-{round}"), goes, BACKEND);
            world.wait_for_answer(goes, Some("a"));
            // The proxy is killed in the middle of changes.
            for burst in 0..20 {
                world.create(
                    &format!("burst-{round}-{burst}"),
                    ip(100 + round * 20 + burst),
                    BACKEND,
                );
                if burst == 3 * round {
                    world.proxy = None;
                }
            }
            assert_eq!(world.probe(stays).as_deref(), Some(now), "without a proxy");
            world.move_to("stays", next.0);
            world.delete(&format!("goes-{round}"));
            world.create(&format!("comes-{round}"), comes, next.0);
            assert_eq!(
                world.probe(stays).as_deref(),
                Some(now),
                "nobody is there to hear of changes"
            );
            world.start_proxy();
            world.wait_for_answer(stays, Some(next.1));
            world.wait_for_answer(comes, Some(next.1));
            world.wait_for_answer(goes, None);
            for burst in 0..20 {
                world.wait_for_answer(ip(100 + round * 20 + burst), Some("a"));
            }
        }
    });
}

#[test]
fn traffic_and_names_go_on_without_the_api_server() {
    in_namespace(|| {
        let mut world = World::start();
        let kubeconfig = format!("--kubeconfig={}", world.kubeconfig.display());
        let listen = format!("--listen={}:{DNS_PORT}", world.address());
        let _dns = world.spawn("control-plane", &["dns", &kubeconfig, &listen, "--forward="]);
        world.create("before", ip(1), BACKEND);
        world.wait_for_answer(ip(1), Some("a"));
        wait_for("a name", || world.resolves_to("before", ip(1)));
        for round in 0..KILLS {
            world.api = None;
            assert_eq!(world.probe(ip(1)).as_deref(), Some("a"));
            assert!(world.resolves_to("before", ip(1)));
            world.start_api();
            let (name, address) = (format!("after-{round}"), ip(2 + round));
            world.create(&name, address, BACKEND + 1);
            world.wait_for_answer(address, Some("b"));
            wait_for("a new name", || world.resolves_to(&name, address));
            assert_eq!(world.probe(ip(1)).as_deref(), Some("a"));
        }
    });
}

#[test]
fn one_process_for_all_starts_again_on_what_a_crash_left() {
    in_namespace(|| {
        let mut world = World::without_components();
        world.start_all_in_one();
        world.create("stays", ip(1), BACKEND);
        world.wait_for_answer(ip(1), Some("a"));
        for (now, next) in [("a", (BACKEND + 1, "b")), ("b", (BACKEND, "a"))] {
            world.api = None;
            assert_eq!(world.probe(ip(1)).as_deref(), Some(now));
            world.start_all_in_one();
            world.move_to("stays", next.0);
            world.wait_for_answer(ip(1), Some(next.1));
        }
    });
}

#[test]
fn odd_objects_do_not_stop_the_others() {
    in_namespace(|| {
        let world = World::start();
        let node = world.cluster.topology.nodes[0].member.address.ipv4;
        let many_ports: Vec<Value> = (1..=500)
            .map(|n| json!({"name": format!("p{n}"), "port": n}))
            .collect();
        for (name, spec) in [
            // Two Services with one external address, which is the node's own at that.
            ("same-1", json!({"ports": [{"port": 81}], "externalIPs": [node]})),
            (
                "same-2",
                json!({"ports": [{"port": 81}], "externalIPs": [node, "198.51.100.7"]}),
            ),
            ("many-ports", json!({"ports": many_ports})),
            (
                "elsewhere",
                json!({"type": "ExternalName", "externalName": "example.org"}),
            ),
            ("no-ports", json!({"clusterIP": "None"})),
        ] {
            let service =
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
            world.call(Method::POST, SERVICES, JSON, Some(service));
        }
        let broadcast = json!([{"addresses": ["255.255.255.255"]}, {"addresses": ["0.0.0.1"]}]);
        let many: Vec<Value> = (0..1000)
            .map(|n| json!({"addresses": [format!("10.244.{}.{}", n / 250, n % 250)]}))
            .collect();
        for (name, owner, family, endpoints, ports) in [
            (
                "nobodys",
                "no-such-service",
                "IPv4",
                json!([{"addresses": ["10.244.1.1"]}]),
                json!([{"port": 1}]),
            ),
            (
                "names",
                "same-1",
                "FQDN",
                json!([{"addresses": ["pod.example.org"]}]),
                json!([{"port": 81}]),
            ),
            ("broadcast", "same-1", "IPv4", broadcast, json!([{"port": 81}])),
            (
                "other-family",
                "same-2",
                "IPv6",
                json!([{"addresses": ["fd00:244::1"]}]),
                json!([{"port": 81}]),
            ),
            (
                "all-ports",
                "same-2",
                "IPv4",
                json!([{"addresses": ["10.244.1.2"]}]),
                json!([{}]),
            ),
            (
                "many",
                "many-ports",
                "IPv4",
                many.into(),
                json!([{"name": "p1", "port": 1}, {"name": "p2", "port": 1}]),
            ),
            ("empty", "many-ports", "IPv4", json!([]), json!([])),
        ] {
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": owner}},
                "endpoints": endpoints, "ports": ports,
            });
            world.call(Method::POST, SLICES, JSON, Some(slice));
        }
        world.create("ordinary", ip(1), BACKEND);
        world.wait_for_answer(ip(1), Some("a"));
        world.move_to("ordinary", BACKEND + 1);
        world.wait_for_answer(ip(1), Some("b"));
    });
}
