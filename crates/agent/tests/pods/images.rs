//! Pods from images that were loaded into the store of the node.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use agent::confinement::user_namespaces::IdMap;
use images::{ImageStore, LoadSource, StoreSettings};
use serde_json::{Value, json};
use testbed::ImageLayout;

use crate::Outcome;
use crate::cluster::{Cluster, IMAGES, PODS, check, is_ready};

pub(crate) const NAME: &str = "registry.example/shop/web:1.0";
/// Script of the image. It ends at its stop signal.
const SERVE: &str = "#!/bin/sh\n\
    trap 'touch $STOPS/usr1; exit 0' USR1\n\
    echo \"pid $$ user $(id -u) groups $(id -G) in $(pwd) color $COLOR size $SIZE args $@\"\n\
    touch /tmp/written && cat /etc/hostname && grep -c $HOSTNAME /etc/hosts\n\
    while :; do sleep 0.1; done\n";

/// User of the image.
const USER: u32 = 101;

/// Loads the image. Returns false with a message if there is no static shell, or if the namespace of this process lacks the
/// user of the image. The namespace of a user other than root lacks it.
pub(crate) fn load_with_user(cluster: &Cluster, test: &str) -> Result<bool, Box<dyn std::error::Error>> {
    if !IdMap::own_users().contains(USER, 1) {
        println!("skipped: {test}: the namespace of this process has too few IDs");
        return Ok(false);
    }
    load(cluster, test)
}

/// Loads the image. Returns false with a message if there is no static shell.
fn load(cluster: &Cluster, test: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let shell = match testbed::static_shell() {
        Ok(shell) => shell,
        Err(cause) => {
            println!("skipped: {test}: {cause}");
            return Ok(false);
        }
    };
    let layout = cluster.path("layout");
    if !layout.exists() {
        let image = ImageLayout {
            name: NAME,
            config: json!({
                "Entrypoint": ["/bin/serve"],
                "Cmd": ["one", "two"],
                "Env": ["PATH=/bin", "COLOR=blue", "SIZE=small"],
                "User": "web",
                "WorkingDir": "/srv/app",
                "StopSignal": "SIGUSR1",
            }),
            files: &[("bin/serve", SERVE)],
        };
        image.write(&layout, &shell)?;
        let store = ImageStore::open(&cluster.path(IMAGES), StoreSettings::default())?;
        store.load(LoadSource::path(&layout))?;
    }
    Ok(true)
}

fn spec(container: Value) -> Value {
    let mut spec =
        json!({"terminationGracePeriodSeconds": 5, "containers": [{"name": "main", "image": NAME}]});
    for (field, value) in container.as_object().into_iter().flatten() {
        spec["containers"][0][field] = value.clone();
    }
    spec
}

