//! Machines on one segment, what runs on them, and questions to the API.

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

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a page may take to be connected to.
const PAGE_PATIENCE: Duration = Duration::from_secs(2);
/// Ranges of Pods that the testbed has made no routes for.
pub const CLUSTER_CIDRS: &str = "10.245.0.0/16,fd00:245::/48";
const API_PORT: u16 = 6443;

/// The machines, and the processes on them.
pub struct Lab {
    cluster: Cluster,
    directory: tempfile::TempDir,
    running: Vec<(String, Child)>,
}

/// The binary under test: the one of this build, or another build's that `PORTOLAN_UNDER_TEST` names, to see that a test
/// fails with it.
fn program() -> PathBuf {
    std::env::var_os("PORTOLAN_UNDER_TEST")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_portolan")), PathBuf::from)
}

impl Lab {
    /// So many machines, `node-1` and so on, that nothing runs on.
    pub fn new(machines: usize) -> Self {
        // Pods that connect to others are made of it.
        if !Path::new("/bin/bash").exists() {
            testbed::skip_inside("there is no /bin/bash");
        }
        let topology = Topology::with_nodes(machines).expect("a topology");
        let lab = Self {
            cluster: Cluster::start(topology).expect("namespaces"),
            directory: tempfile::tempdir().expect("a directory"),
            running: Vec::new(),
        };
        fs::write(lab.images(), "images:\n  bash: [/bin/bash, -c]\n").expect("a file");
        lab
    }

