//! Agents that are killed, and machines that are started anew.

use std::fs;

use serde_json::{Value, json};

use crate::Outcome;
use crate::world::{World, check, container, is_ready};

pub async fn a_killed_agent_leaves_its_pods_running(world: &mut World) -> Outcome {
    let file = world.path("kept");
    let script = format!("echo started >>{}; sleep 1000", file.display());
    let crashing = container("b", "exit 1", json!({}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, json!({})), crashing]});
    world.create_pod("kept", spec).await?;
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][1]["restartCount"].as_u64();
    let waits = |pod: &Value| {
        pod["status"]["containerStatuses"][1]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    let before = world
        .pod_when("kept", |pod| restarts(pod) >= Some(1) && waits(pod))
        .await?;
    world.kill_agent()?;
    world.start_agent()?;
    world.event("kept", "BackOff").await?;
    let after = world
        .pod_when("kept", |pod| restarts(pod) > restarts(&before))
        .await?;
    check(fs::read_to_string(&file)? == "started\n", "it was started again")?;
    check(after["status"]["podIP"] == before["status"]["podIP"], &after)?;
    check(
        after["status"]["containerStatuses"][0]["restartCount"] == 0,
        &after,
    )?;
    world.delete_pod("kept").await?;
    world.until_gone("kept").await
}

pub async fn a_reboot_brings_them_back(world: &mut World) -> Outcome {
    let file = world.path("booted");
    let script = format!("echo started >>{}; sleep 1000", file.display());
    let spec =
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, json!({}))]});
    world.create_pod("booted", spec).await?;
    world.pod_when("booted", is_ready).await?;
    world.kill_agent()?;
    kill_sandboxes()?;
    world.start_agent()?;
    let pod = world
        .pod_when("booted", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 1 && is_ready(pod)
        })
        .await?;
    check(fs::read_to_string(&file)? == "started\nstarted\n", &pod)?;
    world.delete_pod("booted").await?;
    world.until_gone("booted").await
}

/// Kills all sandboxes, and with them what runs in them.
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
