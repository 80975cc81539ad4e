//! Writes of Nodes, and of the Pods of Nodes with an eviction taint.

use api::object::{Lease, Node, Pod, Resource};
use client::{Client, ClientError, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use reconcile::events::EventText;
use serde_json::{Value, json};

use super::{ConditionChange, LEASE_NAMESPACE, NodeState, Step};
use crate::api_requests::{decode, list_by_field};
use crate::environment::Environment;
use crate::selection::Controller;

/// The reason of the Events about Nodes and Pods that become not ready.
const NODE_NOT_READY: &str = "NodeNotReady";

/// Writes a step of a Node; returns the Node after the write. Returns `None` if the Node is deleted, or if
/// its Lease has been renewed since `renew_time` and it would have become Unknown. A write by another client
/// since the read is a conflict.
pub(super) async fn execute(
    environment: &Environment,
    name: &str,
    node: &NodeState,
    renew_time: Option<&str>,
    step: Step,
    time: &str,
) -> Result<Option<Node>, ClientError> {
    let client = &environment.client;
    let path = format!("{}/{name}", Node::collection(None));
    let (path, kind, mut patch) = match &step {
        Step::SetUnknown(changes) => {
            if has_renewed_lease(client, name, renew_time).await? {
                return Ok(None);
            }
            let conditions: Vec<Value> = changes.iter().map(|change| condition(change, time)).collect();
            let status = json!({"status": {"conditions": conditions}, "metadata": {}});
            (format!("{path}/status"), STRATEGIC_PATCH, status)
        }
        Step::Taint(taints) => (
            path,
            MERGE_PATCH,
            json!({"spec": {"taints": taints}, "metadata": {}}),
        ),
    };
    patch["metadata"]["uid"] = json!(node.uid);
    patch["metadata"]["resourceVersion"] = json!(node.resource_version);
    let written: Node = match client.request(Method::PATCH, &path, kind, Some(&patch)).await {
        Ok(response) => decode(path, response)?,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    if node.is_ready() && !written.is_ready() {
        let message = format!("Node {name} status is now: NodeNotReady");
        record(environment, &written, EventText::normal(NODE_NOT_READY, message)).await;
    }
    Ok(Some(written))
}

/// Sets the condition Ready of a Node's Pods to False.
pub(super) async fn mark_pods_not_ready(environment: &Environment, node: &str) -> Result<(), ClientError> {
    let client = &environment.client;
    let pods = list_by_field::<Pod>(client, &format!("spec.nodeName={node}"))
        .await?
        .items;
    // Filter again: a server that ignores field selectors would return every Pod.
    let pods_of_node = pods.iter().filter(|pod| pod.spec.node_name == node);
    for pod in pods_of_node.filter(|pod| pod.is_ready()) {
        let key = pod.metadata.key();
        let path = format!("{}/{}/status", Pod::collection(Some(&key.namespace)), key.name);
        let time = environment.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": time});
        // A conflict means that the Pod has changed; the retry reads all Pods again.
        let metadata = json!({"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version});
        let patch = json!({"metadata": metadata, "status": {"conditions": [condition]}});
        match client
            .request(Method::PATCH, &path, STRATEGIC_PATCH, Some(&patch))
            .await
        {
            Ok(_) => {
                let event = EventText::warning(NODE_NOT_READY, "Node is not ready".to_owned());
                record(environment, pod, event).await;
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn condition(change: &ConditionChange, time: &str) -> Value {
    let mut condition = json!({"type": change.kind, "status": "Unknown", "reason": change.reason,
        "message": change.message, "lastTransitionTime": time});
    if let Some(heartbeat) = &change.first_heartbeat {
        condition["lastHeartbeatTime"] = json!(heartbeat);
    }
    condition
}

async fn record<T: Resource>(environment: &Environment, object: &T, event: EventText) {
    let component = Controller::NodeLifecycle.name();
    environment.events.record(component, object, vec![event]).await;
}

/// Returns true if the Node has renewed its Lease and the watch has not reported it yet.
async fn has_renewed_lease(
    client: &Client,
    name: &str,
    renew_time: Option<&str>,
) -> Result<bool, ClientError> {
    let path = format!("{}/{name}", Lease::collection(Some(LEASE_NAMESPACE)));
    match client.get::<Lease>(&path).await {
        Ok(lease) => Ok(lease.spec.renew_time.as_deref() != renew_time),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
