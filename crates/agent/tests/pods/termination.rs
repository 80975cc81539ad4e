//! Termination of Pods: hooks, signals, grace periods and termination messages.

use std::fs;

use client::MERGE_PATCH;
use http::Method;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, PODS, check, container, is_ready};

/// Script that writes its start and its signals into a file.
fn recording_script(name: &str, file: &std::path::Path) -> String {
    let file = file.display();
    format!(
        "trap 'echo {name} TERM >>{file}; exit 0' TERM; echo {name} start >>{file}; while :; do sleep 0.1; done"
    )
}

pub(crate) async fn pre_stop_precedes_sigterm(cluster: &mut Cluster) -> Outcome {
    let file = cluster.path("hook");
    let hook = format!("sleep 1; echo $WORD >>{}", file.display());
    let fields = json!({"env": [{"name": "WORD", "value": "hook"}],
                      "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", hook]}}}});
    let main = container("a", &recording_script("a", &file), fields);
    cluster
        .create_pod("hooked", json!({"containers": [main]}))
        .await?;
    cluster
        .wait_for_pod("hooked", |pod| is_ready(pod) && file.exists())
        .await?;
    cluster.delete_pod("hooked").await?;
    cluster.wait_until_gone("hooked").await?;
    let text = fs::read_to_string(&file)?;
    check(text == "a start\nhook\na TERM\n", &text)?;
    let message = cluster.event("hooked", "Killing").await?;
    check(message == "Stopping container a", &message)
}

pub(crate) async fn sidecars_start_first_and_terminate_last(cluster: &mut Cluster) -> Outcome {
    let file = cluster.path("sidecar");
    let sidecar = container(
        "side",
        &recording_script("side", &file),
        json!({"restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["/bin/grep", "-q", "side start", file]}, "periodSeconds": 1, "timeoutSeconds": 30}}),
    );
    let first = container("first", &format!("echo first >>{}", file.display()), json!({}));
    let main = container("a", &recording_script("a", &file), json!({}));
    cluster
        .create_pod(
            "sided",
            json!({"initContainers": [sidecar, first], "containers": [main]}),
        )
        .await?;
    let written = || fs::read_to_string(&file).unwrap_or_default();
    let pod = cluster
        .wait_for_pod("sided", |pod| is_ready(pod) && written().contains("a start"))
        .await?;
    let init = &pod["status"]["initContainerStatuses"];
    check(init[0]["ready"] == true && init[0]["started"] == true, &pod)?;
    check(
        init[1]["state"]["terminated"]["reason"] == "Completed" && init[1]["ready"] == true,
        &pod,
    )?;
    cluster.delete_pod("sided").await?;
    cluster.wait_until_gone("sided").await?;
    check(
        written() == "side start\nfirst\na start\na TERM\nside TERM\n",
        written(),
    )
}

pub(crate) async fn completed_pod_keeps_its_phase(cluster: &mut Cluster) -> Outcome {
    for (name, policy, script, phase, code) in [
        ("succeeding", "OnFailure", "exit 0", "Succeeded", 0),
        ("failing", "Never", "exit 4", "Failed", 4),
    ] {
        let sidecar = container("side", "sleep 1000", json!({"restartPolicy": "Always"}));
        let spec = json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 1,
                          "initContainers": [sidecar], "containers": [container("a", script, json!({}))]});
        cluster.create_pod(name, spec).await?;
        let pod = cluster
            .wait_for_pod(name, |pod| pod["status"]["phase"] == phase)
            .await?;
        let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        check(state["exitCode"] == code, &pod)?;
        let ready = pod["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Ready");
        check(ready.is_some_and(|c: &Value| c["status"] == "False"), &pod)?;
        cluster.delete_pod(name).await?;
        cluster.wait_until_gone(name).await?;
    }
    Ok(())
}

pub(crate) async fn pod_fails_at_its_deadline(cluster: &mut Cluster) -> Outcome {
    let spec =
        json!({"terminationGracePeriodSeconds": 1, "containers": [container("a", "sleep 1000", json!({}))]});
    cluster.create_pod("limited", spec).await?;
    cluster.wait_for_pod("limited", is_ready).await?;
    let patch = json!({"spec": {"activeDeadlineSeconds": 1}});
    let path = format!("{PODS}/limited");
    cluster
        .client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await?;
    let pod = cluster
        .wait_for_pod("limited", |pod| pod["status"]["phase"] == "Failed")
        .await?;
    check(pod["status"]["reason"] == "DeadlineExceeded", &pod)?;
    let message = cluster.event("limited", "DeadlineExceeded").await?;
    check(
        message == "Pod was active on the node longer than the specified deadline",
        &message,
    )?;
    cluster.delete_pod("limited").await?;
    cluster.wait_until_gone("limited").await
}

pub(crate) async fn termination_messages_are_reported(cluster: &mut Cluster) -> Outcome {
    let fallback = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    let containers = json!([
        container("file", "printf done >/dev/termination-log; exit 1", json!({})),
        container(
            "path",
            "printf here >/tmp/message",
            json!({"terminationMessagePath": "/tmp/message"})
        ),
        container("log", "echo first; echo last; exit 2", fallback.clone()),
        container(
            "both",
            "echo log; printf file >/dev/termination-log; exit 3",
            fallback.clone()
        ),
        container("success", "echo log", fallback),
    ]);
    let spec = json!({"restartPolicy": "Never", "containers": containers});
    cluster.create_pod("messages", spec).await?;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = cluster.wait_for_pod("messages", failed).await?;
    let expected = [
        ("file", json!("done")),
        ("path", json!("here")),
        ("log", json!("first\nlast\n")),
        ("both", json!("file")),
        ("success", Value::Null),
    ];
    for (name, message) in expected {
        let mut all = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten();
        let status = all.find(|status| status["name"] == name).ok_or(name)?;
        check(status["state"]["terminated"]["message"] == message, status)?;
    }
    cluster.delete_pod("messages").await?;
    cluster.wait_until_gone("messages").await
}
