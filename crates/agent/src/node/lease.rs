//! Lease of the Node (kubelet's `nodelease`).

use client::{Client, ClientError, MERGE_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::json;

use super::create;
use crate::settings::Settings;

/// Namespace of the Leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Renews the Lease, and creates it with its namespace if needed.
///
/// # Errors
/// Errors of the requests.
pub(super) async fn renew_lease(client: &Client, settings: &Settings) -> Result<(), ClientError> {
    let node_name = &settings.node_name;
    let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases");
    let path = format!("{collection}/{node_name}");
    let spec = json!({
        "holderIdentity": node_name,
        "leaseDurationSeconds": settings.node_lease_duration.as_secs().max(1),
        "renewTime": microseconds(Timestamp::now()),
    });
    let patch = json!({"spec": spec});
    match client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
    {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let lease = json!({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": node_name, "namespace": LEASE_NAMESPACE},
        "spec": spec,
    });
    match create(client, &collection, &lease).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": LEASE_NAMESPACE}});
    match create(client, "/api/v1/namespaces", &namespace).await {
        Err(error) if !error.is_conflict() => return Err(error),
        _ => {}
    }
    create(client, &collection, &lease).await.map(drop)
}

/// Returns the time with six fractional digits, the format of `MicroTime`.
pub(super) fn microseconds(time: Timestamp) -> String {
    format!("{time:.6}")
}
