//! A Node for every Pod that has none: round robin over the Nodes that accept Pods. No more ambition
//! than that; a real scheduler sets `nodeName` itself.

use std::collections::BTreeSet;

use api::object::{ObjectKey, Pod, Resource};
use client::{Client, ClientError, MERGE_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::json;

use crate::world::World;

/// Chooses Nodes in turn.
#[derive(Default)]
pub struct RoundRobin {
    last: Option<String>,
}

impl RoundRobin {
    /// The Node after the last one chosen, in the order of their names; `None` if none accepts Pods.
    pub fn choose(&mut self, world: &World) -> Option<String> {
        let accepting: BTreeSet<&String> = world
            .nodes
            .iter()
            .filter(|(_, node)| node.accepts_pods)
            .map(|(name, _)| name)
            .collect();
        let after = |name: &&&String| self.last.as_ref().is_none_or(|last| **name > last);
        let chosen = accepting.iter().find(after).or_else(|| accepting.iter().next())?;
        self.last = Some((*chosen).clone());
        self.last.clone()
    }
}

/// Gives the Pod to a Node, or tells on the Pod why it has none and asks for another try.
pub(crate) async fn place(
    client: &Client,
    key: &ObjectKey,
    uid: &str,
    node: Option<&str>,
    now: Timestamp,
) -> Result<(), ClientError> {
    let path = format!("{}/{}", Pod::collection(Some(&key.namespace)), key.name);
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (path, patch) = match node {
        Some(node) => (
            path,
            json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}}),
        ),
        None => {
            let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "no Node is ready and accepts Pods", "lastTransitionTime": time});
            let status = json!({"phase": "Pending", "conditions": [condition]});
            (
                format!("{path}/status"),
                json!({"metadata": {"uid": uid}, "status": status}),
            )
        }
    };
    match client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
    {
        Ok(_) if node.is_none() => Err(no_node(key)),
        Ok(_) => Ok(()),
        // Another Pod of that name, or none: this one needs no Node any more.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Why a Pod waits, as an error that asks for another try.
pub(crate) fn no_node(key: &ObjectKey) -> ClientError {
    ClientError::Status {
        method: Method::PATCH,
        path: format!("{}/{}", Pod::collection(Some(&key.namespace)), key.name),
        status: client::Status {
            code: 503,
            reason: "Unschedulable".to_owned(),
            message: "no Node is ready and accepts Pods".to_owned(),
            ..client::Status::default()
        },
    }
}

#[cfg(test)]
mod tests;
