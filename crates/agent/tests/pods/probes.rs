//! Probes, from the manifest to the status.

use std::fs;

use serde_json::json;

use crate::Outcome;
use crate::world::{World, check, condition, container, is_ready};

pub async fn readiness_follows_its_probe(world: &mut World) -> Outcome {
    let flag = world.path("ready");
    let probe = json!({"exec": {"command": ["/bin/sh", "-c", format!("test -f {} || echo no flag; test -f {}", flag.display(), flag.display())]},
                       "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 30});
    let main = container("a", "sleep 1000", json!({"readinessProbe": probe}));
    world.create_pod("flagged", json!({"containers": [main]})).await?;
    let message = world.event("flagged", "Unhealthy").await?;
    check(message == "Readiness probe failed: no flag\n", &message)?;
    let pod = world
        .pod_when("flagged", |pod| pod["status"]["phase"] == "Running")
        .await?;
    check(condition(&pod, "Ready") == "False", &pod)?;
    check(condition(&pod, "Initialized") == "True", &pod)?;
    fs::write(&flag, "")?;
    world.pod_when("flagged", is_ready).await?;
    fs::remove_file(&flag)?;
    let pod = world.pod_when("flagged", |pod| !is_ready(pod)).await?;
    check(pod["status"]["containerStatuses"][0]["restartCount"] == 0, &pod)?;
    world.delete_pod("flagged").await?;
    world.until_gone("flagged").await
}

pub async fn liveness_restarts_the_container(world: &mut World) -> Outcome {
    let flag = world.path("sick");
    let script = "trap 'exit 3' TERM; while :; do sleep 0.1; done";
    let probe = json!({"exec": {"command": ["/usr/bin/test", "!", "-e", flag]},
                       "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 30, "terminationGracePeriodSeconds": 60});
    let main = container("a", script, json!({"livenessProbe": probe}));
    world.create_pod("sick", json!({"containers": [main]})).await?;
    world.pod_when("sick", is_ready).await?;
    fs::write(&flag, "")?;
    let message = world.event("sick", "Killing").await?;
    check(
        message == "Container a failed liveness probe, will be restarted",
        &message,
    )?;
    fs::remove_file(&flag)?;
    let pod = world
        .pod_when("sick", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 1 && is_ready(pod)
        })
        .await?;
    let last = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
    check(last["exitCode"] == 3 && last["reason"] == "Error", &pod)?;
    world.delete_pod("sick").await?;
    world.until_gone("sick").await
}

/// The echo server answers HTTP; what does not speak gRPC is not healthy by gRPC.
pub async fn grpc_and_http_are_asked_over_the_network(world: &mut World) -> Outcome {
    let http =
        json!({"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1, "timeoutSeconds": 30});
    let main = json!({"name": "a", "image": "portolan.dev/echo", "ports": [{"name": "http", "containerPort": 8080}],
                      "startupProbe": http, "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 30}});
    world.create_pod("echo", json!({"containers": [main]})).await?;
    let pod = world.pod_when("echo", is_ready).await?;
    check(pod["status"]["containerStatuses"][0]["started"] == true, &pod)?;
    let main = json!({"name": "a", "image": "portolan.dev/echo", "ports": [{"containerPort": 8080}],
                      "readinessProbe": {"grpc": {"port": 8080}, "periodSeconds": 1, "timeoutSeconds": 30}});
    world.create_pod("no-grpc", json!({"containers": [main]})).await?;
    let message = world.event("no-grpc", "Unhealthy").await?;
    check(message.starts_with("Readiness probe failed: error:"), &message)?;
    for name in ["echo", "no-grpc"] {
        world.delete_pod(name).await?;
        world.until_gone(name).await?;
    }
    Ok(())
}
