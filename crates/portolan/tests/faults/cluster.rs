//! Crashes of the node proxy and of the API server under traffic, and unusual objects, in network namespaces.

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

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Crashes of a component in a test.
const KILLS: u16 = 5;
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// Port of the backend that responds with `a`; the next port responds with `b`.
const BACKEND: u16 = 7001;
const DNS_PORT: u16 = 10053;

/// API server, node with a proxy, and two backends on the host of the API server.
struct World {
    cluster: Cluster,
    kubeconfig: PathBuf,
    api: Option<Component>,
    proxy: Option<Component>,
}

impl World {
    /// Starts the API server, and the proxy on the node.
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
        for (port, word) in [(BACKEND, "a"), (BACKEND + 1, "b")] {
            world.serve(port, word);
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
            .expect("the binary under test")
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
        let connects = || TcpStream::connect_timeout(&address, PROBE_TIMEOUT).is_ok();
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

    /// Starts `portolan up` on the node.
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
        let connects = || TcpStream::connect_timeout(&address, PROBE_TIMEOUT).is_ok();
        wait_for("the API server", || {
            self.kubeconfig.exists() && plane.enter(connects).expect("a namespace")
        });
    }

    /// Starts a backend that responds with a word to each connection.
    fn serve(&self, port: u16, word: &'static str) {
        let plane = self.cluster.control_plane().expect("a control plane");
        let listener = plane.enter(|| TcpListener::bind(("0.0.0.0", port)));
        let listener = listener.expect("a namespace").expect("a free port");
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let result = stream
                    .read_exact(&mut [0])
                    .and_then(|()| stream.write_all(word.as_bytes()));
                if let Err(error) = result {
                    eprintln!("backend {word}: {error}");
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
                let response = client.request(method, path, content_type, body.as_ref()).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response)
            })
        };
        let response = plane.enter(call).expect("a namespace");
        response.unwrap_or_else(|error| panic!("{error} for {body:?}"))
    }

    /// Creates a Service with a cluster IP and an EndpointSlice for a backend.
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

    fn set_backend(&self, name: &str, port: u16) {
        let patch = json!({"ports": [{"port": port}]});
        self.call(
            Method::PATCH,
            &format!("{SLICES}/{name}"),
            MERGE_PATCH,
            Some(patch),
        );
    }

    /// Returns the response to a new connection from outside.
    fn probe(&self, ip: Ipv4Addr) -> Option<String> {
        let outside = self.cluster.outside().expect("a client");
        let response = request_tcp(outside, (ip, 80).into(), b"?", PROBE_TIMEOUT).ok()?;
        Some(String::from_utf8_lossy(&response).into_owned())
    }

    fn wait_for_response(&self, ip: Ipv4Addr, word: Option<&str>) {
        wait_for(&format!("{word:?} from {ip}"), || {
            self.probe(ip).as_deref() == word
        });
    }

    /// Returns true if DNS resolves a Service of the namespace `default` to an address.
    fn resolves_to(&self, name: &str, ip: Ipv4Addr) -> bool {
        let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in [name, "default", "svc", "cluster", "local"] {
            query.push(label.len() as u8);
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, 1, 0, 1]);
        let outside = self.cluster.outside().expect("a client");
        let server = SocketAddr::new(IpAddr::V4(self.address()), DNS_PORT);
        exchange_udp(outside, server, &query, PROBE_TIMEOUT)
            .is_ok_and(|response| response.ends_with(&ip.octets()))
    }
}

fn ip(last: u16) -> Ipv4Addr {
    Ipv4Addr::new(10, 96, 9, last as u8)
}

#[test]
fn traffic_survives_proxy_crashes_and_the_next_proxy_resyncs() {
    in_namespace(|| {
        let mut world = World::start();
        let stable = ip(1);
        world.create("stable", stable, BACKEND);
        world.wait_for_response(stable, Some("a"));
        for round in 0..KILLS {
            let (deleted, created) = (ip(10 + 2 * round), ip(11 + 2 * round));
            let (current, next) = match round % 2 {
                0 => ("a", (BACKEND + 1, "b")),
                _ => ("b", (BACKEND, "a")),
            };
            world.create(&format!("deleted-{round}"), deleted, BACKEND);
            world.wait_for_response(deleted, Some("a"));
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
            assert_eq!(world.probe(stable).as_deref(), Some(current), "without a proxy");
            world.set_backend("stable", next.0);
            world.delete(&format!("deleted-{round}"));
            world.create(&format!("created-{round}"), created, next.0);
            assert_eq!(
                world.probe(stable).as_deref(),
                Some(current),
                "without a proxy changes are not applied"
            );
            world.start_proxy();
            world.wait_for_response(stable, Some(next.1));
            world.wait_for_response(created, Some(next.1));
            world.wait_for_response(deleted, None);
            for burst in 0..20 {
                world.wait_for_response(ip(100 + round * 20 + burst), Some("a"));
            }
        }
    });
}

#[test]
fn traffic_and_dns_survive_crashes_of_the_api_server() {
    in_namespace(|| {
        let mut world = World::start();
        let kubeconfig = format!("--kubeconfig={}", world.kubeconfig.display());
        let listen = format!("--listen={}:{DNS_PORT}", world.address());
        let _dns = world.spawn("control-plane", &["dns", &kubeconfig, &listen, "--forward="]);
        world.create("before", ip(1), BACKEND);
        world.wait_for_response(ip(1), Some("a"));
        wait_for("a DNS record", || world.resolves_to("before", ip(1)));
        for round in 0..KILLS {
            world.api = None;
            assert_eq!(world.probe(ip(1)).as_deref(), Some("a"));
            assert!(world.resolves_to("before", ip(1)));
            world.start_api();
            let (name, address) = (format!("after-{round}"), ip(2 + round));
            world.create(&name, address, BACKEND + 1);
            world.wait_for_response(address, Some("b"));
            wait_for("a new DNS record", || world.resolves_to(&name, address));
            assert_eq!(world.probe(ip(1)).as_deref(), Some("a"));
        }
    });
}

#[test]
fn up_restarts_after_a_crash() {
    in_namespace(|| {
        let mut world = World::without_components();
        world.start_all_in_one();
        world.create("stable", ip(1), BACKEND);
        world.wait_for_response(ip(1), Some("a"));
        for (current, next) in [("a", (BACKEND + 1, "b")), ("b", (BACKEND, "a"))] {
            world.api = None;
            assert_eq!(world.probe(ip(1)).as_deref(), Some(current));
            world.start_all_in_one();
            world.set_backend("stable", next.0);
            world.wait_for_response(ip(1), Some(next.1));
        }
    });
}

#[test]
fn unusual_objects_do_not_stop_other_services() {
    in_namespace(|| {
        let world = World::start();
        let node = world.cluster.topology.nodes[0].member.address.ipv4;
        let many_ports: Vec<Value> = (1..=500)
            .map(|number| json!({"name": format!("p{number}"), "port": number}))
            .collect();
        for (name, spec) in [
            // Two Services with the same external IP, which is an address of the node.
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
            .map(|number| json!({"addresses": [format!("10.244.{}.{}", number / 250, number % 250)]}))
            .collect();
        for (name, owner, family, endpoints, ports) in [
            (
                "orphan",
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
        world.wait_for_response(ip(1), Some("a"));
        world.set_backend("ordinary", BACKEND + 1);
        world.wait_for_response(ip(1), Some("b"));
    });
}
