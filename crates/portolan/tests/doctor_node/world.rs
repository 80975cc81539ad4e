//! Two nodes with a bridge and a Pod each, an API server, and the proxy of the first node.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, ClientError, Config, JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use netlink::nftables::Nftables;
use netlink::route::{Connection, LinkChange, LinkName, Master, NetworkNamespace, Route};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};
use testbed::{Cluster, Member, RUN_DIRECTORY, Topology};

use crate::support::{Component, program, wait_for};

/// Timeout of a connection that shows that a server listens.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Name of the examined node.
pub(crate) const NODE: &str = "node-1";
/// Namespace and name of the Service.
pub(crate) const SERVICE: &str = "default/web";
/// Cluster IP and node port of the Service.
pub(crate) const CLUSTER_IP: &str = "10.96.0.77";
pub(crate) const NODE_PORT: u16 = 30_080;
/// Port of the Pods.
pub(crate) const TARGET_PORT: u16 = 8_080;

/// Running world.
pub(crate) struct World {
    pub cluster: Cluster,
    kubeconfig: PathBuf,
    pub pods: Vec<NetworkNamespace>,
    /// Process of each Pod.
    servers: Vec<Option<Component>>,
    api: Option<Component>,
    proxy: Option<Child>,
    /// Further processes of a test.
    pub others: Vec<Component>,
}

impl Drop for World {
    fn drop(&mut self) {
        if self.proxy.is_some() {
            self.kill_proxy();
        }
    }
}

impl World {
    /// Starts everything, and waits until the proxy has written its rules.
    pub(crate) fn start() -> Self {
        let topology = Topology::with_nodes(2).expect("a topology");
        let mut world = Self {
            cluster: Cluster::start(topology).expect("a cluster"),
            kubeconfig: Path::new(RUN_DIRECTORY).join("admin.conf"),
            pods: Vec::new(),
            servers: Vec::new(),
            api: None,
            proxy: None,
            others: Vec::new(),
        };
        for number in 0..2 {
            let namespace = world.connect_pod(number);
            world.pods.push(namespace);
            world.servers.push(None);
            world.serve(
                number,
                &["internal-echo", "--port", &format!("{TARGET_PORT}/TCP")],
            );
        }
        world.start_api();
        world.create_objects();
        world.start_proxy();
        world
    }

    /// Returns the examined node.
    pub(crate) fn node(&self) -> &Member {
        self.cluster.member(NODE).expect("a node")
    }

