//! Throughput of `kubectl port-forward`, through `portolan up` and through kubelet and API server of a real cluster.

mod download;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use client::Client;
use serde_json::{Value, json};

use super::{PODS, StandaloneNode, create, has_condition, images};
use crate::Failure;
use crate::environment::TIMEOUT;
use crate::image_archive;
use crate::takeover::cluster::RealCluster;
use download::{POD, PORT, throughput};

/// Beginning of the line with the figure of Portolan.
const FIGURE: &str = "port-forward through portolan up:";
/// Pause between attempts to create the Pod, and between reads of it.
const PAUSE: Duration = Duration::from_millis(200);

/// Flags of `bench port-forward`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Mebibytes of one download
    #[arg(long, default_value_t = 256)]
    mebibytes: usize,
    /// Number of downloads; the figure is their median
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Script that starts a cluster, see CONTRIBUTING.md, for the ratio to its kubelet and API server
    #[arg(long, value_name = "FILE")]
    cluster_script: Option<PathBuf>,
}

impl Flags {
    /// Script of the other cluster.
    pub(crate) fn script(&self) -> Option<&Path> {
        self.cluster_script.as_deref()
    }
}

/// Measures Portolan.
pub(super) fn run(flags: &Flags, standalone: &mut StandaloneNode) -> Result<(), Failure> {
    let data_directory = standalone
        .kubeconfig
        .parent()
        .ok_or("the kubeconfig has no directory")?;
    let archive = image_archive::write(&data_directory.join("bench-image"), 0)?;
    images::load(&archive, data_directory)?;
    standalone.run(async |client| start_server(&client, flags.mebibytes).await)?;
    let node = standalone
        .cluster
        .nodes()
        .next()
        .ok_or("the testbed has no node")?;
    let figure = throughput(
        &node.namespace,
        &standalone.kubeconfig,
        flags.mebibytes,
        flags.rounds,
    )?;
    println!("{FIGURE} {figure:.1} MiB/s");
    Ok(())
}

/// Measures the cluster of a script, then Portolan in another process, and prints the ratio.
pub(super) fn compare(flags: &Flags, script: &Path) -> Result<ExitCode, Failure> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: port-forward (the script that starts a cluster needs root)");
        return Ok(ExitCode::SUCCESS);
    }
    let cluster = RealCluster::new(script, 1);
    cluster.up()?;
    let peer = measure_cluster(flags, &cluster);
    cluster.down()?;
    let peer = peer?;
    println!("port-forward through kubelet and kube-apiserver: {peer:.1} MiB/s");
    let output = Command::new(std::env::current_exe()?)
        .arg("port-forward")
        .arg(format!("--mebibytes={}", flags.mebibytes))
        .arg(format!("--rounds={}", flags.rounds))
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    print!("{text}");
    let line = text.lines().find_map(|line| line.strip_prefix(FIGURE));
    let figure = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let figure = figure.ok_or_else(|| format!("no figure of portolan up: {}", output.status))?;
    println!("ratio: {:.2}", figure / peer);
    Ok(ExitCode::SUCCESS)
}

fn measure_cluster(flags: &Flags, cluster: &RealCluster) -> Result<f64, Failure> {
    let archive = image_archive::write(&cluster.directory.join("bench-image"), 0)?;
    cluster.load_image(&archive)?;
    cluster.with_client(async |client| start_server(&client, flags.mebibytes).await)?;
    let kubeconfig = cluster.directory.join("admin.conf");
    throughput(
        &cluster.outside_namespace()?,
        &kubeconfig,
        flags.mebibytes,
        flags.rounds,
    )
}

/// Starts a Pod that serves a file of zeros, and waits until it is ready.
async fn start_server(client: &Client, mebibytes: usize) -> Result<(), Failure> {
    let script = format!("truncate -s {mebibytes}M /tmp/data && exec httpd -f -p {PORT} -h /tmp");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main",
                "image": image_archive::NAME,
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", script],
                "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            }],
        },
    });
    let started = Instant::now();
    // The ServiceAccount of a new cluster exists after a moment.
    while let Err(error) = create(client, PODS, &pod).await {
        if started.elapsed() > TIMEOUT {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
    }
    loop {
        let pod: Value = client.get(&format!("{PODS}/{POD}")).await?;
        if has_condition(&pod, "Ready") {
            return Ok(());
        }
        if started.elapsed() > TIMEOUT {
            return Err(format!("the server is not ready: {}", pod["status"]).into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
