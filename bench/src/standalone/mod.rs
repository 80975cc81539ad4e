//! `portolan up` on one node: start time, Pods, images, forwarded ports, rollouts under load.

mod images;
mod pods;
mod port_forward;
mod rollout;
mod up;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use client::{Client, Config, JSON};
use http::Method;
use serde_json::{Value, json};
use testbed::{Cluster, Member, Topology};

use crate::Failure;
use crate::environment::{TIMEOUT, run_enclosed_in_directory, run_in};
use crate::process::{Measured, portolan, with_log};

pub(crate) use images::Flags as ImagesFlags;
pub(crate) use pods::Flags as PodsFlags;
pub(crate) use port_forward::Flags as PortForwardFlags;
pub(crate) use rollout::Flags as RolloutFlags;
pub(crate) use up::Flags as UpFlags;

/// Pause between reads of the Node until it is ready: the resolution of the start time.
const READY_PAUSE: Duration = Duration::from_millis(2);
/// Collection of Pods.
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Collection of Services.
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Measures the start and an idle node.
pub(crate) fn up(flags: &UpFlags) -> Result<ExitCode, Failure> {
    run_enclosed(|standalone| up::run(flags, standalone))
}

/// Measures the start of many Pods.
pub(crate) fn pods(flags: &PodsFlags) -> Result<ExitCode, Failure> {
    run_enclosed(|standalone| pods::run(flags, standalone))
}

/// Measures Pods from images.
pub(crate) fn images(flags: &ImagesFlags) -> Result<ExitCode, Failure> {
    run_enclosed(|standalone| images::run(flags, standalone))
}

/// Measures forwarded ports.
pub(crate) fn port_forward(flags: &PortForwardFlags) -> Result<ExitCode, Failure> {
    match flags.script() {
        Some(script) => port_forward::compare(flags, script),
        None => run_enclosed(|standalone| port_forward::run(flags, standalone)),
    }
}

/// Measures a rollout under load.
pub(crate) fn rollout(flags: &RolloutFlags) -> Result<ExitCode, Failure> {
    run_enclosed(|standalone| rollout::run(flags, standalone))
}

/// Node with a running `portolan up`.
pub(crate) struct StandaloneNode {
    /// Network namespaces.
    pub cluster: Cluster,
    /// kubeconfig of the administrator.
    pub kubeconfig: PathBuf,
    /// Process of `portolan up`.
    pub up: Measured,
    /// Start time of the process.
    started: Instant,
    log: PathBuf,
}

/// Runs a benchmark on a node that is a network namespace, in a child process.
fn run_enclosed(
    benchmark: impl FnOnce(&mut StandaloneNode) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    run_enclosed_in_directory(|directory| {
        let mut standalone = StandaloneNode::start(directory, &[])?;
        let outcome = benchmark(&mut standalone);
        if outcome.is_err() {
            eprintln!("{}", standalone.log_end());
        }
        standalone.up.terminate()?;
        outcome
    })
}

impl StandaloneNode {
    /// Starts `portolan up` with additional flags. Returns when the Node is ready.
    pub(crate) fn start(directory: &Path, flags: &[String]) -> Result<Self, Failure> {
        let cluster = Cluster::start(Topology::with_nodes(1)?)?;
        let node = cluster.nodes().next().ok_or("the testbed has no node")?;
        let address = node.plan.address.ipv4;
        let mut command = Command::new(portolan()?);
        command
            .arg("up")
            .arg(format!("--listen={}", SocketAddr::new(address.into(), 6443)))
            .arg(format!("--data-dir={}", directory.display()))
            .arg(format!("--node-ip={address}"))
            .args(["--pod-cidr=10.245.0.0/22", "--max-pods=1000", "--end-pods"])
            .args(flags);
        let started = Instant::now();
        let mut command = with_log(command, directory, "up")?;
        let mut up = Measured::new("portolan up", node.spawn(&mut command)?);
        let kubeconfig = directory.join("admin.conf");
        loop {
            up.must_run()?;
            if kubeconfig.exists() && is_ready(node, &kubeconfig) {
                break;
            }
            if started.elapsed() > TIMEOUT {
                return Err("timeout of the start of portolan up".into());
            }
            std::thread::sleep(READY_PAUSE);
        }
        let log = directory.join("up.log");
        Ok(Self {
            cluster,
            kubeconfig,
            up,
            started,
            log,
        })
    }

    /// Runs asynchronous work on the node.
    pub(crate) fn run<T: Send>(
        &self,
        work: impl AsyncFnOnce(Client) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let node = self.cluster.nodes().next().ok_or("the testbed has no node")?;
        let kubeconfig = &self.kubeconfig;
        run_in(node, async || {
            work(Client::new(Config::from_kubeconfig(kubeconfig)?)?).await
        })
    }

    /// Last lines of the log.
    pub(crate) fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// Returns true if the Node exists and is ready.
fn is_ready(node: &Member, kubeconfig: &Path) -> bool {
    let nodes = run_in(node, async || {
        let client = Client::new(Config::from_kubeconfig(kubeconfig)?)?;
        Ok(client.get::<Value>("/api/v1/nodes").await?)
    });
    nodes.is_ok_and(|nodes| has_condition(&nodes["items"][0], "Ready"))
}

/// Returns true if a condition of the object has status `True`.
fn has_condition(object: &Value, kind: &str) -> bool {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Spec of a Pod with an echo server.
fn echo_pod_spec(grace_seconds: u64) -> Value {
    json!({
        "terminationGracePeriodSeconds": grace_seconds,
        "containers": [{"name": "echo", "image": "portolan.dev/echo", "ports": [{"containerPort": 8080}]}],
    })
}

/// Creates a Service for the Pods with label `app: echo`. Returns its address.
async fn create_service(client: &Client) -> Result<SocketAddr, Failure> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
        "spec": {"selector": {"app": "echo"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    let created = create(client, SERVICES, &service).await?;
    let address: Ipv4Addr = created["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .parse()?;
    Ok(SocketAddr::new(address.into(), 80))
}

async fn create(client: &Client, collection: &str, object: &Value) -> Result<Value, Failure> {
    Ok(client
        .request(Method::POST, collection, JSON, Some(object))
        .await?)
}