    /// Path of the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> String {
        self.kubeconfig.display().to_string()
    }

    /// Connects a Pod with a bridge on its node. Addresses are .1 and .10 of the node's range.
    fn connect_pod(&self, number: usize) -> NetworkNamespace {
        let node = &self.cluster.topology.nodes[number];
        let member = self.cluster.member(&node.member.name).expect("a node");
        let address = |host: u8| {
            let [a, b, c, _] = node.pods.ipv4.network().octets();
            Ipv4Addr::new(a, b, c, host)
        };
        let network = |host: u8| IpNet::new(address(host).into(), 24).expect("a network");
        let name = |text: &str| text.parse::<LinkName>().expect("a name");
        let namespace = NetworkNamespace::create().expect("a namespace");
        let mut at_node = Connection::open_in(&member.namespace).expect("a socket");
        at_node.add_bridge(&name("cni0")).expect("a bridge");
        let bridge = at_node.link_index(&name("cni0")).expect("a bridge");
        at_node.change_link(bridge, &LinkChange::up()).expect("a bridge");
        at_node.add_address(bridge, network(1)).expect("an address");
        at_node
            .add_veth(&name("veth1"), &name("eth0"), Some(namespace.as_fd()))
            .expect("a veth pair");
        let port = at_node.link_index(&name("veth1")).expect("a port");
        let join = LinkChange {
            up: Some(true),
            master: Some(Master::Of(bridge)),
            ..LinkChange::default()
        };
        at_node.change_link(port, &join).expect("a port");
        let hairpin = LinkChange {
            hairpin: Some(true),
            ..LinkChange::default()
        };
        at_node.change_link(port, &hairpin).expect("hairpin mode");
        let mut at_pod = Connection::open_in(&namespace).expect("a socket");
        for link in ["lo", "eth0"] {
            let index = at_pod.link_index(&name(link)).expect("a link");
            at_pod.change_link(index, &LinkChange::up()).expect("a link");
        }
        let link = at_pod.link_index(&name("eth0")).expect("a link");
        at_pod.add_address(link, network(10)).expect("an address");
        at_pod
            .add_route(&Route::default_via(address(1).into()))
            .expect("a route");
        namespace
    }

    /// Starts a program in a Pod in place of the current one.
    pub(crate) fn start_in_pod(&mut self, number: usize, command: &mut Command) {
        self.servers[number] = None;
        self.pods[number].start_inside(command).expect("a namespace");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        self.servers[number] = Some(command.spawn().expect("a program").into());
    }

    /// Starts the binary under test in a Pod, and waits until it listens.
    pub(crate) fn serve(&mut self, number: usize, arguments: &[&str]) {
        self.start_in_pod(number, Command::new(program()).args(arguments));
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, TARGET_PORT));
        let pod = &self.pods[number];
        wait_for("a server in a Pod", || {
            pod.enter(|| TcpStream::connect_timeout(&target, CONNECT_TIMEOUT).is_ok())
                .expect("a namespace")
        });
    }

    /// Waits until something listens at an address in a Pod.
    pub(crate) fn wait_in_pod(&self, number: usize, target: SocketAddr) {
        let pod = &self.pods[number];
        wait_for("a listener in a Pod", || {
            pod.enter(|| TcpStream::connect_timeout(&target, CONNECT_TIMEOUT).is_ok())
                .expect("a namespace")
        });
    }

    /// Starts the binary under test in the network namespace of a member.
    pub(crate) fn spawn(&self, member: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .arg("--log-level=error")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.cluster
            .spawn(member, &mut command)
            .expect("the binary under test")
    }

    /// Address of the API server.
    pub(crate) fn api_address(&self) -> SocketAddr {
        SocketAddr::from((self.cluster.topology.control_plane.address.ipv4, 6443))
    }

    fn start_api(&mut self) {
        let address = self.api_address();
        let arguments = [
            "apiserver",
            &format!("--listen={address}"),
            &format!("--data-dir={RUN_DIRECTORY}/api"),
            "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
            &format!("--write-kubeconfig={}", self.kubeconfig()),
        ];
        self.api = Some(self.spawn("control-plane", &arguments).into());
        let plane = self.cluster.control_plane().expect("a control plane");
        let connects = || TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok();
        wait_for("the API server", || {
            self.kubeconfig.exists() && plane.enter(connects).expect("a namespace")
        });
    }

    /// Ends the API server.
    pub(crate) fn stop_api(&mut self) {
        self.api = None;
    }

    pub(crate) fn start_proxy(&mut self) {
        self.start_proxy_with(&[
            &format!("--hostname-override={NODE}"),
            "--cluster-cidr=10.244.0.0/16",
        ]);
    }

    /// Starts the proxy with flags in place of the usual ones.
    pub(crate) fn start_proxy_with(&mut self, flags: &[&str]) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig());
        let arguments = [&["proxy", kubeconfig.as_str()][..], flags].concat();
        self.proxy = Some(self.spawn(NODE, &arguments));
        let target = SocketAddr::new(CLUSTER_IP.parse::<IpAddr>().expect("an address"), 80);
        wait_for("the rules of the proxy", || {
            self.node()
                .enter(|| TcpStream::connect_timeout(&target, CONNECT_TIMEOUT).is_ok())
                .expect("a namespace")
        });
    }

    /// Kills the proxy, also if it is stopped. Its rules stay.
    pub(crate) fn kill_proxy(&mut self) {
        let mut proxy = self.proxy.take().expect("a proxy");
        proxy.kill().and_then(|()| proxy.wait()).expect("a killed proxy");
    }

    /// Stops the proxy, so that it repairs nothing, or continues it. Returns after all its threads have stopped.
    pub(crate) fn signal_proxy(&self, signal: Signal) {
        let proxy = Pid::from_child(self.proxy.as_ref().expect("a proxy"));
        kill_process(proxy, signal).expect("a signal");
        if signal == Signal::STOP {
            waitpid(Some(proxy), WaitOptions::UNTRACED).expect("a stopped process");
        }
    }

    /// Runs work on the nftables of the node.
    pub(crate) fn nftables<T: Send>(&self, work: impl FnOnce(&mut Nftables) -> T + Send) -> T {
        let work = || work(&mut Nftables::open().expect("a socket"));
        self.node().enter(work).expect("a namespace")
    }

    /// Sends a request to the API server, which must succeed.
    pub(crate) fn call(&self, method: Method, path: &str, content_type: &str, body: Option<Value>) -> Value {
        let response = self.try_call(method, path, content_type, body.as_ref());
        response.unwrap_or_else(|error| panic!("{error} for {path} {body:?}"))
    }

    /// Sends a request to the API server.
    pub(crate) fn try_call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let plane = self.cluster.control_plane().expect("a control plane");
        let call = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let config = Config::from_kubeconfig(&self.kubeconfig).expect("a kubeconfig");
                let client = Client::new(config).expect("a client");
                client.request(method, path, content_type, body).await
            })
        };
        plane.enter(call).expect("a namespace")
    }

    fn create_objects(&self) {
        for (number, object) in objects().into_iter().enumerate() {
            let kind = object["kind"].as_str().expect("a kind");
            let collection = match kind {
                "Node" => "/api/v1/nodes",
                "Pod" => "/api/v1/namespaces/default/pods",
                "Service" => "/api/v1/namespaces/default/services",
                "EndpointSlice" => "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                other => panic!("object {number} has the kind {other}"),
            };
            let mut created = object.clone();
            let status = created.as_object_mut().and_then(|fields| fields.remove("status"));
            self.call(Method::POST, collection, JSON, Some(created));
            if let Some(status) = status {
                let name = object["metadata"]["name"].as_str().expect("a name");
                let path = format!("{collection}/{name}/status");
                self.call(Method::PATCH, &path, MERGE_PATCH, Some(json!({"status": status})));
            }
        }
    }

    /// Runs the doctor on the node with the API server.
    pub(crate) fn doctor(&self, arguments: &[&str]) -> Report {
        self.doctor_on(NODE, arguments)
    }

    /// Runs the doctor on a node with the API server.
    pub(crate) fn doctor_on(&self, node: &str, arguments: &[&str]) -> Report {
        let kubeconfig = self.kubeconfig();
        let flags = ["node", "--node", node, "--kubeconfig", &kubeconfig, "-o", "json"];
        let record = record_of(node);
        let output = self.run_on(node, &[&flags[..], &["--record", &record], arguments].concat());
        Report::read(&output, Path::new(&record))
    }

    /// Runs `portolan doctor` on the node.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.portolan(&[&["doctor"], arguments].concat())
    }

    /// Runs the binary under test on the node.
    pub(crate) fn portolan(&self, arguments: &[&str]) -> Output {
        self.portolan_on(NODE, arguments)
    }

    fn run_on(&self, node: &str, arguments: &[&str]) -> Output {
        self.portolan_on(node, &[&["doctor"], arguments].concat())
    }

    fn portolan_on(&self, node: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.args(arguments).stdin(Stdio::null());
        let node = self.cluster.member(node).expect("a node");
        node.namespace.start_inside(&mut command).expect("a namespace");
        command.output().expect("the binary under test")
    }
}

