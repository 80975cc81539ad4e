//! Carrying out steps on Nodes, and on the Pods of those that leave traffic.

use api::object::{Lease, Node, Pod, Resource};
use client::{Client, ClientError, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Value, json};

use super::{ConditionChange, LEASE_NAMESPACE, NodeState, Step};
use crate::events::{Finding, Notice, Regarding, post};
use crate::run::Environment;
use crate::selection::Controller;
use crate::write::{decode, list_by_field};

/// Writes a step on the Node of a name; returns it as the server has it now. `None` if it is gone, or if it was
/// about to be called silent and its Lease, asked of the server, is newer than `renew_time`. Somebody else's
/// write since `node` was read is a conflict.
pub(super) async fn carry_out(
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
        Step::SayUnknown(changes) => {
            if was_heard(client, name, renew_time).await? {
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
        Ok(answer) => decode(path, answer)?,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    if node.is_ready() && !written.is_ready() {
        let message = format!("Node {name} status is now: NodeNotReady");
        tell(environment, Regarding::object(&written), false, message).await;
    }
    Ok(Some(written))
}

/// Says of the Pods of a Node that they are not ready, for their Node is not.
pub(super) async fn withdraw_pods(environment: &Environment, node: &str) -> Result<(), ClientError> {
    let client = &environment.client;
    let pods = list_by_field::<Pod>(client, &format!("spec.nodeName={node}"))
        .await?
        .items;
    // A server that does not select would make every Pod leave traffic.
    let of_node = pods.iter().filter(|pod| pod.spec.node_name == node);
    for pod in of_node.filter(|pod| pod.is_ready()) {
        let key = pod.metadata.key();
        let path = format!("{}/{}/status", Pod::collection(Some(&key.namespace)), key.name);
        let time = environment.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": time});
        // Whoever wrote the Pod since it was read may have said the same, or that it is another: then all are read anew.
        let metadata = json!({"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version});
        let patch = json!({"metadata": metadata, "status": {"conditions": [condition]}});
        match client
            .request(Method::PATCH, &path, STRATEGIC_PATCH, Some(&patch))
            .await
        {
            Ok(_) => {
                tell(
                    environment,
                    Regarding::object(pod),
                    true,
                    "Node is not ready".to_owned(),
                )
                .await
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

async fn tell(environment: &Environment, regarding: Regarding, is_warning: bool, message: String) {
    let finding = Finding {
        is_warning,
        reason: "NodeNotReady",
        message,
    };
    let notice = Notice {
        component: Controller::NodeLifecycle.name(),
        regarding,
        findings: vec![finding],
    };
    post(environment.clone(), notice).await;
}

/// Whether a Node renewed its Lease though no watch has told of it yet.
async fn was_heard(client: &Client, name: &str, renew_time: Option<&str>) -> Result<bool, ClientError> {
    let path = format!("{}/{name}", Lease::collection(Some(LEASE_NAMESPACE)));
    match client.get::<Lease>(&path).await {
        Ok(lease) => Ok(lease.spec.renew_time.as_deref() != renew_time),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
