//! Probes and their effect on the status.

use std::fs;

use serde_json::json;

use crate::Outcome;
use crate::cluster::{Cluster, check, condition, container, is_ready};

pub(crate) async fn readiness_follows_its_probe(cluster: &mut Cluster) -> Outcome {
    let flag = cluster.path("ready");
    let probe = json!({"exec": {"command": ["/bin/sh", "-c", format!("test -f {} || echo no flag; test -f {}", flag.display(), flag.display())]},
                       "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 30});
    let main = container("a", "sleep 1000", json!({"readinessProbe": probe}));
    cluster
        .create_pod("flagged", json!({"containers": [main]}))
        .await?;
    let message = cluster.event("flagged", "Unhealthy").await?;
    check(message == "Readiness probe failed: no flag\n", &message)?;
    let pod = cluster
        .wait_for_pod("flagged", |pod| pod["status"]["phase"] == "Running")
        .await?;
    check(condition(&pod, "Ready") == "False", &pod)?;
    check(condition(&pod, "Initialized") == "True", &pod)?;
    fs::write(&flag, "")?;
    cluster.wait_for_pod("flagged", is_ready).await?;
    fs::remove_file(&flag)?;
    let pod = cluster.wait_for_pod("flagged", |pod| !is_ready(pod)).await?;
    check(pod["status"]["containerStatuses"][0]["restartCount"] == 0, &pod)?;
    cluster.delete_pod("flagged").await?;
    cluster.wait_until_gone("flagged").await
}

pub(crate) async fn failed_liveness_probe_restarts_the_container(cluster: &mut Cluster) -> Outcome {
    let flag = cluster.path("sick");
    let script = "trap 'exit 3' TERM; while :; do sleep 0.1; done";
    let probe = json!({"exec": {"command": ["/usr/bin/test", "!", "-e", flag]},
                       "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 30, "terminationGracePeriodSeconds": 60});
    let main = container("a", script, json!({"livenessProbe": probe}));
    cluster.create_pod("sick", json!({"containers": [main]})).await?;
    cluster.wait_for_pod("sick", is_ready).await?;
    fs::write(&flag, "")?;
    let message = cluster.event("sick", "Killing").await?;
    check(
        message == "Container a failed liveness probe, will be restarted",
        &message,
    )?;
    fs::remove_file(&flag)?;
    let pod = cluster
        .wait_for_pod("sick", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 1 && is_ready(pod)
        })
        .await?;
    let last = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
    check(last["exitCode"] == 3 && last["reason"] == "Error", &pod)?;
    cluster.delete_pod("sick").await?;
    cluster.wait_until_gone("sick").await
}

/// The echo server passes HTTP and TCP probes, and fails gRPC probes.
pub(crate) async fn network_probes_reach_the_pod(cluster: &mut Cluster) -> Outcome {
    let http =
        json!({"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1, "timeoutSeconds": 30});
    let main = json!({"name": "a", "image": "portolan.dev/echo", "ports": [{"name": "http", "containerPort": 8080}],
                      "startupProbe": http, "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 30}});
    cluster.create_pod("echo", json!({"containers": [main]})).await?;
    let pod = cluster.wait_for_pod("echo", is_ready).await?;
    check(pod["status"]["containerStatuses"][0]["started"] == true, &pod)?;
    let main = json!({"name": "a", "image": "portolan.dev/echo", "ports": [{"containerPort": 8080}],
                      "readinessProbe": {"grpc": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 30}});
    cluster
        .create_pod("no-grpc", json!({"containers": [main]}))
        .await?;
    let message = cluster.event("no-grpc", "Unhealthy").await?;
    check(message.starts_with("Readiness probe failed: error:"), &message)?;
    for name in ["echo", "no-grpc"] {
        cluster.delete_pod(name).await?;
        cluster.wait_until_gone(name).await?;
    }
    Ok(())
}
