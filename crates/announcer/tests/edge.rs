//! A Service with the annotations that the Kubernetes documentation shows for AWS, end to end on a network of
//! namespaces. The test covers TLS with its certificate, PROXY protocol, health checks, draining, access log,
//! conditions and Events.

#[path = "../../balancer/tests/support/mod.rs"]
mod support;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use announcer::{LinkSelection, Metrics};
use balancer::serving::{self, Addresses};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::{Value, json};
use testbed::{Backend, Cluster, Topology};
use tokio::sync::watch;

use support::{create, create_node, create_pool, request, spawn_in, start_api};

/// Longest wait for an expected change; only a failing test waits so long.
const TIMEOUT: Duration = Duration::from_secs(60);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 200);
const CLIENT: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 100);
/// Last part of the certificate's ARN, and name of the Secret.
const CERTIFICATE: &str = "12345678-1234-1234-1234-123456789012";
/// User of announcer and edge.
const LOAD_BALANCER: &str = "system:portolan-load-balancer";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Starts announcer and edge of a node, which run until the sender is dropped.
fn start_load_balancer(
    cluster: &Arc<Cluster>,
    config: &Config,
    logs: PathBuf,
) -> (Sender<()>, thread::JoinHandle<()>) {
    let (stop, stopped) = channel::<()>();
    let config = config.clone();
    let running = spawn_in(cluster, "node-1", move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let client = Client::new(config).expect("a client");
            let (end, ended) = watch::channel(false);
            thread::spawn(move || {
                // No message is ever sent: `recv` fails when the sender is dropped.
                assert!(stopped.recv().is_err());
                end.send_replace(true);
            });
            let until_ended = |mut ended: watch::Receiver<bool>| async move {
                drop(ended.wait_for(|ended| *ended).await);
            };
            let metrics = Arc::<Metrics>::default();
            let (served, follow_served) = watch::channel(Arc::<Addresses>::default());
            let announcing = announcer::run(
                client.clone(),
                announcer::Settings {
                    node_name: "node-1".to_owned(),
                    node_ip: None,
                    port: 7_947,
                    waits_for_port: false,
                    links: LinkSelection::default(),
                    metallb_namespace: None,
                    ignores_exclude_label: false,
                    served: Some(follow_served),
                },
                Arc::clone(&metrics),
                until_ended(ended.clone()),
            );
            let settings = serving::Settings {
                node_name: "node-1".to_owned(),
                owned: Some(metrics.subscribe_owned()),
                served,
                log_destinations: edge::log::Destinations {
                    directory: Some(logs),
                    // The file system of the tests may be almost full.
                    directory_limits: edge::log::DirectoryLimits {
                        free_percent_min: 0,
                        ..edge::log::DirectoryLimits::default()
                    },
                    ..edge::log::Destinations::default()
                },
                buckets: serving::AllowedBuckets::default(),
                connections_max: 0,
                shares: edge::Shares::default(),
                sticky_secrets: None,
                threads: 1,
                handover_socket: None,
                drain_timeout: Duration::from_secs(1),
                metrics: Arc::default(),
            };
            let serving = serving::run(client, settings, until_ended(ended));
            let (announced, served) = tokio::join!(announcing, serving);
            announced.expect("an end without error");
            served.expect("an end without error");
        });
    });
    (stop, running)
}

/// A TLS connection of the client.
struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Connection {
    /// Connects. Returns the backend's name and the PROXY header that it received.
    fn open(cluster: &Cluster, tls: &Arc<ClientConfig>) -> std::io::Result<(Self, String, String)> {
        let outside = cluster.outside().expect("the outside");
        let to = SocketAddr::from((ADDRESS, 443));
        let stream = outside
            .enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(2)))
            .expect("its namespace")?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let name = ServerName::try_from("www.example.com").expect("a name");
        let connection = ClientConnection::new(Arc::clone(tls), name).expect("a connection");
        let mut this = Self {
            stream: StreamOwned::new(connection, stream),
        };
        let line = this.line()?;
        let (backend, header) = line.split_once(' ').expect("name and header");
        let parts = (backend.to_owned(), header.trim_end().to_owned());
        Ok((this, parts.0, parts.1))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") {
            match self.stream.read(&mut byte)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                _ => line.push(byte[0]),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    fn is_echoed(&mut self) -> bool {
        let sent = self.stream.write_all(b"are you there?\n");
        sent.is_ok() && self.line().is_ok_and(|line| line == "are you there?\n")
    }
}

/// Waits until a condition holds.
fn wait_until<T>(subject: &str, look: impl FnMut() -> Option<T>) -> T {
    testbed::wait_until(subject, TIMEOUT, look)
}

