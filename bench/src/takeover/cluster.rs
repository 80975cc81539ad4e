//! Cluster of a script: the script, its files, its network namespaces, and its kube-controller-manager.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Config};
use netlink::route::NetworkNamespace;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::Failure;

/// Cluster IP of kube-dns in clusters of the script.
pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// Time for a step of kubectl or of a process.
const STEP_TIMEOUT: Duration = Duration::from_secs(180);
/// Node that runs the control plane.
const CONTROL_PLANE: usize = 1;

/// Running cluster.
pub(crate) struct RealCluster {
    script: PathBuf,
    /// Directory of the cluster (`CLUSTER_DIR`).
    pub directory: PathBuf,
    prefix: String,
    network: String,
    /// Number of nodes.
    pub nodes: usize,
}

impl RealCluster {
    /// Refers to a cluster by the environment variables of its script.
    pub(crate) fn new(script: &Path, nodes: usize) -> Self {
        let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        Self {
            script: script.to_owned(),
            directory: variable("CLUSTER_DIR", "/tmp/real-cluster").into(),
            prefix: variable("CLUSTER_PREFIX", "kc"),
            network: variable("CLUSTER_NET", "198.18.8"),
            nodes,
        }
    }

    /// Starts the cluster without a proxy and without DNS.
    pub(crate) fn up(&self) -> Result<(), Failure> {
        let nodes = self.nodes.to_string();
        let arguments = ["up", "--nodes", &nodes, "--proxy", "none", "--dns", "none"];
        self.script(&arguments, None).map(|_| ())
    }

    /// Stops the cluster.
    pub(crate) fn down(&self) -> Result<(), Failure> {
        self.script(&["down"], None).map(|_| ())
    }

    /// Address of a node, counted from 1.
    pub(crate) fn node_address(&self, node: usize) -> Result<IpAddr, Failure> {
        Ok(format!("{}.1{node}", self.network).parse()?)
    }

    /// URL of the API server.
    pub(crate) fn server(&self) -> Result<String, Failure> {
        Ok(format!("https://{}:6443", self.node_address(CONTROL_PLANE)?))
    }

    /// Runs kubectl and returns its output.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.script(&[&["server", "kubectl"], arguments].concat(), None)
    }

    /// Applies a manifest.
    pub(crate) fn apply(&self, manifest: &str) -> Result<(), Failure> {
        let arguments = ["server", "kubectl", "apply", "-f", "-"];
        self.script(&arguments, Some(manifest)).map(|_| ())
    }

    /// Loads an image from an archive on every node.
    pub(crate) fn load_image(&self, archive: &Path) -> Result<(), Failure> {
        let archive = archive.to_str().ok_or("the path of the archive is not UTF-8")?;
        self.script(&["image", archive], None).map(|_| ())
    }

    /// Runs a command in the network namespace of a node.
    pub(crate) fn on_node(&self, node: usize, command: &[&str]) -> Result<String, Failure> {
        let node = node.to_string();
        self.script(&[&["node", &node], command].concat(), None)
    }

    fn script(&self, arguments: &[&str], input: Option<&str>) -> Result<String, Failure> {
        let mut child = Command::new(&self.script)
            .args(arguments)
            .stdin(if input.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", self.script.display()))?;
        if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
            pipe.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "the script that starts a cluster failed: {}: {}",
            arguments.join(" "),
            errors.trim()
        )
        .into())
    }

    /// Network namespace of a node.
    pub(crate) fn node_namespace(&self, node: usize) -> Result<NetworkNamespace, Failure> {
        self.named_namespace(&format!("{}{node}", self.prefix))
    }

    /// Network namespace outside of the cluster.
    pub(crate) fn outside_namespace(&self) -> Result<NetworkNamespace, Failure> {
        self.named_namespace(&format!("{}-switch", self.prefix))
    }

    fn named_namespace(&self, name: &str) -> Result<NetworkNamespace, Failure> {
        let path = format!("/run/netns/{name}");
        let file = fs::File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok(file.into())
    }

    /// Network namespace of a Pod, through the process of its first container.
    pub(crate) fn pod_namespace(&self, pod: &Value) -> Result<NetworkNamespace, Failure> {
        let node = pod["spec"]["nodeName"].as_str().ok_or("the Pod has no node")?;
        let container = pod["status"]["containerStatuses"][0]["containerID"]
            .as_str()
            .and_then(|id| id.strip_prefix("containerd://"))
            .ok_or("the Pod has no container")?;
        let path = self
            .directory
            .join(node)
            .join("state/io.containerd.runtime.v2.task/k8s.io")
            .join(container)
            .join("init.pid");
        let process = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(fs::File::open(format!("/proc/{}/ns/net", process.trim()))?.into())
    }

    /// Runs asynchronous work with a client of the API server.
    pub(crate) fn with_client<T: Send>(
        &self,
        work: impl AsyncFnOnce(Client) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let kubeconfig = self.directory.join("admin.conf");
        self.outside_namespace()?.enter(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async { work(Client::new(Config::from_kubeconfig(&kubeconfig)?)?).await })
        })?
    }

    /// Restarts kube-controller-manager with other `--controllers`, as a change of its manifest does.
    pub(crate) fn restart_controller_manager(&self, controllers: &str) -> Result<(), Failure> {
        let record = self.directory.join("pid/controller-manager");
        let process = fs::read_to_string(&record)?.trim().to_owned();
        let command = fs::read(format!("/proc/{process}/cmdline"))
            .map_err(|error| format!("kube-controller-manager does not run: {error}"))?;
        let mut arguments: Vec<String> = String::from_utf8(command)?
            .split_terminator('\0')
            .filter(|argument| !argument.starts_with("--controllers="))
            .map(str::to_owned)
            .collect();
        arguments.push(format!("--controllers={controllers}"));
        stop(&process)?;
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.directory.join("log/controller-manager"))?;
        let mut command = Command::new(&arguments[0]);
        command
            .args(&arguments[1..])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        self.node_namespace(CONTROL_PLANE)?.start_inside(&mut command)?;
        let mut child = command.spawn()?;
        fs::write(&record, child.id().to_string())?;
        // The process outlives the benchmark if the cluster is kept; the thread reaps it if it exits before.
        std::thread::spawn(move || child.wait());
        self.wait_for_controller_manager()
    }

    fn wait_for_controller_manager(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        let health = ["curl", "-skf", "https://127.0.0.1:10257/healthz"];
        while self.on_node(CONTROL_PLANE, &health).is_err() {
            if Instant::now() > deadline {
                return Err("kube-controller-manager is not healthy".into());
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(())
    }
}

/// Sends SIGTERM to a process and waits for its exit.
fn stop(process: &str) -> Result<(), Failure> {
    let id = Pid::from_raw(process.parse()?).ok_or("invalid process")?;
    rustix::process::kill_process(id, Signal::TERM)?;
    let deadline = Instant::now() + STEP_TIMEOUT;
    while is_running(process) {
        if Instant::now() > deadline {
            return Err(format!("process {process} does not exit after SIGTERM").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn is_running(process: &str) -> bool {
    // The state follows the name in parentheses. A zombie has closed its sockets.
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit(") ").next().unwrap_or_default();
        !state.starts_with(['Z', 'X'])
    })
}

/// Replaces `${NAME}` in a manifest.
pub(crate) fn fill(manifest: &str, values: &BTreeMap<&str, String>) -> String {
    values.iter().fold(manifest.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
    })
}
