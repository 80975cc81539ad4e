//! Pods that files ask for, and what the API shows of them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use client::MERGE_PATCH;
use http::Method;
use serde_json::{Value, json};

use crate::Outcome;
use crate::world::{NODE, PODS, World, check, container, is_ready};

const MIRROR: &str = "kubernetes.io/config.mirror";

fn manifest(name: &str, script: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
           "spec": {"terminationGracePeriodSeconds": 1, "containers": [container("a", script, json!({}))]}})
}

fn write(world: &World, file: &str, manifest: &Value) -> std::io::Result<PathBuf> {
    let path = world.path("manifests").join(file);
    let mut manifest = manifest.clone();
    world.share(&mut manifest["spec"]);
    fs::write(&path, manifest.to_string())?;
    Ok(path)
}

/// Waits until a file says something.
async fn until_says(path: &PathBuf, what: &str) -> Outcome {
    loop {
        if fs::read_to_string(path).is_ok_and(|text| text == what) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub async fn a_file_is_a_pod_until_it_goes(world: &mut World) -> Outcome {
    let out = world.path("static-out");
    let script = format!("echo first >>{}; sleep 1000", out.display());
    let path = write(world, "web.json", &manifest("web", &script))?;
    let name = format!("web-{NODE}");
    until_says(&out, "first\n").await?;
    let mirror = world.pod_when_there(&name, is_ready).await?;
    let annotations = &mirror["metadata"]["annotations"];
    check(annotations["kubernetes.io/config.source"] == "file", &mirror)?;
    check(
        annotations[MIRROR] == annotations["kubernetes.io/config.hash"],
        &mirror,
    )?;
    check(world.log(&name, "").await?.is_empty(), "the log")?;

    // Deleting the mirror deletes the mirror.
    world.delete_pod(&name).await?;
    let is_another = |pod: &Value| pod["metadata"]["uid"] != mirror["metadata"]["uid"] && is_ready(pod);
    world.pod_when_there(&name, is_another).await?;
    // Nor does changing it change anything.
    let foreign = json!({"status": {"phase": "Failed"}});
    world.write_status(&name, &foreign).await?;
    world
        .pod_when_there(&name, |pod| pod["status"]["phase"] == "Running")
        .await?;
    check(fs::read_to_string(&out)? == "first\n", "it was started again")?;

    // A changed file is another Pod.
    let script = format!("echo second >>{}; sleep 1000", out.display());
    write(world, "web.json", &manifest("web", &script))?;
    until_says(&out, "first\nsecond\n").await?;
    let hash = annotations[MIRROR].clone();
    let is_new = |pod: &Value| pod["metadata"]["annotations"][MIRROR] != hash && is_ready(pod);
    world.pod_when_there(&name, is_new).await?;
    // One that is not understood ends nothing.
    fs::write(&path, "kind: Pod")?;
    world.pod_when_there(&name, is_new).await?;
    fs::remove_file(&path)?;
    world.until_gone(&name).await
}

pub async fn a_file_is_a_pod_without_the_api(world: &mut World) -> Outcome {
    let out = world.path("alone");
    world.kill_agent()?;
    let (kubeconfig, aside) = (world.path("node.conf"), world.path("node.conf.aside"));
    fs::rename(&kubeconfig, &aside)?;
    let text = fs::read_to_string(&aside)?;
    let nobody = text.lines().map(|line| match line.split_once("server: ") {
        Some((indent, _)) => format!("{indent}server: https://127.0.0.1:9\n"),
        None => format!("{line}\n"),
    });
    fs::write(&kubeconfig, nobody.collect::<String>())?;
    world.start_agent()?;
    let script = format!("echo started >>{}; sleep 1000", out.display());
    let path = write(world, "alone.json", &manifest("alone", &script))?;
    until_says(&out, "started\n").await?;
    // The next agent takes it over, and shows it.
    world.kill_agent()?;
    fs::rename(&aside, &kubeconfig)?;
    world.start_agent()?;
    let name = format!("alone-{NODE}");
    let mirror = world.pod_when_there(&name, is_ready).await?;
    check(
        mirror["status"]["containerStatuses"][0]["restartCount"] == 0,
        &mirror,
    )?;
    check(fs::read_to_string(&out)? == "started\n", "it was started again")?;
    // A file that goes while no agent is there ends its Pod, too.
    world.kill_agent()?;
    fs::remove_file(&path)?;
    world.start_agent()?;
    world.until_gone(&name).await
}

pub async fn foreign_words_about_a_pod_are_put_right(world: &mut World) -> Outcome {
    let main = container("a", "sleep 1000", json!({}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [main]});
    world.create_pod("true", spec).await?;
    let before = world.pod_when("true", is_ready).await?;
    for foreign in [
        json!({"phase": "Failed"}),
        json!({"podIP": "10.244.1.200", "podIPs": [{"ip": "10.244.1.200"}]}),
        json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "example.com/mine", "status": "True"}]}),
        json!({"containerStatuses": []}),
    ] {
        let written = world.write_status("true", &json!({"status": &foreign})).await?;
        let version = written["metadata"]["resourceVersion"].clone();
        println!("  put right: {foreign}");
        let is_right = |pod: &Value| {
            let status = &pod["status"];
            pod["metadata"]["resourceVersion"] != version
                && is_ready(pod)
                && status["phase"] == "Running"
                && status["podIP"] == before["status"]["podIP"]
                && status["containerStatuses"][0]["ready"] == true
        };
        world.pod_when("true", is_right).await?;
    }
    let pod = world.pod_when("true", |_| true).await?;
    check(crate::world::condition(&pod, "example.com/mine") == "True", &pod)?;
    world.delete_pod("true").await?;
    world.until_gone("true").await
}

impl World {
    /// Writes over the status of a Pod; what is there then.
    async fn write_status(&self, pod: &str, patch: &Value) -> Result<Value, Box<dyn std::error::Error>> {
        let path = format!("{PODS}/{pod}/status");
        Ok(self
            .client
            .request(Method::PATCH, &path, MERGE_PATCH, Some(patch))
            .await?)
    }

    /// Waits until a Pod is there and as it should be.
    async fn pod_when_there(
        &self,
        name: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, Box<dyn std::error::Error>> {
        loop {
            match self.client.get::<Value>(&format!("{PODS}/{name}")).await {
                Ok(pod) if holds(&pod) => return Ok(pod),
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}
