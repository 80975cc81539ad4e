//! Pods beyond their limits of memory, processes and disk space.

use agent::resources::cgroups::Cgroups;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, PIDS_MAX, check, container, is_ready};

/// Returns true if the node enforces limits. Without control groups, an Event must say so, and `test` is skipped.
async fn are_enforced(cluster: &Cluster, pod: &str, test: &str) -> Result<bool, Box<dyn std::error::Error>> {
    if Cgroups::open().is_ok() {
        return Ok(true);
    }
    let message = cluster.event(pod, "LimitsNotEnforced").await?;
    println!("skipped: {test}: {message}");
    Ok(false)
}

pub(crate) async fn exceeding_memory_kills_the_container(cluster: &mut Cluster) -> Outcome {
    let script = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}";
    let main = container("a", script, json!({"resources": {"limits": {"memory": "32Mi"}}}));
    cluster
        .create_pod("greedy", json!({"restartPolicy": "Never", "containers": [main]}))
        .await?;
    let ended = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["terminated"].is_object();
    if are_enforced(cluster, "greedy", "limits::exceeding_memory_kills_the_container").await? {
        let pod = cluster.wait_for_pod("greedy", ended).await?;
        let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        check(state["reason"] == "OOMKilled" && state["exitCode"] != 0, &pod)?;
    }
    cluster.delete_pod("greedy").await?;
    cluster.wait_until_gone("greedy").await
}

pub(crate) async fn fork_bomb_is_contained(cluster: &mut Cluster) -> Outcome {
    let out = cluster.path("bomb");
    let script = format!(
        "for i in $(seq 200); do sleep 1000 & done 2>{}; sleep 1000",
        out.display()
    );
    let limits = json!({"resources": {"limits": {"cpu": "500m"}}});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, limits)]});
    cluster.create_pod("bomb", spec).await?;
    cluster.wait_for_pod("bomb", is_ready).await?;
    if are_enforced(cluster, "bomb", "limits::fork_bomb_is_contained").await? {
        let errors = || std::fs::read_to_string(&out).unwrap_or_default();
        cluster
            .wait_for_pod("bomb", |_| errors().contains("fork"))
            .await?;
        let sleepers = sleepers()?;
        check(sleepers <= PIDS_MAX, format!("{sleepers} processes"))?;
    }
    cluster.delete_pod("bomb").await?;
    cluster.wait_until_gone("bomb").await?;
    check(sleepers()? == 0, "processes remain")
}

/// Number of running `sleep 1000`.
fn sleepers() -> std::io::Result<u64> {
    let is_sleeper = |entry: &std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|command| command == b"sleep\x001000\x00")
    };
    Ok(std::fs::read_dir("/proc")?.flatten().filter(is_sleeper).count() as u64)
}

/// Creates a Pod that writes 10 MiB into an `emptyDir`, and waits for its eviction. Returns the message.
async fn evicted(
    cluster: &Cluster,
    pod: &str,
    empty_dir: Value,
    limit: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let script = "head -c 10485760 /dev/zero >/tmp/data/file; sleep 1000";
    let fields = json!({
        "resources": {"limits": {"ephemeral-storage": limit}},
        "volumeMounts": [{"name": "data", "mountPath": "/tmp/data"}],
    });
    let spec = json!({
        "containers": [container("a", script, fields)],
        "volumes": [{"name": "data", "emptyDir": empty_dir}],
    });
    cluster.create_pod(pod, spec).await?;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let found = cluster.wait_for_pod(pod, failed).await?;
    check(found["status"]["reason"] == "Evicted", &found["status"])?;
    let state = &found["status"]["containerStatuses"][0]["state"];
    check(state["terminated"].is_object(), state)?;
    let message = found["status"]["message"].as_str().unwrap_or_default().to_owned();
    check(cluster.event(pod, "Evicted").await? == message, &message)?;
    cluster.delete_pod(pod).await?;
    cluster.wait_until_gone(pod).await?;
    Ok(message)
}

pub(crate) async fn exceeding_the_disk_limit_evicts_the_pod(cluster: &mut Cluster) -> Outcome {
    let message = evicted(cluster, "disk", json!({}), "5Mi").await?;
    let expected = "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ";
    check(message == expected, message)?;
    let message = evicted(cluster, "volume", json!({"sizeLimit": "1Mi"}), "1Gi").await?;
    let expected = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ";
    check(message == expected, message)
}
