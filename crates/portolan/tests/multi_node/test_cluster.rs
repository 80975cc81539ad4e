//! Nodes on one segment, their processes, and requests to the API.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use client::{Client, ClientError, Config, JSON};
use http::Method;
use ipnet::IpNet;
use netlink::route::{Connection, Route, Vxlan};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testbed::{Cluster, Topology};

/// Time for a change on a busy host.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(90);
/// Timeout of a connection to an HTTP endpoint of a process.
const PAGE_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pod ranges without routes in the testbed.
pub(crate) const CLUSTER_CIDRS: &str = "10.245.0.0/16,fd00:245::/48";
/// Port of the API server.
const API_PORT: u16 = 6443;

/// Nodes and their processes.
pub(crate) struct TestCluster {
    network: Cluster,
    directory: tempfile::TempDir,
    running: Vec<(String, Child)>,
}

/// Returns the path of the binary under test. The environment variable `PORTOLAN_UNDER_TEST` selects another build, for
/// example to check that a test fails with it.
fn program() -> PathBuf {
    std::env::var_os("PORTOLAN_UNDER_TEST")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_portolan")), PathBuf::from)
}

impl TestCluster {
    /// Creates hosts `node-1`, `node-2` … without processes.
    pub(crate) fn new(nodes: usize) -> Self {
        // The image table defines the image `bash` with it.
        if !Path::new("/bin/bash").exists() {
            testbed::skip_inside("there is no /bin/bash");
        }
        let topology = Topology::with_nodes(nodes).expect("a topology");
        let cluster = Self {
            network: Cluster::start(topology).expect("a cluster"),
            directory: tempfile::tempdir().expect("a directory"),
            running: Vec::new(),
        };
        fs::write(cluster.images(), "images:\n  bash: [/bin/bash, -c]\n").expect("a file");
        cluster
    }

    /// Inserts a router between the nodes, so that each node has a segment of its own.
    pub(crate) fn insert_router(&self) {
        let router = self.network.underlay();
        let forwards = [
            ("net.ipv4.ip_forward", "1"),
            ("net.ipv4.conf.all.send_redirects", "0"),
            ("net.ipv4.conf.underlay.send_redirects", "0"),
        ];
        for (name, value) in forwards {
            router
                .enter(|| testbed::write_sysctl(name, value))
                .expect("a namespace")
                .expect("a sysctl");
        }
        let gateway: IpAddr = self.network.topology.router.ipv4.into();
        for member in self.network.nodes() {
            let mut network = Connection::open_in(&member.namespace).expect("a socket");
            let link = network
                .link_index(&"eth0".parse().expect("a name"))
                .expect("a link");
            let own: IpAddr = member.plan.address.ipv4.into();
            let wide = network.addresses().expect("addresses").into_iter();
            for address in wide.filter(|address| address.network.addr() == own) {
                network.delete_address(link, address.network).expect("an address");
            }
            network.add_address(link, IpNet::from(own)).expect("an address");
            network
                .replace_route(&Route::on_link(IpNet::from(gateway), link))
                .expect("a route");
            network
                .replace_route(&Route::default_via(gateway))
                .expect("a route");
        }
    }

    /// Returns true if the kernel supports VXLAN.
    pub(crate) fn has_vxlan(&self) -> bool {
        let member = self.network.outside().expect("a node");
        let mut network = Connection::open_in(&member.namespace).expect("a socket");
        let vxlan = Vxlan {
            id: 1,
            port: 4789,
            local: member.plan.address.ipv4.into(),
            underlay: network
                .link_index(&"eth0".parse().expect("a name"))
                .expect("a link"),
        };
        let name = "vxlan-trial".parse().expect("a name");
        network.add_vxlan(&name, &vxlan, [2, 0, 0, 0, 0, 1], 1400).is_ok()
    }

    fn images(&self) -> PathBuf {
        self.directory.path().join("images.yaml")
    }

    /// Returns the IPv4 address of a node.
    pub(crate) fn address(&self, node: &str) -> IpAddr {
        let member = self.network.member(node).expect("a node");
        member.plan.address.ipv4.into()
    }

