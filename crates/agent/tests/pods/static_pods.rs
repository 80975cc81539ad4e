//! Static Pods and their mirror Pods.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use client::MERGE_PATCH;
use http::Method;
use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, NODE, PODS, check, container, is_ready};

const MIRROR: &str = "kubernetes.io/config.mirror";

fn manifest(name: &str, script: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
           "spec": {"terminationGracePeriodSeconds": 1, "containers": [container("a", script, json!({}))]}})
}

fn write(cluster: &Cluster, file: &str, manifest: &Value) -> std::io::Result<PathBuf> {
    let path = cluster.path("manifests").join(file);
    let mut manifest = manifest.clone();
    cluster.share(&mut manifest["spec"]);
    fs::write(&path, manifest.to_string())?;
    Ok(path)
}

/// Waits until a file has the content.
async fn wait_for_content(path: &PathBuf, content: &str) -> Outcome {
    loop {
        if fs::read_to_string(path).is_ok_and(|text| text == content) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn manifest_controls_its_pod(cluster: &mut Cluster) -> Outcome {
    let out = cluster.path("static-out");
    let script = format!("echo first >>{}; sleep 1000", out.display());
    let path = write(cluster, "web.json", &manifest("web", &script))?;
    let name = format!("web-{NODE}");
    wait_for_content(&out, "first\n").await?;
    let mirror = cluster.wait_for_existing_pod(&name, is_ready).await?;
    let annotations = &mirror["metadata"]["annotations"];
    check(annotations["kubernetes.io/config.source"] == "file", &mirror)?;
    check(
        annotations[MIRROR] == annotations["kubernetes.io/config.hash"],
        &mirror,
    )?;
    check(cluster.log(&name, "").await?.is_empty(), "the log")?;

    // The deletion of the mirror Pod does not affect the static Pod.
    cluster.delete_pod(&name).await?;
    let is_another = |pod: &Value| pod["metadata"]["uid"] != mirror["metadata"]["uid"] && is_ready(pod);
    cluster.wait_for_existing_pod(&name, is_another).await?;
    // Neither does a change of its status.
    let foreign = json!({"status": {"phase": "Failed"}});
    cluster.write_status(&name, &foreign).await?;
    cluster
        .wait_for_existing_pod(&name, |pod| pod["status"]["phase"] == "Running")
        .await?;
    check(
        fs::read_to_string(&out)? == "first\n",
        "the container was started again",
    )?;

    // A changed manifest is another Pod.
    let script = format!("echo second >>{}; sleep 1000", out.display());
    write(cluster, "web.json", &manifest("web", &script))?;
    wait_for_content(&out, "first\nsecond\n").await?;
    let hash = annotations[MIRROR].clone();
    let is_new = |pod: &Value| pod["metadata"]["annotations"][MIRROR] != hash && is_ready(pod);
    cluster.wait_for_existing_pod(&name, is_new).await?;
    // An invalid manifest keeps the Pod.
    fs::write(&path, "kind: Pod")?;
    cluster.wait_for_existing_pod(&name, is_new).await?;
    fs::remove_file(&path)?;
    cluster.wait_until_gone(&name).await
}

pub(crate) async fn manifest_starts_a_pod_without_the_api(cluster: &mut Cluster) -> Outcome {
    let out = cluster.path("alone");
    cluster.kill_agent()?;
    let (kubeconfig, aside) = (cluster.path("node.conf"), cluster.path("node.conf.aside"));
    fs::rename(&kubeconfig, &aside)?;
    let text = fs::read_to_string(&aside)?;
    let unreachable = text.lines().map(|line| match line.split_once("server: ") {
        Some((indent, _)) => format!("{indent}server: https://127.0.0.1:9\n"),
        None => format!("{line}\n"),
    });
    fs::write(&kubeconfig, unreachable.collect::<String>())?;
    cluster.start_agent()?;
    let script = format!("echo started >>{}; sleep 1000", out.display());
    let path = write(cluster, "alone.json", &manifest("alone", &script))?;
    wait_for_content(&out, "started\n").await?;
    // The next agent adopts the Pod and creates its mirror Pod.
    cluster.kill_agent()?;
    fs::rename(&aside, &kubeconfig)?;
    cluster.start_agent()?;
    let name = format!("alone-{NODE}");
    let mirror = cluster.wait_for_existing_pod(&name, is_ready).await?;
    check(
        mirror["status"]["containerStatuses"][0]["restartCount"] == 0,
        &mirror,
    )?;
    check(
        fs::read_to_string(&out)? == "started\n",
        "the container was started again",
    )?;
    // A manifest that is removed while no agent runs ends its Pod, too.
    cluster.kill_agent()?;
    fs::remove_file(&path)?;
    cluster.start_agent()?;
    cluster.wait_until_gone(&name).await
}

pub(crate) async fn overwritten_status_is_repaired(cluster: &mut Cluster) -> Outcome {
    let main = container("a", "sleep 1000", json!({}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [main]});
    cluster.create_pod("true", spec).await?;
    let before = cluster.wait_for_pod("true", is_ready).await?;
    for foreign in [
        json!({"phase": "Failed"}),
        json!({"podIP": "10.244.1.200", "podIPs": [{"ip": "10.244.1.200"}]}),
        json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "example.com/mine", "status": "True"}]}),
        json!({"containerStatuses": []}),
    ] {
        let written = cluster.write_status("true", &json!({"status": &foreign})).await?;
        let version = written["metadata"]["resourceVersion"].clone();
        println!("  repaired: {foreign}");
        let is_repaired = |pod: &Value| {
            let status = &pod["status"];
            pod["metadata"]["resourceVersion"] != version
                && is_ready(pod)
                && status["phase"] == "Running"
                && status["podIP"] == before["status"]["podIP"]
                && status["containerStatuses"][0]["ready"] == true
        };
        cluster.wait_for_pod("true", is_repaired).await?;
    }
    let pod = cluster.wait_for_pod("true", |_| true).await?;
    check(
        crate::cluster::condition(&pod, "example.com/mine") == "True",
        &pod,
    )?;
    cluster.delete_pod("true").await?;
    cluster.wait_until_gone("true").await
}

impl Cluster {
    /// Overwrites the status of a Pod and returns the result.
    async fn write_status(&self, pod: &str, patch: &Value) -> Result<Value, Box<dyn std::error::Error>> {
        let path = format!("{PODS}/{pod}/status");
        Ok(self
            .client
            .request(Method::PATCH, &path, MERGE_PATCH, Some(patch))
            .await?)
    }

    /// Waits until a Pod exists and meets a condition.
    async fn wait_for_existing_pod(
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
