//! The ranges of a node's Pods where an administrator chooses them: a node may not write them into its own Node.

use api::object::{Node, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use ipnet::IpNet;
use serde_json::json;

/// Gives a Node these ranges, and creates it if it is not there. One that has ranges keeps them: Pods have addresses of them.
///
/// # Errors
/// [`ClientError`] if the API refuses, or does not answer.
pub async fn reserve(client: &Client, node_name: &str, ranges: &[IpNet]) -> Result<(), ClientError> {
    let Some(first) = ranges.first() else {
        return Ok(());
    };
    let all: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let spec = json!({"podCIDR": first.to_string(), "podCIDRs": all});
    let collection = Node::collection(None);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name}, "spec": spec});
    match client.request(Method::POST, &collection, JSON, Some(&node)).await {
        Err(error) if error.is_conflict() => {}
        other => return other.map(drop),
    }
    let path = format!("{collection}/{node_name}");
    let present: Node = client.get(&path).await?;
    if !present.spec.pod_cidr.is_empty() || !present.spec.pod_cidrs.is_empty() {
        return Ok(());
    }
    let patch = json!({"spec": spec});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
        .map(drop)
}
