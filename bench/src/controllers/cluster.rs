//! Services and Pods in the API that no agent runs.

use std::net::Ipv4Addr;

use client::{Client, ClientError, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Failure;

/// Maximum number of requests in flight.
const CONCURRENT_REQUESTS_MAX: usize = 64;
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Node of all Pods.
const NODE: &str = "bench-node";

/// Creates a Node, and Services `s-0`, `s-1`, … with ready Pods.
pub(super) async fn create(client: &Client, services: usize, pods: usize) -> Result<(), Failure> {
    let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": NODE}});
    match client
        .request(Method::POST, "/api/v1/nodes", client::JSON, Some(&node))
        .await
    {
        Err(error) if !error.is_conflict() => return Err(error.into()),
        _ => {}
    }
    let mut tasks = JoinSet::new();
    for service in 0..services {
        let client = client.clone();
        wait_for_slot(&mut tasks).await?;
        tasks.spawn(async move { create_service(&client, service).await });
    }
    for number in 0..services * pods {
        let client = client.clone();
        wait_for_slot(&mut tasks).await?;
        tasks.spawn(async move {
            create_ready_pod(&client, &pod_name(number), number, number / pods.max(1)).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn wait_for_slot(tasks: &mut JoinSet<Result<(), ClientError>>) -> Result<(), Failure> {
    if tasks.len() >= CONCURRENT_REQUESTS_MAX
        && let Some(done) = tasks.join_next().await
    {
        done??;
    }
    Ok(())
}

/// Name of a Pod, numbered over all Services.
pub(super) fn pod_name(number: usize) -> String {
    format!("p-{number}")
}

async fn create_service(client: &Client, number: usize) -> Result<(), ClientError> {
    let name = format!("s-{number}");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]}});
    let path = "/api/v1/namespaces/default/services";
    client
        .request(Method::POST, path, client::JSON, Some(&service))
        .await
        .map(drop)
}

/// Creates a ready Pod of a Service.
pub(super) async fn create_ready_pod(
    client: &Client,
    name: &str,
    number: usize,
    service: usize,
) -> Result<(), ClientError> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": format!("s-{service}")}},
        "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "none"}]}});
    client
        .request(Method::POST, PODS, client::JSON, Some(&pod))
        .await?;
    let low = u32::try_from(number).unwrap_or(u32::MAX) & 0x00ff_ffff;
    let address = Ipv4Addr::from(0x0a00_0000 | low).to_string();
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [ready_condition(true)]}});
    patch_status(client, name, &status).await
}

/// Sets the Ready condition of a Pod.
pub(super) async fn set_ready(client: &Client, name: &str, ready: bool) -> Result<(), ClientError> {
    let status = json!({"status": {"conditions": [ready_condition(ready)]}});
    patch_status(client, name, &status).await
}

/// Deletes a Pod without grace period.
pub(super) async fn delete_pod(client: &Client, name: &str) -> Result<(), ClientError> {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    let path = format!("{PODS}/{name}");
    client
        .request(Method::DELETE, &path, client::JSON, Some(&options))
        .await
        .map(drop)
}

fn ready_condition(ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

async fn patch_status(client: &Client, name: &str, status: &Value) -> Result<(), ClientError> {
    let path = format!("{PODS}/{name}/status");
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(status))
        .await
        .map(drop)
}