/// Path of the observation that the doctor records on a node.
pub(crate) fn record_of(node: &str) -> String {
    let path = Path::new(RUN_DIRECTORY).join(format!("{node}.json"));
    path.display().to_string()
}

/// Returns a kubeconfig with a client certificate.
pub(crate) fn kubeconfig_of(server: &str, issued: &apiserver::pki::Client) -> Value {
    let encoded = |text: &str| STANDARD.encode(text);
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server,
            "certificate-authority-data": encoded(&issued.authority)}}],
        "users": [{"name": "u", "user": {"client-certificate-data": encoded(&issued.pair.certificate),
            "client-key-data": encoded(&issued.pair.key)}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]})
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub exit_code: Option<i32>,
    /// Codes of the findings.
    pub codes: Vec<String>,
    pub findings: Value,
    /// Warnings on standard error.
    pub warnings: String,
    /// Recorded observation.
    pub observation: Value,
}

impl Report {
    /// Reads the output of a run and its observation.
    pub(crate) fn read(output: &Output, record: &Path) -> Self {
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        let findings: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {warnings}"));
        let list = findings["findings"].as_array().expect("a list");
        let code = |finding: &Value| finding["code"].as_str().expect("a code").to_owned();
        let text = fs::read_to_string(record).expect("an observation");
        Self {
            exit_code: output.status.code(),
            codes: list.iter().map(code).collect(),
            findings,
            warnings,
            observation: serde_json::from_str(&text).expect("JSON"),
        }
    }
}

/// Objects of the cluster, with their status.
pub(crate) fn objects() -> Vec<Value> {
    let node = |number: u8| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number}")},
            "spec": {"podCIDR": format!("10.244.{number}.0/24"), "podCIDRs": [format!("10.244.{number}.0/24")]},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("172.30.0.{}", 10 + number)}],
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let pod = |number: u8| {
        let address = format!("10.244.{number}.10");
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number}"), "namespace": "default",
                "labels": {"app": "web"}},
            "spec": {"nodeName": format!("node-{number}"), "containers": [{"name": "web", "image": "web",
                "ports": [{"name": "http", "containerPort": TARGET_PORT}]}]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let endpoint = |number: u8| {
        json!({"addresses": [format!("10.244.{number}.10")], "nodeName": format!("node-{number}"),
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": format!("web-{number}")}})
    };
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "NodePort", "clusterIP": CLUSTER_IP, "clusterIPs": [CLUSTER_IP], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http", "nodePort": NODE_PORT}]}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "ports": [{"name": "http", "port": TARGET_PORT, "protocol": "TCP"}], "endpoints": [endpoint(1), endpoint(2)]});
    vec![node(1), node(2), pod(1), pod(2), service, slice]
}
