//! Taint that keeps Pods off the node with the API server.

use agent::{NodeTaint, Settings};
use client::{Client, ClientError, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Maximum number of attempts to write the Node after conflicts.
const ATTEMPTS_MAX: usize = 10;

/// Returns upstream's taint of control-plane nodes.
pub(crate) fn server_taint() -> NodeTaint {
    NodeTaint {
        key: "node-role.kubernetes.io/control-plane".to_owned(),
        effect: "NoSchedule".to_owned(),
    }
}

/// Adds an agent's taints to its Node, because nodes may not change their own taints. A Node that does not exist yet is
/// registered with them.
///
/// # Errors
///
/// [`ClientError`] if a request fails.
pub(crate) async fn add_to_node(administrator: &Client, agent: &Settings) -> Result<(), ClientError> {
    let path = format!("/api/v1/nodes/{}", agent.node_name);
    let mut attempt = 0;
    loop {
        let node: Value = match administrator.get(&path).await {
            Err(error) if error.is_not_found() => return Ok(()),
            node => node?,
        };
        let Some(patch) = patch(&node, &agent.node_taints) else {
            return Ok(());
        };
        attempt += 1;
        match administrator
            .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
            .await
        {
            Err(error) if error.is_conflict() && attempt < ATTEMPTS_MAX => {}
            written => return written.map(drop),
        }
    }
}

/// Returns the patch that adds missing taints to a Node, or `None` if it has all.
fn patch(node: &Value, taints_to_add: &[NodeTaint]) -> Option<Value> {
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let is_missing = |taints: &[Value], taint: &NodeTaint| {
        !taints
            .iter()
            .any(|present| present["key"] == taint.key && present["effect"] == taint.effect)
    };
    let missing: Vec<&NodeTaint> = taints_to_add
        .iter()
        .filter(|taint| is_missing(&taints, taint))
        .collect();
    if missing.is_empty() {
        return None;
    }
    taints.extend(missing.into_iter().map(|taint| json!(taint)));
    let version = &node["metadata"]["resourceVersion"];
    Some(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}))
}
