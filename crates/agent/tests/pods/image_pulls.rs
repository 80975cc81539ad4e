//! Images that the node does not have, with a registry that does not respond.

use serde_json::{Value, json};

use crate::Outcome;
use crate::cluster::{Cluster, check};

/// No registry listens on this port.
const NAME: &str = "127.0.0.1:1/shop/web:1.0";

fn waiting(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]["waiting"]
}

pub(crate) async fn failed_pulls_back_off(cluster: &mut Cluster) -> Outcome {
    cluster
        .create_pod(
            "unpulled",
            json!({"containers": [{"name": "main", "image": NAME}]}),
        )
        .await?;
    cluster
        .wait_for_pod("unpulled", |pod| waiting(pod)["reason"] == "ErrImagePull")
        .await?;
    let pulling = cluster.event("unpulled", "Pulling").await?;
    check(pulling == format!("Pulling image {NAME:?}"), pulling)?;
    let failed = cluster.event("unpulled", "Failed").await?;
    check(
        failed.starts_with(&format!("Failed to pull image {NAME:?}: ")),
        failed,
    )?;
    let pod = cluster
        .wait_for_pod("unpulled", |pod| waiting(pod)["reason"] == "ImagePullBackOff")
        .await?;
    let message = waiting(&pod)["message"].as_str().unwrap_or_default().to_owned();
    let expected = format!("Back-off pulling image {NAME:?}: ErrImagePull: ");
    check(message.starts_with(&expected), message)?;
    let back_off = cluster.event("unpulled", "BackOff").await?;
    check(back_off == format!("Back-off pulling image {NAME:?}"), back_off)?;
    cluster.delete_pod("unpulled").await?;
    cluster.wait_until_gone("unpulled").await
}

pub(crate) async fn absent_image_is_never_pulled(cluster: &mut Cluster) -> Outcome {
    let container = json!({"name": "main", "image": NAME, "imagePullPolicy": "Never"});
    cluster
        .create_pod("never-pulled", json!({"containers": [container]}))
        .await?;
    let pod = cluster
        .wait_for_pod("never-pulled", |pod| {
            waiting(pod)["reason"] == "ErrImageNeverPull"
        })
        .await?;
    let message = format!("Container image {NAME:?} is not present with pull policy of Never");
    check(waiting(&pod)["message"] == message, waiting(&pod))?;
    cluster.delete_pod("never-pulled").await?;
    cluster.wait_until_gone("never-pulled").await
}