/// Service of the documentation's examples.
fn service() -> Value {
    let aws = |name: &str| format!("service.beta.kubernetes.io/aws-load-balancer-{name}");
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "annotations": {
            aws("ssl-cert"): format!("arn:aws:acm:us-east-1:123456789012:certificate/{CERTIFICATE}"),
            aws("backend-protocol"): "tcp",
            aws("ssl-ports"): "https",
            aws("ssl-negotiation-policy"): "ELBSecurityPolicy-TLS13-1-2-2021-06",
            aws("proxy-protocol"): "*",
            aws("access-log-enabled"): "true",
            aws("access-log-emit-interval"): "5",
            aws("access-log-s3-bucket-name"): "my-bucket",
            aws("access-log-s3-bucket-prefix"): "my-bucket-prefix/prod",
            aws("connection-draining-enabled"): "true",
            aws("connection-draining-timeout"): "2",
            aws("connection-idle-timeout"): "60",
            aws("cross-zone-load-balancing-enabled"): "true",
            aws("additional-resource-tags"): "environment=prod,owner=devops",
            aws("healthcheck-protocol"): "HTTP",
            aws("healthcheck-port"): Backend::HEALTH_PORT.to_string(),
            aws("healthcheck-path"): "/healthz",
            aws("healthcheck-healthy-threshold"): "2",
            aws("healthcheck-unhealthy-threshold"): "2",
            aws("healthcheck-interval"): "5",
            aws("healthcheck-timeout"): "2",
        }},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "https", "port": 443, "targetPort": Backend::ECHO_PORT}]},
    })
}

fn slice(members: &[(&str, Ipv4Addr)]) -> Value {
    let endpoints: Vec<Value> = members
        .iter()
        .map(|(_, address)| json!({"addresses": [address.to_string()]}))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": endpoints, "ports": [{"name": "https", "protocol": "TCP", "port": Backend::ECHO_PORT}],
    })
}

/// Creates all objects. Returns the CA certificate for the client.
fn fill(cluster: &Cluster, admin: &Config, members: &[(&str, Ipv4Addr)]) -> String {
    create_node(cluster, admin, "node-1", "172.30.0.11");
    create_pool(cluster, admin, ADDRESS);
    let pair = rcgen::generate_simple_self_signed(vec!["www.example.com".to_owned()]).expect("a certificate");
    let encoded = |pem: &str| STANDARD.encode(pem);
    create(
        cluster,
        admin,
        "/api/v1/namespaces/default/secrets",
        &json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": CERTIFICATE}, "type": "kubernetes.io/tls",
            "data": {"tls.crt": encoded(&pair.cert.pem()), "tls.key": encoded(&pair.signing_key.serialize_pem())},
        }),
    );
    create(cluster, admin, SLICES, &slice(members));
    create(cluster, admin, SERVICES, &service());
    pair.cert.pem()
}

/// Lines of all files below a directory.
fn lines(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            lines.extend(self::lines(&path));
        } else {
            let text = fs::read_to_string(&path).expect("a log");
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    lines
}

