//! CPU time and memory in `metrics.k8s.io`, and `kubectl top`.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

use agent::resources::cgroups::Cgroups;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, NODE, check, container, is_ready};

const POD: &str = "busy";
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
/// Millicores that the busy container uses at least, even on a busy host.
const BUSY_MILLICORES_MIN: u128 = 20;
const PAUSE: Duration = Duration::from_millis(250);

pub(crate) async fn containers_and_nodes_are_measured(cluster: &mut Cluster) -> Outcome {
    let busy = container("busy", "while :; do :; done", json!({}));
    let idle = container("idle", "sleep 1000", json!({}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [busy, idle]});
    cluster.create_pod(POD, spec).await?;
    cluster.wait_for_pod(POD, is_ready).await?;
    let node = measured(cluster, &format!("{METRICS}/nodes/{NODE}")).await?;
    check(millicores(&node["usage"]) > 0 && node["window"] != "", &node)?;
    if is_cpu_time_counted() {
        containers_are_measured(cluster).await?;
        kubectl_shows_usage(cluster).await?;
    } else {
        println!("skipped: usage::containers_and_nodes_are_measured: no control groups that count CPU time");
    }
    cluster.delete_pod(POD).await?;
    cluster.wait_until_gone(POD).await?;
    let gone = cluster
        .client
        .get::<Value>(&format!("{METRICS}/namespaces/default/pods/{POD}"))
        .await;
    check(
        gone.is_err_and(|error| error.is_not_found()),
        "usage of a deleted Pod",
    )
}

async fn containers_are_measured(cluster: &Cluster) -> Outcome {
    let pod = measured(cluster, &format!("{METRICS}/namespaces/default/pods/{POD}")).await?;
    let containers = pod["containers"].as_array().ok_or("no containers")?;
    let usage_of = |name: &str| {
        let found = containers.iter().find(|container| container["name"] == name);
        found.map(|container| millicores(&container["usage"]))
    };
    let (busy, idle) = (usage_of("busy").ok_or("busy")?, usage_of("idle").ok_or("idle")?);
    check(busy >= BUSY_MILLICORES_MIN && busy > idle, &pod)?;
    check(pod["metadata"]["labels"]["app"] == POD, &pod)?;
    let select = |selector: &str| format!("{METRICS}/pods?labelSelector={selector}");
    let selected: Value = cluster.client.get(&select("app%3Dbusy")).await?;
    check(
        selected["items"].as_array().is_some_and(|items| items.len() == 1),
        &selected,
    )?;
    let others: Value = cluster.client.get(&select("app%3Dother")).await?;
    check(others["items"] == json!([]), &others)
}

async fn kubectl_shows_usage(cluster: &Cluster) -> Outcome {
    fs::create_dir_all(cluster.path("home"))?;
    let commands: [(&[&str], &str); 3] = [
        (&["top", "pod", POD, "--containers"], "idle"),
        (&["top", "pod", "-l", "app=busy"], POD),
        (&["top", "node"], NODE),
    ];
    for (arguments, expected) in commands {
        let mut command = Command::new("kubectl");
        command
            .env("KUBECONFIG", cluster.path("admin.conf"))
            .env("HOME", cluster.path("home"))
            .args(arguments);
        match tokio::task::spawn_blocking(move || command.output()).await? {
            Ok(output) => {
                let shown = String::from_utf8_lossy(&output.stdout);
                check(shown.contains(expected), format!("{arguments:?}: {output:?}"))?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: usage::containers_and_nodes_are_measured: kubectl is not installed");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until the object is measured.
async fn measured(cluster: &Cluster, path: &str) -> Result<Value, Box<dyn Error>> {
    loop {
        match cluster.client.get::<Value>(path).await {
            Err(error) if error.is_not_found() => tokio::time::sleep(PAUSE).await,
            other => return Ok(other?),
        }
    }
}

fn is_cpu_time_counted() -> bool {
    match Cgroups::open() {
        Ok(Cgroups::V1 { cpuacct, .. }) => cpuacct.is_some(),
        Ok(Cgroups::V2 { .. }) => true,
        Err(_) => false,
    }
}

/// CPU quantity of a usage, in thousandths of a core.
fn millicores(usage: &Value) -> u128 {
    let text = usage["cpu"].as_str().unwrap_or_default();
    let (digits, nanocores) = match text.as_bytes().last() {
        Some(b'n') => (&text[..text.len() - 1], 1),
        Some(b'u') => (&text[..text.len() - 1], 1_000),
        Some(b'm') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1_000_000_000),
    };
    digits
        .parse::<u128>()
        .map_or(0, |value| value * nanocores / 1_000_000)
}