    /// Puts a router between the machines: none has another on its own segment any more.
    pub fn separate(&self) {
        let router = self.cluster.underlay();
        let forwards = [
            ("net.ipv4.ip_forward", "1"),
            ("net.ipv4.conf.all.send_redirects", "0"),
            ("net.ipv4.conf.underlay.send_redirects", "0"),
        ];
        for (name, value) in forwards {
            router
                .enter(|| testbed::write_sysctl(name, value))
                .expect("a namespace")
                .expect("a setting");
        }
        let gateway: IpAddr = self.cluster.topology.router.ipv4.into();
        for member in self.cluster.nodes() {
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

    /// Whether the kernel has links that wrap packets.
    pub fn has_vxlan(&self) -> bool {
        let member = self.cluster.outside().expect("a machine");
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

    /// A machine's address of the first family.
    pub fn address(&self, machine: &str) -> IpAddr {
        let member = self.cluster.member(machine).expect("a machine");
        member.plan.address.ipv4.into()
    }

    /// Where a machine keeps its data.
    pub fn data_dir(&self, machine: &str) -> PathBuf {
        self.directory.path().join(machine)
    }

    fn log(&self, machine: &str) -> PathBuf {
        self.directory.path().join(format!("{machine}.log"))
    }

    /// The URL of the API on a machine.
    pub fn server(&self, machine: &str) -> String {
        format!("https://{}", SocketAddr::new(self.address(machine), API_PORT))
    }

    fn command(&self, machine: &str, arguments: &[&str]) -> Command {
        let member = self.cluster.member(machine).expect("a machine");
        let mut command = Command::new(program());
        command
            .args(arguments)
            .arg("--log-level=info")
            .stdin(Stdio::null());
        // Any will do: buckets are asked for by whoever is told of some.
        command.envs([("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")]);
        // The machines share a host name and have no names for each other.
        member.namespace.start_inside(&mut command).expect("a namespace");
        command
    }

    /// Runs Portolan on a machine to its end.
    pub fn run(&self, machine: &str, arguments: &[&str]) -> Output {
        self.command(machine, arguments)
            .output()
            .expect("the binary under test")
    }

    /// The same, which is to end well; what it printed.
    pub fn succeed(&self, machine: &str, arguments: &[&str]) -> String {
        let output = self.run(machine, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{errors}",
            output.status
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The same, which is to be refused; what it said.
    pub fn refused(&self, machine: &str, arguments: &[&str]) -> String {
        let output = self.run(machine, arguments);
        assert!(!output.status.success(), "{arguments:?} was not refused");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn start(&mut self, machine: &str, arguments: &[&str]) {
        self.start_as(machine, machine, arguments);
    }

    /// Starts something on a machine that has a name of its own, beside what else runs there.
    pub fn start_as(&mut self, name: &str, machine: &str, arguments: &[&str]) {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log(name))
            .expect("a log");
        let mut command = self.command(machine, arguments);
        // Its own group, so that nothing that the test is sent reaches it.
        command.process_group(0);
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        self.running
            .push((name.to_owned(), command.spawn().expect("the binary under test")));
    }

    /// The flags that a machine always has.
    fn flags(&self, machine: &str) -> Vec<String> {
        vec![
            format!("--data-dir={}", self.data_dir(machine).display()),
            format!("--node-name={machine}"),
            format!(
                "--node-ip={}",
                self.cluster
                    .member(machine)
                    .expect("a machine")
                    .plan
                    .address
                    .both()
                    .map(|ip| ip.to_string())
                    .join(",")
            ),
            format!("--image-table={}", self.images().display()),
        ]
    }

    /// Starts the server on a machine, and waits until it is ready.
    pub fn up(&mut self, machine: &str, more: &[&str]) {
        let mut arguments = vec!["up".to_owned(), format!("--cluster-cidr={CLUSTER_CIDRS}")];
        arguments.extend(self.flags(machine));
        arguments.extend(more.iter().map(|&text| text.to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.start(machine, &arguments);
        self.wait_for("the server", || {
            let nodes = self.try_ask(machine, Method::GET, "/api/v1/nodes", None)?;
            Ok(!nodes["items"].as_array().expect("a list").is_empty())
        });
    }

    /// The flags with which a machine joins.
    pub fn join_flags(&self, machine: &str, more: &[&str]) -> Vec<String> {
        let mut arguments = vec!["join".to_owned()];
        arguments.extend(self.flags(machine));
        arguments.extend(more.iter().map(|&text| text.to_owned()));
        arguments
    }

    /// Joins a machine.
    pub fn join(&mut self, machine: &str, more: &[&str]) {
        let arguments = self.join_flags(machine, more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.start(machine, &arguments);
    }

    /// A token of a server, with its hash.
    pub fn token(&self, server: &str, more: &[&str]) -> String {
        let data_dir = format!("--data-dir={}", self.data_dir(server).display());
        let mut arguments = vec!["token", "create", &data_dir];
        arguments.extend(more);
        self.succeed(server, &arguments)
    }

    /// Starts an etcd that all machines reach; its URL.
    pub fn etcd(&mut self) -> String {
        let member = self.cluster.control_plane().expect("a machine");
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

    /// The network of the machines, and a client on its outside.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Ends with the lab.
    pub fn watch_over(&mut self, name: &str, child: Child) {
        self.running.push((name.to_owned(), child));
    }

    /// Asks what runs on a machine to end, and waits until it has.
    pub fn end(&mut self, machine: &str) {
        self.signal(machine, Signal::TERM);
        self.await_end(machine);
    }

    /// Sends a signal to what runs on a machine.
    pub fn signal(&self, machine: &str, signal: Signal) {
        for (_, child) in self.running.iter().filter(|(name, _)| name == machine) {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            kill_process(pid.expect("a process"), signal).expect("a process that runs");
        }
    }

    /// Gives a machine the authority and the keys of another, before its first start.
    pub fn share_authority(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|machine| self.data_dir(machine).join("pki"));
        fs::create_dir_all(&to).expect("a directory");
        for name in ["ca.crt", "ca.key", "sa.key", "sa.pub"] {
            fs::copy(from.join(name), to.join(name)).expect("a file");
        }
    }

    /// Ends what runs on a machine as a power cut would: the process and all Pods.
    pub fn kill(&mut self, machine: &str) {
        for (name, child) in &mut self.running {
            if name == machine {
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .expect("a process that ends");
            }
        }
        self.running.retain(|(name, _)| name != machine);
    }

    /// Waits until what runs on a machine has ended by itself.
    pub fn await_end(&mut self, machine: &str) {
        let mut ended = false;
        let deadline = Instant::now() + PATIENCE;
        while !ended {
            assert!(Instant::now() < deadline, "{machine} goes on\n{}", self.logs());
            let mut processes = self.running.iter_mut().filter(|(name, _)| name == machine);
            ended = processes.all(|(_, child)| child.try_wait().expect("a child").is_some());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.running.retain(|(name, _)| name != machine);
    }

    /// Asks the API of a server as its administrator.
    pub fn try_ask(
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
        let member = self.cluster.member(server).expect("a machine");
        member
            .enter(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let config = wait_config(&kubeconfig).await;
                    Client::new(config)
                        .expect("a client")
                        .request(method, path, content, body)
                        .await
                })
            })
            .expect("a namespace")
    }

    /// The same, which is to succeed.
    pub fn ask(&self, server: &str, method: Method, path: &str, body: Option<&Value>) -> Value {
        self.try_ask(server, method, path, body)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.logs()))
    }

    /// Reads an object.
    pub fn get(&self, server: &str, path: &str) -> Value {
        self.ask(server, Method::GET, path, None)
    }

    /// Runs a Pod on a machine.
    pub fn run_pod(&self, server: &str, machine: &str, name: &str, container: Value) {
        let mut container = container;
        container["name"] = json!("main");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": machine, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                     "containers": [container]}});
        self.wait_for("the default ServiceAccount", || {
            self.try_ask(
                server,
                Method::POST,
                "/api/v1/namespaces/default/pods",
                Some(&pod),
            )
            .map(|_| true)
        });
    }

    /// Waits until a Pod is in a phase, and ready if it runs; what it is then.
    pub fn await_pod(&self, server: &str, name: &str, phase: &str) -> Value {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        self.wait_for(&format!("Pod {name} {phase}"), || {
            let pod = self.try_ask(server, Method::GET, &path, None)?;
            Ok(pod["status"]["phase"] == phase && (phase != "Running" || condition(&pod, "Ready") == "True"))
        });
        self.get(server, &path)
    }

    /// Waits until a Node is ready, or not.
    pub fn await_node(&self, server: &str, machine: &str, ready: &str) {
        let path = format!("/api/v1/nodes/{machine}");
        self.wait_for(&format!("Node {machine} with Ready {ready}"), || {
            let node = self.try_ask(server, Method::GET, &path, None)?;
            Ok(condition(&node, "Ready") == ready)
        });
    }

    /// Waits until something holds. What cannot be asked does not hold yet.
    pub fn wait_for(&self, what: &str, holds: impl Fn() -> Result<bool, ClientError>) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let held = holds();
            if matches!(held, Ok(true)) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{what} is not there: {held:?}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until something is there.
    pub fn until<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(Instant::now() < deadline, "{what}: not there\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A page that a process on a machine serves by HTTP; nothing if it does not.
    pub fn page(&self, machine: &str, from: SocketAddr, path: &str) -> Option<String> {
        let member = self.cluster.member(machine).expect("a machine");
        let connected = member.enter(|| TcpStream::connect_timeout(&from, PAGE_PATIENCE));
        let mut stream = connected.expect("a namespace").ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {from}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// The routes of a machine.
    pub fn routes(&self, machine: &str) -> Vec<Route> {
        let member = self.cluster.member(machine).expect("a machine");
        let routes = Connection::open_in(&member.namespace).and_then(|mut network| network.routes());
        routes.expect("routes")
    }

    /// The ends of all logs.
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

impl Drop for Lab {
    fn drop(&mut self) {
        // Pods end with the enclosure.
        for (_, child) in &mut self.running {
            child.kill().and_then(|()| child.wait()).ok();
        }
    }
}

/// The kubeconfig of a server that has only begun.
async fn wait_config(path: &Path) -> Config {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Config::from_kubeconfig(path) {
            Ok(config) => return config,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The status of a condition.
pub fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    found.map_or(String::new(), |found| {
        found["status"].as_str().unwrap_or_default().to_owned()
    })
}

/// A container that ends well once it has reached each of the addresses.
pub fn caller(targets: &[SocketAddr]) -> Value {
    let reach = |target: &SocketAddr| {
        format!(
            "until exec 3<>/dev/tcp/{}/{} && echo hello >&3 && read -t 5 line <&3; do sleep 0.2; done",
            target.ip(),
            target.port()
        )
    };
    let script: Vec<String> = targets.iter().map(reach).collect();
    json!({"image": "bash", "args": [script.join("; ")]})
}

/// A container that answers at 8080.
pub fn echo() -> Value {
    json!({"image": "portolan.dev/echo", "ports": [{"containerPort": 8080}]})
}