#[test]
fn documented_aws_annotations_have_their_effect() {
    testbed::in_namespace(|| {
        let topology = Topology::with_nodes(2).expect("two nodes");
        let cluster = Arc::new(Cluster::start(topology).expect("a cluster"));
        let directory = tempfile::tempdir().expect("a directory");
        let logs = directory.path().join("logs");
        let api = start_api(&cluster, directory.path());
        let members = [
            ("node-2", cluster.topology.nodes[1].member.address.ipv4),
            ("control-plane", cluster.topology.control_plane.address.ipv4),
        ];
        let backends = members.map(|(name, _)| {
            let member = cluster.member(name).expect("a member");
            Backend::start(member).expect("free ports")
        });
        let authority = fill(&cluster, &api.admin, &members);
        let tls = client::tls_config(&Config {
            certificate_authority: authority.into_bytes(),
            ..Config::default()
        });
        let tls = Arc::new(tls.expect("TLS"));
        let (stop, running) = start_load_balancer(&cluster, &api.as_user(LOAD_BALANCER), logs.clone());

        // TLS ends at the edge, and the backend receives the client's address.
        let (mut first, backend, header) =
            wait_until("a connection", || Connection::open(&cluster, &tls).ok());
        assert!(
            header.starts_with(&format!("PROXY TCP4 {CLIENT} {ADDRESS} ")) && header.ends_with(" 443"),
            "{header}"
        );
        assert!(first.is_echoed());
        check_status_and_event(&cluster, &api.admin);

        // A removed backend keeps its connections while it drains; new ones go elsewhere.
        let rest: Vec<_> = members
            .iter()
            .copied()
            .filter(|(name, _)| *name != backend)
            .collect();
        let path = format!("{SLICES}/web");
        request(
            &cluster,
            &api.admin,
            Method::PATCH,
            &path,
            MERGE_PATCH,
            Some(&slice(&rest)),
        );
        let moved = || {
            Connection::open(&cluster, &tls)
                .ok()
                .filter(|(_, name, _)| *name != backend)
        };
        let (mut second, other, _) = wait_until("the other backend", moved);
        assert_eq!(other, rest[0].0);
        wait_until("the end of draining", || (!first.is_echoed()).then_some(()));
        assert!(second.is_echoed());

        follows_zone(&cluster, &api.admin, &tls, &members);

        // A backend that fails its health check receives no new connections.
        request(
            &cluster,
            &api.admin,
            Method::PATCH,
            &path,
            MERGE_PATCH,
            Some(&slice(&members)),
        );
        wait_until("both backends", || {
            let (_, name, _) = Connection::open(&cluster, &tls).ok()?;
            (name == backend).then_some(())
        });
        let unhealthy = backends.iter().find(|one| one.name == backend);
        unhealthy.expect("one of them").set_healthy(false);
        wait_until("only the healthy one", || {
            let names = (0..8).map(|_| Connection::open(&cluster, &tls).ok().map(|(_, name, _)| name));
            names
                .into_iter()
                .all(|name| name.as_deref() == Some(other.as_str()))
                .then_some(())
        });

        // Shutdown flushes the access log, in a directory with the bucket's name.
        drop((first, second));
        drop(stop);
        running.join().expect("an end without error");
        let found = lines(&logs.join("my-bucket"));
        assert!(
            found.iter().any(|line| line.contains(&CLIENT.to_string())),
            "{found:?} in {}",
            logs.display()
        );
        assert!(!is_local(&cluster), "the address belongs to no node");
    });
}

/// The node moves between zones while a connection is open; then zones are ignored again.
fn follows_zone(cluster: &Cluster, admin: &Config, tls: &Arc<ClientConfig>, members: &[(&str, Ipv4Addr)]) {
    let patch = |path: &str, body: Value| {
        request(cluster, admin, Method::PATCH, path, MERGE_PATCH, Some(&body));
    };
    let cross_zone = |is_on: &str| {
        let name = "service.beta.kubernetes.io/aws-load-balancer-cross-zone-load-balancing-enabled";
        patch(
            &format!("{SERVICES}/web"),
            json!({"metadata": {"annotations": {name: is_on}}}),
        );
    };
    let mut zoned = slice(members);
    for (number, (name, _)) in members.iter().enumerate() {
        zoned["endpoints"][number]["zone"] = json!(name);
    }
    patch(&format!("{SLICES}/web"), zoned);
    cross_zone("false");
    let mut open = Vec::new();
    for (zone, _) in members {
        let label = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
        patch("/api/v1/nodes/node-1", label);
        wait_until("only the near backend", || {
            let names = (0..8).map(|_| Connection::open(cluster, tls).ok().map(|(_, name, _)| name));
            names
                .into_iter()
                .all(|name| name.as_deref() == Some(*zone))
                .then_some(())
        });
        open.push(Connection::open(cluster, tls).expect("a connection").0);
    }
    assert!(
        open.iter_mut().all(Connection::is_echoed),
        "no connection was dropped"
    );
    patch(&format!("{SLICES}/web"), slice(members));
    cross_zone("true");
}

/// Checks that the status names the edge, and that an Event lists the annotations without effect.
fn check_status_and_event(cluster: &Cluster, admin: &Config) {
    let get = |path: &str| request(cluster, admin, Method::GET, path, JSON, None);
    let service = get(&format!("{SERVICES}/web"));
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"],
        json!([{"ip": ADDRESS.to_string(), "ipMode": "Proxy"}])
    );
    let event = wait_until("the Event", || {
        let list = get("/api/v1/namespaces/default/events");
        let events = list["items"].as_array().cloned().unwrap_or_default();
        events
            .into_iter()
            .find(|event| event["reason"] == "AnnotationsWithoutEffect")
    });
    assert_eq!(
        event["message"],
        "without effect outside of the cloud: \
         service.beta.kubernetes.io/aws-load-balancer-additional-resource-tags"
    );
}

/// Returns true if node-1 accepts packets for the address as its own.
fn is_local(cluster: &Cluster) -> bool {
    let node = cluster.member("node-1").expect("a member");
    node.enter(|| TcpListener::bind((ADDRESS, 0)).is_ok())
        .expect("its namespace")
}
