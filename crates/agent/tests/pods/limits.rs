//! Pods that want too much.

use agent::cgroups::Cgroups;
use serde_json::{Value, json};

use crate::Outcome;
use crate::world::{PIDS_MAX, World, check, container, is_ready};

/// Where there are no control groups, that has to be said.
async fn are_enforced(world: &World, pod: &str) -> Result<bool, Box<dyn std::error::Error>> {
    if Cgroups::open().is_ok() {
        return Ok(true);
    }
    let message = world.event(pod, "LimitsNotEnforced").await?;
    println!("skipped: limits of {pod}: {message}");
    Ok(false)
}

pub async fn too_much_memory_ends_the_container(world: &mut World) -> Outcome {
    let script = "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}";
    let main = container("a", script, json!({"resources": {"limits": {"memory": "32Mi"}}}));
    world
        .create_pod("greedy", json!({"restartPolicy": "Never", "containers": [main]}))
        .await?;
    let ended = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["terminated"].is_object();
    if are_enforced(world, "greedy").await? {
        let pod = world.pod_when("greedy", ended).await?;
        let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        check(state["reason"] == "OOMKilled" && state["exitCode"] != 0, &pod)?;
    }
    world.delete_pod("greedy").await?;
    world.until_gone("greedy").await
}

pub async fn a_fork_bomb_is_held(world: &mut World) -> Outcome {
    let out = world.path("bomb");
    let script = format!(
        "for i in $(seq 200); do sleep 1000 & done 2>{}; sleep 1000",
        out.display()
    );
    let limits = json!({"resources": {"limits": {"cpu": "500m"}}});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", &script, limits)]});
    world.create_pod("bomb", spec).await?;
    world.pod_when("bomb", is_ready).await?;
    if are_enforced(world, "bomb").await? {
        let refused = || std::fs::read_to_string(&out).unwrap_or_default();
        world.pod_when("bomb", |_| refused().contains("fork")).await?;
        let sleepers = sleepers()?;
        check(sleepers <= PIDS_MAX, format!("{sleepers} processes"))?;
    }
    world.delete_pod("bomb").await?;
    world.until_gone("bomb").await?;
    check(sleepers()? == 0, "processes are left")
}

/// How many `sleep 1000` run.
fn sleepers() -> std::io::Result<u64> {
    let is_one = |entry: &std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|command| command == b"sleep\x001000\x00")
    };
    Ok(std::fs::read_dir("/proc")?.flatten().filter(is_one).count() as u64)
}
