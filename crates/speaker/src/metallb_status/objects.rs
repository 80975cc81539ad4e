//! Desired status objects of a node, and differences to the present ones.

use std::collections::BTreeMap;

use api::hash::fnv1a_64;
use api::object::{ObjectKey, ObjectMeta, null_as_default};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ReportedNode;

#[cfg(test)]
mod tests;

/// API version of both kinds.
const API_VERSION: &str = "metallb.io/v1beta1";
/// Label with the node of a ServiceBGPStatus.
pub(super) const NODE_LABEL: &str = "metallb.io/node";
const SERVICE_NAME_LABEL: &str = "metallb.io/service-name";
const SERVICE_NAMESPACE_LABEL: &str = "metallb.io/service-namespace";
/// Labels of a ConfigurationState.
const COMPONENT_LABEL: &str = "metallb.io/component-type";
const COMPONENT_NODE_LABEL: &str = "metallb.io/node-name";
/// Condition of a ConfigurationState.
const CONDITION: &str = "configReconcilerValid";
/// Maximum length of the text about faults.
const FAULTS_CHARACTERS_MAX: usize = 8_000;

/// A present ServiceBGPStatus.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ServiceBgpStatus {
    pub(super) metadata: ObjectMeta,
    #[serde(deserialize_with = "null_as_default")]
    status: ServiceStatus,
}

/// Status of a `ServiceBGPStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    node: String,
    service_name: String,
    service_namespace: String,
    #[serde(deserialize_with = "null_as_default")]
    peers: Vec<String>,
}

/// A change of one ServiceBGPStatus.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Create the object, which then needs its status.
    Create(Value),
    /// Replace the status of the object with this name.
    SetStatus(String, Value),
    /// Delete the object with this name.
    Delete(String),
}

/// Returns the changes that make the present objects of this node the desired ones.
pub(super) fn changes(reported: &ReportedNode, present: &[ServiceBgpStatus]) -> Vec<Change> {
    let mut by_name: BTreeMap<&str, &ServiceBgpStatus> = present
        .iter()
        .map(|object| (object.metadata.name.as_str(), object))
        .collect();
    let mut changes = Vec::new();
    for (key, peers) in &reported.services {
        let name = object_name(&reported.node, key);
        let status = ServiceStatus {
            node: reported.node.clone(),
            service_name: key.name.to_string(),
            service_namespace: key.namespace.to_string(),
            peers: peers.iter().cloned().collect(),
        };
        let before = by_name.remove(name.as_str());
        if before.is_some_and(|before| before.status == status) {
            continue;
        }
        if before.is_none() {
            changes.push(Change::Create(service_object(reported, &name, key)));
        }
        let status = json!({"status": {
            "node": status.node, "serviceName": status.service_name,
            "serviceNamespace": status.service_namespace, "peers": status.peers,
        }});
        changes.push(Change::SetStatus(name, status));
    }
    let gone = by_name.into_keys().map(|name| Change::Delete(name.to_owned()));
    changes.extend(gone);
    changes
}

fn service_object(reported: &ReportedNode, name: &str, key: &ObjectKey) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "ServiceBGPStatus",
        "metadata": {
            "name": name,
            "labels": {
                NODE_LABEL: reported.node,
                SERVICE_NAME_LABEL: key.name.to_string(),
                SERVICE_NAMESPACE_LABEL: key.namespace.to_string(),
            },
            "ownerReferences": owners(reported),
        },
    })
}

/// The Node owns the objects, so that they disappear with it.
fn owners(reported: &ReportedNode) -> Vec<Value> {
    let is_known = !reported.node_uid.is_empty();
    let owner = is_known.then(
        || json!({"apiVersion": "v1", "kind": "Node", "name": reported.node, "uid": reported.node_uid}),
    );
    owner.into_iter().collect()
}

/// Returns the name of a ServiceBGPStatus: the same for each start of a speaker, and another one for each node.
fn object_name(node: &str, key: &ObjectKey) -> String {
    let text = format!("{node}/{}/{}", key.namespace, key.name);
    format!("bgp-{:016x}", fnv1a_64(text.bytes()))
}

/// A present ConfigurationState.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ConfigurationState {
    #[serde(deserialize_with = "null_as_default")]
    status: StateStatus,
}

/// Status of a `ConfigurationState`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StateStatus {
    result: String,
    error_summary: String,
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<StateCondition>,
}

/// Condition of a `ConfigurationState`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StateCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: String,
}

/// Returns the name of the ConfigurationState of a speaker.
pub(super) fn state_name(node: &str) -> String {
    format!("speaker-{node}")
}

/// Returns the ConfigurationState without its status.
pub(super) fn state_object(reported: &ReportedNode) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "ConfigurationState",
        "metadata": {
            "name": state_name(&reported.node),
            "labels": {COMPONENT_LABEL: "speaker", COMPONENT_NODE_LABEL: reported.node},
            "ownerReferences": owners(reported),
        },
    })
}

/// Returns the patch of the status of a ConfigurationState; `None` if the status is current. `now` is the current time.
pub(super) fn state_status(
    reported: &ReportedNode,
    present: &ConfigurationState,
    now: &str,
) -> Option<Value> {
    let summary: String = reported
        .faults
        .join("\n")
        .chars()
        .take(FAULTS_CHARACTERS_MAX)
        .collect();
    let (result, status, reason) = if summary.is_empty() {
        ("Valid", "True", "SyncStateSuccess")
    } else {
        ("Invalid", "False", "ConfigurationError")
    };
    let mut conditions = present.status.conditions.iter();
    let condition = conditions.find(|condition| condition.kind == CONDITION && condition.status == status);
    let is_current = present.status.result == result && present.status.error_summary == summary;
    if is_current && condition.is_some() {
        return None;
    }
    let since = condition.map_or(now, |condition| condition.last_transition_time.as_str());
    Some(json!({"status": {
        "result": result,
        "errorSummary": summary,
        "conditions": [{
            "type": CONDITION, "status": status, "reason": reason, "message": summary, "lastTransitionTime": since,
        }],
    }}))
}
