//! Pods with `hostUsers: false`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use crate::Outcome;
use crate::world::{World, check, container, is_ready};

/// A directory that no machine has.
const MOUNT: &str = "/portolan-test-users";
/// Ids of one Pod.
const IDS_PER_POD: u64 = 65_536;

/// Whether the agent has ids to give to Pods: an ordinary user's namespace has none.
fn has_ids() -> Result<bool, Box<dyn std::error::Error>> {
    let map = fs::read_to_string("/proc/self/uid_map")?;
    let count = map.split_whitespace().nth(2);
    Ok(count.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 10 * IDS_PER_POD)))
}

/// A Pod that says its users, the content of its Secret, and who owns its volumes.
fn spec(world: &World, name: &str) -> Value {
    let out = world.path(name);
    let script = format!(
        "id -u >{0}; cat /proc/self/uid_map >>{0}; cat {MOUNT}/secret/k >>{0}; echo >>{0}; \
         stat -c %u {MOUNT}/empty {MOUNT}/memory {MOUNT}/secret/k | sort -u >>{0}; \
         echo x >{MOUNT}/empty/of-{name}; echo x >{MOUNT}/memory/of-{name}; \
         echo done >>{0}; exec sleep 1000",
        out.display()
    );
    let mounts = ["secret", "empty", "memory"]
        .map(|volume| json!({"name": volume, "mountPath": format!("{MOUNT}/{volume}")}));
    json!({"hostUsers": false, "terminationGracePeriodSeconds": 1,
        "containers": [container("a", &script, json!({"volumeMounts": mounts}))],
        "volumes": [{"name": "secret", "secret": {"secretName": "users", "defaultMode": 0o400}},
                    {"name": "empty", "emptyDir": {}},
                    {"name": "memory", "emptyDir": {"medium": "Memory"}}]})
}

/// What a Pod has said, once that is all.
async fn said(world: &World, name: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let text = || fs::read_to_string(world.path(name)).unwrap_or_default();
    world.pod_when(name, |_| text().ends_with("done\n")).await?;
    Ok(text().split_whitespace().map(str::to_owned).collect())
}

/// Whether a process of the node has that user.
fn runs_as(user: u64) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut owners = entries.filter_map(|entry| entry.metadata().ok());
    owners.any(|owner| u64::from(owner.uid()) == user)
}

pub async fn every_pod_has_ids_of_its_own(world: &mut World) -> Outcome {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "users"}, "data": {"k": "c2VjcmV0"}});
    world
        .create("/api/v1/namespaces/default/secrets", &secret)
        .await?;
    if !has_ids()? {
        world.create_pod("refused", spec(world, "refused")).await?;
        let message = world.event("refused", "FailedCreatePodSandBox").await?;
        check(
            message.contains("can't allocate user namespace: the user namespace of the agent has no range"),
            message,
        )?;
        world.delete_pod("refused").await?;
        return world.until_gone("refused").await;
    }
    let mut firsts = Vec::new();
    for name in ["users-1", "users-2"] {
        world.create_pod(name, spec(world, name)).await?;
        let words = said(world, name).await?;
        let [user, inside, first, count, secret, owner, ..] = words.as_slice() else {
            return Err(format!("{words:?}").into());
        };
        check(
            user == "0" && inside == "0" && count == "65536",
            format!("{words:?}"),
        )?;
        check(secret == "secret" && owner == "0", format!("{words:?}"))?;
        let first: u64 = first.parse()?;
        check(first >= IDS_PER_POD && first.is_multiple_of(IDS_PER_POD), first)?;
        check(runs_as(first), format!("nothing runs as {first}"))?;
        firsts.push(first);
    }
    check(firsts[0] != firsts[1], format!("{firsts:?}"))?;
    // A later agent knows whose ids are whose.
    world.kill_agent()?;
    world.start_agent()?;
    world.create_pod("users-3", spec(world, "users-3")).await?;
    let third: u64 = said(world, "users-3").await?[2].parse()?;
    check(!firsts.contains(&third), format!("{firsts:?} and {third}"))?;
    for name in ["users-1", "users-2", "users-3"] {
        world.delete_pod(name).await?;
        world.until_gone(name).await?;
    }
    check(!runs_as(firsts[0]), "processes are left")
}

pub async fn the_built_in_image_has_users_of_its_own(world: &mut World) -> Outcome {
    if !has_ids()? {
        return Ok(());
    }
    let echo = json!({"name": "a", "image": "portolan.dev/echo", "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}});
    let spec = json!({"hostUsers": false, "terminationGracePeriodSeconds": 1, "containers": [echo]});
    world.create_pod("echo-users", spec).await?;
    world.pod_when("echo-users", is_ready).await?;
    world.delete_pod("echo-users").await?;
    world.until_gone("echo-users").await
}
