//! Ephemeral containers: `kubectl debug`.

use std::fs;
use std::time::Duration;

use client::STRATEGIC_PATCH;
use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, PODS, check, container, is_ready};
use crate::{Outcome, images, streams};

/// Status of the only ephemeral container.
fn status(pod: &Value) -> &Value {
    &pod["status"]["ephemeralContainerStatuses"][0]
}

async fn add(cluster: &Cluster, pod: &str, ephemeral: Value) -> Result<Value, client::ClientError> {
    let path = format!("{PODS}/{pod}/ephemeralcontainers");
    let patch = json!({"spec": {"ephemeralContainers": [ephemeral]}});
    cluster
        .client
        .request(Method::PATCH, &path, STRATEGIC_PATCH, Some(&patch))
        .await
}

async fn log_when(cluster: &Cluster, pod: &str, text: &str) -> Result<String, Box<dyn std::error::Error>> {
    loop {
        let log = cluster.log(pod, "container=debug").await.unwrap_or_default();
        if log.contains(text) {
            return Ok(log);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn debug_container_joins_a_running_pod(cluster: &mut Cluster) -> Outcome {
    let pod = "debugged";
    let spec =
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", "sleep 1000", json!({}))]});
    cluster.create_pod(pod, spec).await?;
    let before = cluster.wait_for_pod(pod, is_ready).await?;
    let debug = container("debug", "echo joined; exit 3", json!({}));
    add(cluster, pod, debug.clone()).await?;
    let exited = |pod: &Value| status(pod)["state"]["terminated"]["exitCode"] == 3;
    let after = cluster.wait_for_pod(pod, exited).await?;
    let of_main = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    check(of_main(&before) == of_main(&after), of_main(&after))?;
    check(is_ready(&after), &after["status"])?;
    check(status(&after)["restartCount"] == 0, status(&after))?;
    log_when(cluster, pod, "joined").await?;
    let mut changed = debug;
    changed["image"] = "portolan.dev/echo".into();
    let refused = add(cluster, pod, changed).await;
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    check(
        message.contains("existing ephemeral containers \"debug\" may not be changed"),
        message,
    )?;
    cluster.delete_pod(pod).await?;
    cluster.wait_until_gone(pod).await
}

pub(crate) async fn debug_container_sees_the_processes_of_its_target(cluster: &mut Cluster) -> Outcome {
    if !images::load_with_user(
        cluster,
        "ephemeral_containers::debug_container_sees_the_processes_of_its_target",
    )? {
        return Ok(());
    }
    let pod = "image-debugged";
    let image = images::NAME;
    let env = json!([{"name": "STOPS", "value": "/tmp"}]);
    let main = json!({"name": "main", "image": image, "env": env});
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [main]});
    cluster.create_pod(pod, spec).await?;
    cluster.wait_for_pod(pod, is_ready).await?;
    let script = "cat /proc/1/cmdline; echo; echo end; sleep 1000";
    let debug = json!({"name": "debug", "image": image, "command": ["/bin/sh", "-c", script],
        "targetContainerName": "main"});
    add(cluster, pod, debug).await?;
    let log = log_when(cluster, pod, "end\n").await?;
    check(log.contains("/bin/serve"), log)?;
    cluster.delete_pod(pod).await?;
    cluster.wait_until_gone(pod).await
}

pub(crate) async fn kubectl_debug_attaches(cluster: &mut Cluster) -> Outcome {
    if !streams::has_kubectl("ephemeral_containers::kubectl_debug_attaches") {
        return Ok(());
    }
    streams::prepare(cluster).await?;
    let file = cluster.path("typed");
    fs::write(&file, "first\n")?;
    for (transport, name) in streams::Transport::ALL.into_iter().zip(["debug-1", "debug-2"]) {
        let arguments = [
            "debug",
            "-i",
            streams::POD,
            "--image=shell",
            "--target=a",
            "-c",
            name,
            "--",
            "sh",
            "-c",
            "read line; echo got $line",
        ];
        let mut command = transport.kubectl(cluster, &arguments);
        command.stdin(fs::File::open(&file)?);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let shown = format!("{transport:?}: {output:?}");
        check(
            String::from_utf8_lossy(&output.stdout).contains("got first\n"),
            shown,
        )?;
    }
    Ok(())
}