async fn log_when(cluster: &Cluster, pod: &str, text: &str) -> Result<String, Box<dyn std::error::Error>> {
    loop {
        let log = cluster.log(pod, "").await.unwrap_or_default();
        if log.contains(text) {
            return Ok(log);
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

pub(crate) async fn pod_runs_an_image(cluster: &mut Cluster) -> Outcome {
    if !load_with_user(cluster, "images::pod_runs_an_image")? {
        return Ok(());
    }
    // The user of the image writes there.
    let stops = cluster.path("stops");
    fs::create_dir(&stops)?;
    fs::set_permissions(&stops, fs::Permissions::from_mode(0o777))?;
    fs::set_permissions(cluster.path(""), fs::Permissions::from_mode(0o755))?;
    let env = json!([{"name": "SIZE", "value": "large"}, {"name": "STOPS", "value": stops}]);
    let container = json!({"args": ["three"], "env": env});
    cluster.create_pod("image", spec(container)).await?;
    let pod = cluster.wait_for_pod("image", is_ready).await?;
    let status = &pod["status"]["containerStatuses"][0];
    check(status["image"] == NAME, status)?;
    let id = status["imageID"].as_str().unwrap_or_default();
    check(id.starts_with("registry.example/shop/web@sha256:"), id)?;
    let log = log_when(cluster, "image", "image\n").await?;
    let expected = "pid 1 user 101 groups 102 103 in /srv/app color blue size large args three\nimage\n";
    check(log.starts_with(expected), &log)?;
    let message = cluster.event("image", "Pulled").await?;
    check(
        message == format!("Container image {NAME:?} already present on machine"),
        message,
    )?;
    // A container holds its image, and the Pod its writable layer.
    let store = ImageStore::open(&cluster.path(IMAGES), StoreSettings::default())?;
    check(
        store.remove(&NAME.parse()?).is_err(),
        "the image in use was removed",
    )?;
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let directory = cluster.path("agent/pods").join(uid);
    let written = directory.join("writable/main/0/upper/tmp/written");
    check(written.exists(), format!("no {}", written.display()))?;
    cluster.delete_pod("image").await?;
    cluster.wait_until_gone("image").await?;
    check(stops.join("usr1").exists(), "no stop signal of the image")?;
    while directory.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Ok(())
}

pub(crate) async fn image_pod_survives_a_killed_agent(cluster: &mut Cluster) -> Outcome {
    if !load_with_user(cluster, "images::image_pod_survives_a_killed_agent")? {
        return Ok(());
    }
    cluster.create_pod("image-kept", spec(json!({}))).await?;
    let before = cluster.wait_for_pod("image-kept", is_ready).await?;
    cluster.kill_agent()?;
    cluster.start_agent()?;
    // A second Pod makes the new agent record its images.
    cluster.create_pod("image-second", spec(json!({}))).await?;
    cluster.wait_for_pod("image-second", is_ready).await?;
    cluster.delete_pod("image-second").await?;
    cluster.wait_until_gone("image-second").await?;
    let after = cluster.wait_for_pod("image-kept", is_ready).await?;
    let status = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    check(status(&before) == status(&after), status(&after))?;
    let store = ImageStore::open(&cluster.path(IMAGES), StoreSettings::default())?;
    check(
        store.remove(&NAME.parse()?).is_err(),
        "the image in use was removed",
    )?;
    cluster.delete_pod("image-kept").await?;
    cluster.wait_until_gone("image-kept").await
}

pub(crate) async fn image_users_obey_run_as_non_root(cluster: &mut Cluster) -> Outcome {
    if !load(cluster, "images::image_users_obey_run_as_non_root")? {
        return Ok(());
    }
    let context = json!({"securityContext": {"runAsNonRoot": true}});
    cluster.create_pod("image-user", spec(context)).await?;
    let waiting = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let pod = cluster
        .wait_for_pod("image-user", |pod| {
            waiting(pod)["reason"] == "CreateContainerConfigError"
        })
        .await?;
    let message = waiting(&pod)["message"].to_string();
    let expected =
        "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root";
    check(message.contains(expected), message)?;
    cluster.delete_pod("image-user").await?;
    cluster.wait_until_gone("image-user").await
}

/// Directories nested deeper than a path or a stack allows must not keep the agent from removing the Pod.
pub(crate) async fn hostile_pod_directory_is_removed(cluster: &mut Cluster) -> Outcome {
    if !load(cluster, "images::hostile_pod_directory_is_removed")? {
        return Ok(());
    }
    let script = "i=0; while [ $i -lt 3000 ]; do mkdir d && cd d; i=$((i+1)); done; echo deep; sleep 1000";
    let container = json!({
        "command": ["/bin/sh", "-c", script],
        "workingDir": "/",
        "securityContext": {"runAsUser": 0},
    });
    cluster.create_pod("image-deep", spec(container)).await?;
    log_when(cluster, "image-deep", "deep").await?;
    let pod: Value = cluster.client.get(&format!("{PODS}/image-deep")).await?;
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let directory = cluster.path("agent/pods").join(uid);
    check(fs::exists(&directory)?, "no directory")?;
    cluster.delete_pod("image-deep").await?;
    cluster.wait_until_gone("image-deep").await?;
    while directory.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Ok(())
}
