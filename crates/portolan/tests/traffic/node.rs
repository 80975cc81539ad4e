//! A node in one network namespace: API server, proxy, endpoints, and the commands under test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkName, Route};
use serde_json::{Value, json};
use testbed::skip_inside;

use crate::support::{Api, Component, is_installed, portolan, program, wait_for};

/// Address of the node, from which the test connects.
pub(crate) const CLIENT: &str = "192.0.2.10";
/// Endpoints of the Services `web` and `dns`.
pub(crate) const ENDPOINTS: [&str; 2] = ["10.244.1.2", "10.244.1.3"];
/// Endpoint without a host.
const SILENT_ENDPOINT: &str = "192.0.2.77";
/// Gateway without a host: packets to unknown addresses vanish.
const GATEWAY: &str = "192.0.2.1";
/// Interval of the commands: longer than the second after which a connection counts as unanswered.
const INTERVAL: &str = "--interval=1100ms";
/// Timeout of a connection that shows that the rules are written.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Running node.
pub(crate) struct Node {
    api: Api,
    _proxy: Component,
}

/// `portolan top services --watch -o json`, one interval a line.
pub(crate) struct Watch {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    /// Returns the next interval.
    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.process
            .kill()
            .and_then(|()| self.process.wait())
            .expect("a killed command");
    }
}

impl Node {
    /// Starts everything, and waits until the proxy has written its rules.
    pub(crate) fn start(mode: &str) -> Self {
        if mode == "iptables" && !is_installed("iptables", "--version") {
            skip_inside("iptables is not installed");
        }
        set_up_links();
        for endpoint in ENDPOINTS {
            serve(endpoint.parse().expect("an address"));
        }
        let api = Api::start();
        create_objects(&api);
        let kubeconfig = api.kubeconfig().display().to_string();
        let proxy = portolan(&[
            "proxy",
            &format!("--kubeconfig={kubeconfig}"),
            "--hostname-override=node-a",
            "--cluster-cidr=10.244.0.0/16",
            &format!("--proxy-mode={mode}"),
            "--conntrack-max-per-core=0",
        ]);
        let web = SocketAddr::from(([10, 96, 0, 5], 80));
        wait_for("the rules of the proxy", || {
            TcpStream::connect_timeout(&web, CONNECT_TIMEOUT).is_ok()
        });
        Self { api, _proxy: proxy }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .args([INTERVAL, "--node=node-a"])
            .arg(format!("--kubeconfig={}", self.api.kubeconfig().display()))
            .stdin(Stdio::null());
        command
    }

    /// Starts the watch, with byte counters.
    pub(crate) fn watch(&self) -> Watch {
        let arguments = [
            "top",
            "services",
            "-n",
            "shop",
            "--local",
            "--enable-accounting",
            "--watch",
            "-o",
            "json",
        ];
        let mut process = self
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary under test");
        let lines = BufReader::new(process.stdout.take().expect("a pipe"));
        Watch { process, lines }
    }

    /// Runs a command and returns its JSON.
    pub(crate) fn run(&self, arguments: &[&str]) -> Value {
        let (stdout, stderr) = self.text(arguments, &["--local"]);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"))
    }

    /// Runs a command and returns its output.
    pub(crate) fn text(&self, arguments: &[&str], more: &[&str]) -> (String, String) {
        let output = self.command(&[arguments, more].concat()).output();
        let output = output.expect("the binary under test");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
        (stdout, stderr)
    }
}

/// Adds the addresses of the node and of the endpoints, and a default route.
fn set_up_links() {
    let mut connection = Connection::open().expect("a socket");
    let name: LinkName = "eth0".parse().expect("a name");
    connection.add_bridge(&name).expect("a link");
    let link = connection.link_index(&name).expect("a link");
    connection.change_link(link, &LinkChange::up()).expect("a link");
    let addresses = [format!("{CLIENT}/24")];
    let endpoints = ENDPOINTS.map(|address| format!("{address}/32"));
    for address in addresses.iter().chain(&endpoints) {
        let network: IpNet = address.parse().expect("a network");
        connection.add_address(link, network).expect("an address");
    }
    let gateway: IpAddr = GATEWAY.parse().expect("an address");
    connection
        .add_route(&Route::default_via(gateway))
        .expect("a route");
}

/// Serves TCP on port 8080, and UDP on port 5353: the reply is the request, twice.
fn serve(address: IpAddr) {
    let listener = TcpListener::bind((address, 8080)).expect("a listener");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            std::thread::spawn(move || reply(&stream));
        }
    });
    let socket = UdpSocket::bind((address, 5353)).expect("a socket");
    std::thread::spawn(move || {
        let mut request = [0; 1_000];
        while let Ok((bytes, client)) = socket.recv_from(&mut request) {
            socket.send_to(&request[..bytes], client).expect("a client");
        }
    });
}

fn reply(mut stream: &TcpStream) {
    let mut request = [0; 1_000];
    while let Ok(bytes @ 1..) = stream.read(&mut request) {
        let twice = request[..bytes].repeat(2);
        if stream.write_all(&twice).is_err() {
            return;
        }
    }
}

/// Sends a request and reads the reply.
pub(crate) fn exchange(mut stream: &TcpStream, request: &[u8]) {
    stream.write_all(request).expect("a connection");
    let mut reply = vec![0; 2 * request.len()];
    stream.read_exact(&mut reply).expect("a reply");
}

fn create_objects(api: &Api) {
    let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = Client::new(config).expect("a client");
        for (path, object) in objects() {
            let created = client.request(Method::POST, &path, JSON, Some(&object)).await;
            created.unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": CLIENT}]}});
        let path = "/api/v1/nodes/node-a/status";
        let patched = client
            .request(Method::PATCH, path, MERGE_PATCH, Some(&status))
            .await;
        patched.expect("the addresses of the Node");
    });
}

/// Returns the objects with the paths of their collections.
fn objects() -> Vec<(String, Value)> {
    let mut objects = vec![
        (
            "/api/v1/nodes".to_owned(),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}}),
        ),
        (
            "/api/v1/namespaces".to_owned(),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        ),
    ];
    for (name, ip, protocol, port, target, endpoints) in [
        ("web", "10.96.0.5", "TCP", 80, 8080, ENDPOINTS.to_vec()),
        ("closed", "10.96.0.6", "TCP", 80, 9999, vec![ENDPOINTS[0]]),
        ("silent", "10.96.0.7", "TCP", 80, 80, vec![SILENT_ENDPOINT]),
        ("dns", "10.96.0.10", "UDP", 53, 5353, ENDPOINTS.to_vec()),
    ] {
        objects.push((
            "/api/v1/namespaces/shop/services".to_owned(),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"clusterIP": ip, "ports": [{"port": port, "protocol": protocol}]}}),
        ));
        let endpoints: Vec<Value> = endpoints.iter().map(|ip| json!({"addresses": [ip]})).collect();
        objects.push((
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices".to_owned(),
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": "", "port": target, "protocol": protocol}], "endpoints": endpoints}),
        ));
    }
    objects
}
