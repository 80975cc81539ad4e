//! Pod CIDRs of a Node that an administrator chooses. Nodes may not write their own.

use api::object::{Node, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use serde_json::json;

/// Writes the Pod CIDRs of a Node, and creates the Node if it is absent. Existing Pod CIDRs are kept, because Pods have
/// addresses of them.
///
/// # Errors
///
/// [`ClientError`] if a request fails.
pub(crate) async fn reserve(client: &Client, node_name: &str, cidrs: &[IpNet]) -> Result<(), ClientError> {
    let Some(first) = cidrs.first() else {
        return Ok(());
    };
    let all: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
    let spec = json!({"podCIDR": first.to_string(), "podCIDRs": all});
    let collection = Node::collection(None);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name}, "spec": spec});
    match client.request(Method::POST, &collection, JSON, Some(&node)).await {
        Err(error) if error.is_conflict() => {}
        other => return other.map(drop),
    }
    let path = format!("{collection}/{node_name}");
    let existing: Node = client.get(&path).await?;
    if !existing.spec.pod_cidr.is_empty() || !existing.spec.pod_cidrs.is_empty() {
        return Ok(());
    }
    let patch = json!({"spec": spec});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
        .map(drop)
}
