//! How Pods end.

use std::fs;

use serde_json::{Value, json};

use crate::Outcome;
use crate::world::{World, check, container, is_ready};

/// A script that writes what happens to it into a file.
fn diary(name: &str, file: &std::path::Path) -> String {
    let file = file.display();
    format!(
        "trap 'echo {name} TERM >>{file}; exit 0' TERM; echo {name} start >>{file}; while :; do sleep 0.1; done"
    )
}

pub async fn the_hook_comes_before_the_signal(world: &mut World) -> Outcome {
    let file = world.path("hook");
    let hook = format!("sleep 1; echo $WORD >>{}", file.display());
    let more = json!({"env": [{"name": "WORD", "value": "hook"}],
                      "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", hook]}}}});
    let main = container("a", &diary("a", &file), more);
    world.create_pod("hooked", json!({"containers": [main]})).await?;
    world
        .pod_when("hooked", |pod| is_ready(pod) && file.exists())
        .await?;
    world.delete_pod("hooked").await?;
    world.until_gone("hooked").await?;
    let text = fs::read_to_string(&file)?;
    check(text == "a start\nhook\na TERM\n", &text)?;
    let message = world.event("hooked", "Killing").await?;
    check(message == "Stopping container a", &message)
}

pub async fn sidecars_start_first_and_end_last(world: &mut World) -> Outcome {
    let file = world.path("sidecar");
    let sidecar = container(
        "side",
        &diary("side", &file),
        json!({"restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["/bin/grep", "-q", "side start", file]}, "periodSeconds": 1, "timeoutSeconds": 30}}),
    );
    let first = container("first", &format!("echo first >>{}", file.display()), json!({}));
    let main = container("a", &diary("a", &file), json!({}));
    world
        .create_pod(
            "sided",
            json!({"initContainers": [sidecar, first], "containers": [main]}),
        )
        .await?;
    let written = || fs::read_to_string(&file).unwrap_or_default();
    let pod = world
        .pod_when("sided", |pod| is_ready(pod) && written().contains("a start"))
        .await?;
    let init = &pod["status"]["initContainerStatuses"];
    check(init[0]["ready"] == true && init[0]["started"] == true, &pod)?;
    check(
        init[1]["state"]["terminated"]["reason"] == "Completed" && init[1]["ready"] == true,
        &pod,
    )?;
    world.delete_pod("sided").await?;
    world.until_gone("sided").await?;
    check(
        written() == "side start\nfirst\na start\na TERM\nside TERM\n",
        written(),
    )
}

pub async fn a_pod_that_has_done_its_work_stays_so(world: &mut World) -> Outcome {
    for (name, policy, script, phase, code) in [
        ("good", "OnFailure", "exit 0", "Succeeded", 0),
        ("bad", "Never", "exit 4", "Failed", 4),
    ] {
        let sidecar = container("side", "sleep 1000", json!({"restartPolicy": "Always"}));
        let spec = json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 1,
                          "initContainers": [sidecar], "containers": [container("a", script, json!({}))]});
        world.create_pod(name, spec).await?;
        let pod = world
            .pod_when(name, |pod| pod["status"]["phase"] == phase)
            .await?;
        let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        check(state["exitCode"] == code, &pod)?;
        let ready = pod["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|c| c["type"] == "Ready");
        check(ready.is_some_and(|c: &Value| c["status"] == "False"), &pod)?;
        world.delete_pod(name).await?;
        world.until_gone(name).await?;
    }
    Ok(())
}
