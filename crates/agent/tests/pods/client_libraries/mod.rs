//! Streams to Pods with client libraries: Python's `kubernetes` and Rust's `kube`.

mod kube_client;

use std::error::Error;
use std::path::Path;
use std::process::Command;

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, PODS, check, container, is_ready};

/// Pod with a container that prints, and an HTTP server on [`PORT`].
const POD: &str = "libraries";
const CONTAINER: &str = "a";
const PORT: u16 = 8080;
/// Port on which nothing listens.
const CLOSED_PORT: u16 = 9;

/// Creates the Pod of these tests, unless it exists.
async fn prepare(cluster: &Cluster) -> Outcome {
    if cluster
        .client
        .get::<Value>(&format!("{PODS}/{POD}"))
        .await
        .is_err()
    {
        let ticking = container(CONTAINER, "while :; do echo tick; sleep 0.2; done", json!({}));
        let echo = json!({"name": "echo", "image": "portolan.dev/echo", "ports": [{"containerPort": PORT}]});
        let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [ticking, echo]});
        cluster.create_pod(POD, spec).await?;
    }
    cluster.wait_for_pod(POD, is_ready).await?;
    Ok(())
}

pub(crate) async fn python_has_streams(cluster: &mut Cluster) -> Outcome {
    let mut import = Command::new("python3");
    import.args(["-c", "import kubernetes.stream"]);
    let imported = tokio::task::spawn_blocking(move || import.output()).await?;
    if !imported.is_ok_and(|output| output.status.success()) {
        println!("skipped: client_libraries::python_has_streams: python3 has no module kubernetes");
        return Ok(());
    }
    prepare(cluster).await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pods/client_libraries/python_client.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(cluster.path("admin.conf")).args([
        POD,
        CONTAINER,
        &PORT.to_string(),
        &CLOSED_PORT.to_string(),
    ]);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    check(output.status.success(), format!("{output:?}"))
}

pub(crate) async fn kube_executes_and_attaches(cluster: &mut Cluster) -> Outcome {
    prepare(cluster).await?;
    let pods = kube_client::pods(kube_config(cluster).await?)?;
    kube_client::commands_have_streams_and_results(&pods).await?;
    kube_client::input_ends(&pods).await?;
    kube_client::terminals_have_a_size(&pods).await?;
    kube_client::attached_clients_receive_output(&pods).await
}

pub(crate) async fn kube_forwards_ports(cluster: &mut Cluster) -> Outcome {
    prepare(cluster).await?;
    let pods = kube_client::pods(kube_config(cluster).await?)?;
    kube_client::ports_are_forwarded(&pods).await?;
    cluster.delete_pod(POD).await?;
    cluster.wait_until_gone(POD).await
}

async fn kube_config(cluster: &Cluster) -> Result<kube::Config, Box<dyn Error>> {
    let kubeconfig = Kubeconfig::read_from(cluster.path("admin.conf"))?;
    let options = KubeConfigOptions::default();
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}
