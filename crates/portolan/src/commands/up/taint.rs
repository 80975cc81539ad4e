//! The taint that keeps Pods off the machine with the API server.

use agent::{NodeTaint, Settings};
use client::{Client, ClientError, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Writes to the Node that may be overtaken by others'.
const ATTEMPTS_MAX: usize = 10;

/// Upstream's taint of machines with a control plane.
pub(super) fn server_taint() -> NodeTaint {
    NodeTaint {
        key: "node-role.kubernetes.io/control-plane".to_owned(),
        effect: "NoSchedule".to_owned(),
    }
}

/// Puts an agent's taints on its Node if that is there already: a node may not change its own taints. One that is not
/// there is registered with them.
///
/// # Errors
/// The API's.
pub(super) async fn put_on(administrator: &Client, agent: &Settings) -> Result<(), ClientError> {
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

/// Patch that adds the missing taints of a Node; `None` if it has all.
fn patch(node: &Value, wanted: &[NodeTaint]) -> Option<Value> {
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let lacks = |taints: &[Value], taint: &NodeTaint| {
        !taints
            .iter()
            .any(|present| present["key"] == taint.key && present["effect"] == taint.effect)
    };
    let missing: Vec<&NodeTaint> = wanted.iter().filter(|taint| lacks(&taints, taint)).collect();
    if missing.is_empty() {
        return None;
    }
    taints.extend(missing.into_iter().map(|taint| json!(taint)));
    let version = &node["metadata"]["resourceVersion"];
    Some(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}))
}
