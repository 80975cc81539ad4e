//! Pods with `hostUsers: false`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, check, container, is_ready};

/// Mount point that no host has.
const MOUNT: &str = "/portolan-test-users";
/// IDs of one Pod.
const IDS_PER_POD: u64 = 65_536;

/// Returns true if the agent has IDs for Pods. The namespace of an unprivileged user has none.
fn has_ids() -> Result<bool, Box<dyn std::error::Error>> {
    let map = fs::read_to_string("/proc/self/uid_map")?;
    let count = map.split_whitespace().nth(2);
    Ok(count.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 10 * IDS_PER_POD)))
}

/// Pod that writes its users, the content of its Secret and the owners of its volumes into a file.
fn spec(cluster: &Cluster, name: &str) -> Value {
    let out = cluster.path(name);
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

/// Words that a Pod has written, once it is done.
async fn words_of(cluster: &Cluster, name: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let text = || fs::read_to_string(cluster.path(name)).unwrap_or_default();
    cluster.wait_for_pod(name, |_| text().ends_with("done\n")).await?;
    Ok(text().split_whitespace().map(str::to_owned).collect())
}

/// Returns true if a process of the node has that user.
fn runs_as(user: u64) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut owners = entries.filter_map(|entry| entry.metadata().ok());
    owners.any(|owner| u64::from(owner.uid()) == user)
}

pub(crate) async fn pods_have_distinct_ids(cluster: &mut Cluster) -> Outcome {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "users"}, "data": {"k": "c2VjcmV0"}});
    cluster
        .create("/api/v1/namespaces/default/secrets", &secret)
        .await?;
    if !has_ids()? {
        cluster.create_pod("rejected", spec(cluster, "rejected")).await?;
        let message = cluster.event("rejected", "FailedCreatePodSandBox").await?;
        check(
            message.contains("can't allocate user namespace: the user namespace of the agent has no range"),
            message,
        )?;
        cluster.delete_pod("rejected").await?;
        return cluster.wait_until_gone("rejected").await;
    }
    let mut firsts = Vec::new();
    for name in ["users-1", "users-2"] {
        cluster.create_pod(name, spec(cluster, name)).await?;
        let words = words_of(cluster, name).await?;
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
    // A later agent does not allocate them again.
    cluster.kill_agent()?;
    cluster.start_agent()?;
    cluster.create_pod("users-3", spec(cluster, "users-3")).await?;
    let third: u64 = words_of(cluster, "users-3").await?[2].parse()?;
    check(!firsts.contains(&third), format!("{firsts:?} and {third}"))?;
    for name in ["users-1", "users-2", "users-3"] {
        cluster.delete_pod(name).await?;
        cluster.wait_until_gone(name).await?;
    }
    check(!runs_as(firsts[0]), "processes remain")
}

pub(crate) async fn echo_image_runs_in_a_user_namespace(cluster: &mut Cluster) -> Outcome {
    if !has_ids()? {
        return Ok(());
    }
    let echo = json!({"name": "a", "image": "portolan.dev/echo", "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}});
    let spec = json!({"hostUsers": false, "terminationGracePeriodSeconds": 1, "containers": [echo]});
    cluster.create_pod("echo-users", spec).await?;
    cluster.wait_for_pod("echo-users", is_ready).await?;
    cluster.delete_pod("echo-users").await?;
    cluster.wait_until_gone("echo-users").await
}
