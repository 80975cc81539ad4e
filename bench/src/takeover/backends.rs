//! Replacement of the backends' Pods, one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Client, JSON};
use http::Method;
use serde_json::Value;

use super::cluster::RealCluster;
use crate::Failure;

const PODS: &str = "/api/v1/namespaces/takeover/pods";
/// Pause between two checks of the Pods.
const POLL: Duration = Duration::from_millis(500);

/// Deletes the oldest backend every `period` until `is_over`, while at least `count` are ready. Returns the number of
/// deleted Pods.
pub(super) fn replace_until(
    cluster: &RealCluster,
    count: usize,
    period: Duration,
    is_over: &AtomicBool,
) -> Result<usize, Failure> {
    cluster.with_client(async |client| {
        let (mut deleted, mut next) = (0, Instant::now() + period);
        while !is_over.load(Ordering::Acquire) {
            tokio::time::sleep(POLL).await;
            if Instant::now() < next {
                continue;
            }
            let mut pods = ready_pods(&client).await?;
            if pods.len() < count {
                continue;
            }
            pods.sort_unstable();
            let path = format!("{PODS}/{}", pods[0].1);
            client.request(Method::DELETE, &path, JSON, None).await?;
            (deleted, next) = (deleted + 1, Instant::now() + period);
        }
        Ok(deleted)
    })
}

/// Creation times and names of ready Pods that are not being deleted.
async fn ready_pods(client: &Client) -> Result<Vec<(String, String)>, Failure> {
    let list: Value = client
        .get(&format!("{PODS}?labelSelector=app%3Dbackends"))
        .await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = list["items"].as_array().into_iter().flatten();
    Ok(pods
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .filter(|pod| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
            ready.any(|condition| condition["status"] == "True")
        })
        .map(|pod| {
            (
                text(&pod["metadata"]["creationTimestamp"]),
                text(&pod["metadata"]["name"]),
            )
        })
        .collect())
}
