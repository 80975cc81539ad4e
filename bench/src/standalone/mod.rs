//! `portolan up`, all of it in one process on one machine: how quickly it and its Pods come, and what clients notice when
//! they are replaced.

mod pods;
mod rollout;
mod up;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use client::{Client, Config, JSON};
use http::Method;
use serde_json::{Value, json};
use testbed::{Cluster, Member, Topology};

use crate::Failure;
use crate::process::{Measured, portolan, quiet};
use crate::setting::{PATIENCE, enclosed_at, run_in};

pub use pods::Flags as PodsFlags;
pub use rollout::Flags as RolloutFlags;
pub use up::Flags as UpFlags;

/// Where Pods are.
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Where Services are.
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Starts a machine and leaves it alone.
pub fn up(flags: &UpFlags) -> Result<ExitCode, Failure> {
    enclosed(|machine| up::run(flags, machine))
}

/// Starts many Pods.
pub fn pods(flags: &PodsFlags) -> Result<ExitCode, Failure> {
    enclosed(|machine| pods::run(flags, machine))
}

/// Replaces the Pods of a Deployment under load.
pub fn rollout(flags: &RolloutFlags) -> Result<ExitCode, Failure> {
    enclosed(|machine| rollout::run(flags, machine))
}

/// A machine with a `portolan up` that is ready.
pub struct Machine {
    /// The network.
    pub cluster: Cluster,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The process.
    pub up: Measured,
    /// When it was started.
    started: Instant,
    log: PathBuf,
}

/// Runs `benchmark` on a machine that is a network namespace, in a process of its own.
fn enclosed(benchmark: impl FnOnce(&mut Machine) -> Result<(), Failure>) -> Result<ExitCode, Failure> {
    enclosed_at(|directory| {
        let mut machine = Machine::start(directory, &[])?;
        let outcome = benchmark(&mut machine);
        if outcome.is_err() {
            eprintln!("{}", machine.log_end());
        }
        machine.up.end_gracefully()?;
        outcome
    })
}

impl Machine {
    /// Starts `portolan up` with these flags besides its own; returns when the Node is ready.
    pub fn start(directory: &Path, flags: &[String]) -> Result<Self, Failure> {
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
        let mut command = quiet(command, directory, "up")?;
        let mut up = Measured::new("portolan up", node.spawn(&mut command)?);
        let kubeconfig = directory.join("admin.conf");
        loop {
            up.must_run()?;
            if kubeconfig.exists() && is_ready(node, &kubeconfig) {
                break;
            }
            if started.elapsed() > PATIENCE {
                return Err("portolan up does not become ready".into());
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
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

    /// Runs asynchronous work on the machine.
    pub fn run<T: Send>(
        &self,
        work: impl AsyncFnOnce(Client) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let node = self.cluster.nodes().next().ok_or("the testbed has no node")?;
        let kubeconfig = &self.kubeconfig;
        run_in(node, async || {
            work(Client::new(Config::from_kubeconfig(kubeconfig)?)?).await
        })
    }

    /// The last lines of what `up` has said.
    pub fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

/// Whether the Node is there and ready.
fn is_ready(node: &Member, kubeconfig: &Path) -> bool {
    let nodes = run_in(node, async || {
        let client = Client::new(Config::from_kubeconfig(kubeconfig)?)?;
        Ok(client.get::<Value>("/api/v1/nodes").await?)
    });
    nodes.is_ok_and(|nodes| condition(&nodes["items"][0], "Ready"))
}

/// Whether a condition holds.
fn condition(object: &Value, kind: &str) -> bool {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// What a Pod of echo servers is made of.
fn echo(grace_seconds: u64) -> Value {
    json!({
        "terminationGracePeriodSeconds": grace_seconds,
        "containers": [{"name": "echo", "image": "portolan.dev/echo", "ports": [{"containerPort": 8080}]}],
    })
}

/// Creates a Service of the Pods labelled `app: echo`; its address.
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
