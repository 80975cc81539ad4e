//! Managed fields of a new object: its author owns all of them. Most writes of large clusters are creations, so a
//! single walk writes `FieldsV1` directly. The result equals what [`super::compare`] finds between an empty object
//! and the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::field_set::PathElement;
use super::fields_v1::{SELF, format_element};
use super::layout::Layout;
use crate::kinds::kind::Kind;
use crate::machinery::tree::child;

/// Fields that have no owner, in any request (see `without_identity`).
const IDENTITY: [&str; 2] = ["apiVersion", "kind"];
const IDENTITY_OF_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Returns the fields of a new object as `FieldsV1`, without the top-level field `reset`; `None` if there are no other fields.
pub(super) fn created_fields(object: &Value, kind: &Kind, reset: Option<&str>) -> Option<Value> {
    let (layout, zero) = (Layout::of_kind(kind), zero_of(kind));
    let mut fields: Vec<(String, Value)> = Vec::new();
    for (name, value) in object.as_object()? {
        if IDENTITY.contains(&name.as_str()) || reset == Some(name) {
            continue;
        }
        let child_layout = layout.child_field(name);
        let node = match name.as_str() {
            "metadata" => metadata_fields_v1(value, child_layout),
            _ => fields_v1_of(value, child_layout, zero.get(name)),
        };
        fields.extend(node.map(|node| (format!("f:{name}"), node)));
    }
    (!fields.is_empty()).then(|| node_of(fields))
}

/// Returns an object with only zero values. Fields that all objects of the Go type serialize count as present before
/// any write.
pub(super) fn zero_of(kind: &Kind) -> &'static Value {
    static ZEROS: LazyLock<BTreeMap<&'static str, Value>> = LazyLock::new(zeros);
    ZEROS.get(kind.definition).unwrap_or(&Value::Null)
}

/// Returns the objects with only zero values, by the definition of their kind.
fn zeros() -> BTreeMap<&'static str, Value> {
    // Lists that are serialized as `null` are empty here, which has the same effect.
    let template = || json!({"metadata": {}, "spec": {"containers": []}});
    let zero = |kind: &Kind| match kind.kind {
        "Pod" => json!({"metadata": {}, "spec": {"containers": []}, "status": {}}),
        "Deployment" => json!({
            "metadata": {},
            "spec": {"selector": {}, "template": template(), "strategy": {}},
            "status": {},
        }),
        "ReplicaSet" => {
            json!({"metadata": {}, "spec": {"selector": {}, "template": template()}, "status": {"replicas": 0}})
        }
        "DaemonSet" => json!({
            "metadata": {},
            "spec": {"selector": {}, "template": template(), "updateStrategy": {}},
            "status": {
                "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
            },
        }),
        "StatefulSet" => json!({
            "metadata": {},
            "spec": {"selector": {}, "template": template(), "serviceName": "", "updateStrategy": {}},
            "status": {"replicas": 0, "availableReplicas": 0},
        }),
        "ReplicationController" => json!({"metadata": {}, "spec": {}, "status": {"replicas": 0}}),
        "Job" => json!({"metadata": {}, "spec": {"template": template()}, "status": {}}),
        "Service" | "Ingress" => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        "Namespace" | "ServiceCIDR" => json!({"metadata": {}, "spec": {}, "status": {}}),
        "Node" => json!({
            "metadata": {},
            "spec": {},
            "status": {
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                    "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                    "operatingSystem": "", "architecture": "",
                },
            },
        }),
        "Lease" | "IPAddress" | "IngressClass" => json!({"metadata": {}, "spec": {}}),
        "EndpointSlice" => json!({"metadata": {}, "addressType": ""}),
        "Event" => json!({
            "metadata": {},
            "involvedObject": {}, "source": {}, "reportingComponent": "", "reportingInstance": "",
            "regarding": {}, "deprecatedSource": {},
        }),
        "RoleBinding" | "ClusterRoleBinding" => {
            json!({"metadata": {}, "roleRef": {"apiGroup": "", "kind": "", "name": ""}})
        }
        _ => json!({"metadata": {}}),
    };
    crate::kinds::kind::all()
        .iter()
        .map(|kind| (kind.definition, zero(kind)))
        .collect()
}

fn metadata_fields_v1(metadata: &Value, layout: Layout) -> Option<Value> {
    let fields = metadata.as_object()?.iter();
    let fields: Vec<(String, Value)> = fields
        .filter(|(name, _)| !IDENTITY_OF_METADATA.contains(&name.as_str()))
        .filter_map(|(name, value)| {
            let node = fields_v1_of(value, layout.child_field(name), None)?;
            Some((format!("f:{name}"), node))
        })
        .collect();
    (!fields.is_empty()).then(|| node_of(fields))
}

/// Returns `FieldsV1` of a value and its children; `None` if it is not set, or equal to the zero value.
fn fields_v1_of(value: &Value, layout: Layout, zero: Option<&Value>) -> Option<Value> {
    if value.is_null() {
        return None;
    }
    let leaf = || (zero != Some(value)).then(|| Value::Object(Map::new()));
    let mut fields = match (layout, value) {
        (Layout::Object(_) | Layout::Map(_), Value::Object(fields)) => fields
            .iter()
            .filter_map(|(name, value)| {
                let zero = zero.and_then(|zero| zero.get(name));
                let node = fields_v1_of(value, layout.child_field(name), zero)?;
                Some((format!("f:{name}"), node))
            })
            .collect(),
        (Layout::Set | Layout::ListMap(..), Value::Array(items)) => match items_fields_v1(items, layout) {
            Some(fields) => fields,
            None => return leaf(),
        },
        _ => return leaf(),
    };
    match zero {
        Some(_) if fields.is_empty() => None,
        Some(_) => Some(node_of(fields)),
        None if fields.is_empty() => leaf(),
        None => {
            fields.push((SELF.to_owned(), Value::Object(Map::new())));
            Some(node_of(fields))
        }
    }
}

/// Returns `FieldsV1` of the items of a list; `None` if an item has no identity.
fn items_fields_v1(items: &[Value], layout: Layout) -> Option<Vec<(String, Value)>> {
    let elements: Vec<PathElement> = items
        .iter()
        .map(|item| layout.element_of(item).ok())
        .collect::<Option<_>>()?;
    let mut seen = BTreeSet::new();
    let duplicates: BTreeSet<&PathElement> =
        elements.iter().filter(|element| !seen.insert(*element)).collect();
    let mut fields = Vec::with_capacity(items.len());
    for (element, item) in elements.iter().zip(items) {
        let node = if duplicates.contains(element) {
            // Duplicate items are owned together, as a whole.
            Some(Value::Object(Map::new()))
        } else {
            fields_v1_of(item, layout.child(element), None)
        };
        fields.extend(node.map(|node| (format_element(element), node)));
    }
    Some(fields)
}

fn node_of(mut fields: Vec<(String, Value)>) -> Value {
    fields.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Value::Object(fields.into_iter().collect())
}

/// Returns `metadata.managedFields`, or `null`.
pub(super) fn managed_fields(object: &Value) -> &Value {
    child(child(object, "metadata"), "managedFields")
}
