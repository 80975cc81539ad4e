//! Restarts of the agent and of the node.

use std::fs;

use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, check, container, is_ready};

pub(crate) async fn pods_survive_a_killed_agent(cluster: &mut Cluster) -> Outcome {
    let file = cluster.path("kept");
    let script = format!("echo started >>{}; sleep 1000", file.display());
    let crashing = container("b", "exit 1", json!({}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, json!({})), crashing]});
    cluster.create_pod("kept", spec).await?;
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][1]["restartCount"].as_u64();
    let is_waiting = |pod: &Value| {
        pod["status"]["containerStatuses"][1]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    let before = cluster
        .wait_for_pod("kept", |pod| restarts(pod) >= Some(1) && is_waiting(pod))
        .await?;
    cluster.kill_agent()?;
    cluster.start_agent()?;
    cluster.event("kept", "BackOff").await?;
    let after = cluster
        .wait_for_pod("kept", |pod| restarts(pod) > restarts(&before))
        .await?;
    check(
        fs::read_to_string(&file)? == "started\n",
        "the container was started again",
    )?;
    check(after["status"]["podIP"] == before["status"]["podIP"], &after)?;
    check(
        after["status"]["containerStatuses"][0]["restartCount"] == 0,
        &after,
    )?;
    cluster.delete_pod("kept").await?;
    cluster.wait_until_gone("kept").await
}

pub(crate) async fn pods_restart_after_a_reboot(cluster: &mut Cluster) -> Outcome {
    let file = cluster.path("booted");
    let script = format!("echo started >>{}; sleep 1000", file.display());
    let spec =
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, json!({}))]});
    cluster.create_pod("booted", spec).await?;
    cluster.wait_for_pod("booted", is_ready).await?;
    cluster.kill_agent()?;
    kill_sandboxes()?;
    cluster.start_agent()?;
    let pod = cluster
        .wait_for_pod("booted", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 1 && is_ready(pod)
        })
        .await?;
    check(fs::read_to_string(&file)? == "started\nstarted\n", &pod)?;
    cluster.delete_pod("booted").await?;
    cluster.wait_until_gone("booted").await
}

/// Kills all sandboxes with their containers, as a reboot does.
fn kill_sandboxes() -> Outcome {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = number.and_then(rustix::process::Pid::from_raw)
            && command.starts_with(b"portolan-sandbox")
        {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        }
    }
    Ok(())
}