    /// Returns the data directory of a node.
    pub(crate) fn data_dir(&self, node: &str) -> PathBuf {
        self.directory.path().join(node)
    }

    fn log(&self, node: &str) -> PathBuf {
        self.directory.path().join(format!("{node}.log"))
    }

    /// Returns the URL of the API server on a node.
    pub(crate) fn server(&self, node: &str) -> String {
        format!("https://{}", SocketAddr::new(self.address(node), API_PORT))
    }

    fn command(&self, node: &str, arguments: &[&str]) -> Command {
        let member = self.network.member(node).expect("a node");
        let mut command = Command::new(program());
        command
            .args(arguments)
            .arg("--log-level=info")
            .stdin(Stdio::null());
        // The edge needs credentials for buckets; `moto_server` accepts any.
        command.envs([("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")]);
        // The nodes share a host name, and DNS does not resolve their names.
        member.namespace.start_inside(&mut command).expect("a namespace");
        command
    }

    /// Runs Portolan on a node until it exits.
    pub(crate) fn run(&self, node: &str, arguments: &[&str]) -> Output {
        self.command(node, arguments)
            .output()
            .expect("the binary under test")
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn succeed(&self, node: &str, arguments: &[&str]) -> String {
        let output = self.run(node, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{errors}",
            output.status
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Runs a command that must fail, and returns its standard error.
    pub(crate) fn expect_failure(&self, node: &str, arguments: &[&str]) -> String {
        let output = self.run(node, arguments);
        assert!(!output.status.success(), "{arguments:?} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn start(&mut self, node: &str, arguments: &[&str]) {
        self.start_as(node, node, arguments);
    }

    /// Starts a process on a node under a name of its own, alongside other processes.
    pub(crate) fn start_as(&mut self, name: &str, node: &str, arguments: &[&str]) {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log(name))
            .expect("a log");
        let mut command = self.command(node, arguments);
        // Signals to the process group of the test do not reach the process.
        command.process_group(0);
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        self.running
            .push((name.to_owned(), command.spawn().expect("the binary under test")));
    }

    /// Returns the flags of all processes of a node.
    fn flags(&self, node: &str) -> Vec<String> {
        vec![
            format!("--data-dir={}", self.data_dir(node).display()),
            format!("--node-name={node}"),
            format!(
                "--node-ip={}",
                self.network
                    .member(node)
                    .expect("a node")
                    .plan
                    .address
                    .both()
                    .map(|ip| ip.to_string())
                    .join(",")
            ),
            format!("--image-table={}", self.images().display()),
        ]
    }

    /// Starts the server on a node, and waits until it has registered its Node.
    pub(crate) fn up(&mut self, node: &str, more: &[&str]) {
        let mut arguments = vec!["up".to_owned(), format!("--cluster-cidr={CLUSTER_CIDRS}")];
        arguments.extend(self.flags(node));
        arguments.extend(more.iter().map(|&text| text.to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.start(node, &arguments);
        self.wait_for("the server", || {
            let nodes = self.try_request(node, Method::GET, "/api/v1/nodes", None)?;
            Ok(!nodes["items"].as_array().expect("a list").is_empty())
        });
    }

    /// Returns the arguments of `portolan join` on a node.
    pub(crate) fn join_flags(&self, node: &str, more: &[&str]) -> Vec<String> {
        let mut arguments = vec!["join".to_owned()];
        arguments.extend(self.flags(node));
        arguments.extend(more.iter().map(|&text| text.to_owned()));
        arguments
    }

    /// Starts `portolan join` on a node.
    pub(crate) fn join(&mut self, node: &str, more: &[&str]) {
        let arguments = self.join_flags(node, more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.start(node, &arguments);
    }

    /// Creates a join token with the CA hash.
    pub(crate) fn token(&self, server: &str, more: &[&str]) -> String {
        let data_dir = format!("--data-dir={}", self.data_dir(server).display());
        let mut arguments = vec!["token", "create", &data_dir];
        arguments.extend(more);
        self.succeed(server, &arguments)
    }

    /// Starts etcd on the network of the nodes, and returns its URL.
    pub(crate) fn etcd(&mut self) -> String {
        let member = self.network.control_plane().expect("a node");
        let url = format!("http://{}:2379", member.plan.address.ipv4);
        let peer = "http://127.0.0.1:2380";
        let log = fs::File::create(self.log("etcd")).expect("a log");
        let mut command = Command::new("etcd");
        command
            .args(["--name=only", "--logger=zap", "--log-level=error"])
            .arg(format!(
                "--data-dir={}",
                self.directory.path().join("etcd").display()
            ))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=only={peer}"))
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        let child = member.spawn(&mut command).expect("etcd");
        self.running.push(("etcd".to_owned(), child));
        url
    }

    /// Returns the network of the nodes, with a client outside of it.
    pub(crate) fn network(&self) -> &Cluster {
        &self.network
    }

    /// Adds a process that is killed with the cluster.
    pub(crate) fn adopt_process(&mut self, name: &str, child: Child) {
        self.running.push((name.to_owned(), child));
    }

    /// Sends SIGTERM to the processes of a node, and waits for their exit.
    pub(crate) fn stop(&mut self, node: &str) {
        self.signal(node, Signal::TERM);
        self.wait_for_exit(node);
    }

    /// Sends a signal to the processes of a node.
    pub(crate) fn signal(&self, node: &str, signal: Signal) {
        for (_, child) in self.running.iter().filter(|(name, _)| name == node) {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            kill_process(pid.expect("a process ID"), signal).expect("a running process");
        }
    }

    /// Copies the cluster CA and the service account keys to another node before its first start.
    pub(crate) fn share_ca(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|node| self.data_dir(node).join("pki"));
        fs::create_dir_all(&to).expect("a directory");
        for name in ["ca.crt", "ca.key", "sa.key", "sa.pub"] {
            fs::copy(from.join(name), to.join(name)).expect("a file");
        }
    }

    /// Kills the processes of a node. The Pods exit with them, as in a power failure.
    pub(crate) fn kill(&mut self, node: &str) {
        for (name, child) in &mut self.running {
            if name == node {
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .expect("a killed process");
            }
        }
        self.running.retain(|(name, _)| name != node);
    }

    /// Waits until the processes of a node have exited.
    pub(crate) fn wait_for_exit(&mut self, node: &str) {
        let mut ended = false;
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        while !ended {
            assert!(Instant::now() < deadline, "{node} still runs\n{}", self.logs());
            let mut processes = self.running.iter_mut().filter(|(name, _)| name == node);
            ended = processes.all(|(_, child)| child.try_wait().expect("the state of a process").is_some());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.running.retain(|(name, _)| name != node);
    }

    /// Sends a request to the API server of a node as the administrator.
    pub(crate) fn try_request(
        &self,
        server: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let kubeconfig = self.data_dir(server).join("admin.conf");
        let content = if method == Method::PATCH {
            client::MERGE_PATCH
        } else {
            JSON
        };
        let member = self.network.member(server).expect("a node");
        member
            .enter(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let config = wait_for_config(&kubeconfig).await;
                    Client::new(config)
                        .expect("a client")
                        .request(method, path, content, body)
                        .await
                })
            })
            .expect("a namespace")
    }

    /// Sends a request that must succeed.
    pub(crate) fn request(&self, server: &str, method: Method, path: &str, body: Option<&Value>) -> Value {
        self.try_request(server, method, path, body)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.logs()))
    }

    /// Reads an object.
    pub(crate) fn get(&self, server: &str, path: &str) -> Value {
        self.request(server, Method::GET, path, None)
    }

    /// Creates a Pod on a node.
    pub(crate) fn run_pod(&self, server: &str, node: &str, name: &str, container: Value) {
        let mut container = container;
        container["name"] = json!("main");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                     "containers": [container]}});
        self.wait_for("the default ServiceAccount", || {
            self.try_request(
                server,
                Method::POST,
                "/api/v1/namespaces/default/pods",
                Some(&pod),
            )
            .map(|_| true)
        });
    }

    /// Waits until a Pod is in a phase, and ready in the phase `Running`. Returns the Pod.
    pub(crate) fn wait_for_pod(&self, server: &str, name: &str, phase: &str) -> Value {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        self.wait_for(&format!("Pod {name} {phase}"), || {
            let pod = self.try_request(server, Method::GET, &path, None)?;
            Ok(pod["status"]["phase"] == phase && (phase != "Running" || condition(&pod, "Ready") == "True"))
        });
        self.get(server, &path)
    }

    /// Waits for a status of the condition `Ready`.
    pub(crate) fn wait_for_node(&self, server: &str, node: &str, ready: &str) {
        let path = format!("/api/v1/nodes/{node}");
        self.wait_for(&format!("Node {node} with Ready {ready}"), || {
            let node = self.try_request(server, Method::GET, &path, None)?;
            Ok(condition(&node, "Ready") == ready)
        });
    }

    /// Waits until a condition holds. Errors are retried. `subject` names the condition in the failure.
    pub(crate) fn wait_for(&self, subject: &str, holds: impl Fn() -> Result<bool, ClientError>) {
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        loop {
            let held = holds();
            if matches!(held, Ok(true)) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "expected {subject}: {held:?}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until `check` returns a value. `subject` names it in the failure.
    pub(crate) fn wait_until<T>(&self, subject: &str, mut check: impl FnMut(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        loop {
            if let Some(found) = check(self) {
                return found;
            }
            assert!(Instant::now() < deadline, "expected {subject}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the HTTP response of a process on a node, or `None` without one.
    pub(crate) fn page(&self, node: &str, from: SocketAddr, path: &str) -> Option<String> {
        let member = self.network.member(node).expect("a node");
        let connected = member.enter(|| TcpStream::connect_timeout(&from, PAGE_CONNECT_TIMEOUT));
        let mut stream = connected.expect("a namespace").ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {from}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        Some(response)
    }

    /// Returns the routes of a node.
    pub(crate) fn routes(&self, node: &str) -> Vec<Route> {
        let member = self.network.member(node).expect("a node");
        let routes = Connection::open_in(&member.namespace).and_then(|mut network| network.routes());
        routes.expect("routes")
    }

    /// Returns the last lines of all logs.
    fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(self.directory.path())
            .expect("a directory")
            .flatten()
        {
            if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "log")
            {
                let log = fs::read_to_string(entry.path()).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines.len().saturating_sub(40);
                text.push_str(&format!(
                    "--- {}\n{}\n",
                    entry.path().display(),
                    lines[end..].join("\n")
                ));
            }
        }
        text
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        // Pods end with the namespaces of the test.
        for (_, child) in &mut self.running {
            child.kill().and_then(|()| child.wait()).ok();
        }
    }
}

/// Waits for the kubeconfig of a starting server.
async fn wait_for_config(path: &Path) -> Config {
    let deadline = Instant::now() + CHANGE_TIMEOUT;
    loop {
        match Config::from_kubeconfig(path) {
            Ok(config) => return config,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the status of a condition; empty if the object does not have it.
pub(crate) fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    found.map_or(String::new(), |found| {
        found["status"].as_str().unwrap_or_default().to_owned()
    })
}

/// Returns a container that succeeds after connections to all addresses.
pub(crate) fn connecting_container(targets: &[SocketAddr]) -> Value {
    let connect = |target: &SocketAddr| {
        format!(
            "until exec 3<>/dev/tcp/{}/{} && echo hello >&3 && read -t 5 line <&3; do sleep 0.2; done",
            target.ip(),
            target.port()
        )
    };
    let script: Vec<String> = targets.iter().map(connect).collect();
    json!({"image": "bash", "args": [script.join("; ")]})
}

/// Returns a container with an echo server on port 8080.
pub(crate) fn echo_container() -> Value {
    json!({"image": "portolan.dev/echo", "ports": [{"containerPort": 8080}]})
}
