//! Who owns what in a new object: the one who creates it owns all of it. Most writes of large clusters are creates,
//! so this is a single walk over the object that writes the record as it goes; what it writes is what
//! [`super::compare`] finds between an empty object and the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::field_set::PathElement;
use super::fields_v1::{SELF, write_element};
use super::layout::Layout;
use crate::kinds::kind::Kind;
use crate::machinery::tree::child;

/// What is nobody's, wherever it is written (see `without_identity`).
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

/// The fields of a new object in their written form, without the field `reset` at its top; none if there are none.
pub(super) fn created_fields(object: &Value, kind: &Kind, reset: Option<&str>) -> Option<Value> {
    let (layout, zero) = (Layout::of_kind(kind), zero_of(kind));
    let mut fields: Vec<(String, Value)> = Vec::new();
    for (name, value) in object.as_object()? {
        if IDENTITY.contains(&name.as_str()) || reset == Some(name) {
            continue;
        }
        let below = layout.below_field(name);
        let node = match name.as_str() {
            "metadata" => written_metadata(value, below),
            _ => written(value, below, zero.get(name)),
        };
        fields.extend(node.map(|node| (format!("f:{name}"), node)));
    }
    (!fields.is_empty()).then(|| node_of(fields))
}

/// An object of a kind with nothing set: what every object of its Go type has counts as there before anybody set it.
pub(super) fn zero_of(kind: &Kind) -> &'static Value {
    static ZEROS: LazyLock<BTreeMap<&'static str, Value>> = LazyLock::new(zeros);
    ZEROS.get(kind.definition).unwrap_or(&Value::Null)
}

fn zeros() -> BTreeMap<&'static str, Value> {
    let zero = |kind: &Kind| match kind.kind {
        "Service" => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        "Pod" | "Namespace" | "ServiceCIDR" => json!({"metadata": {}, "spec": {}, "status": {}}),
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
        "Lease" | "IPAddress" => json!({"metadata": {}, "spec": {}}),
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

fn written_metadata(metadata: &Value, layout: Layout) -> Option<Value> {
    let fields = metadata.as_object()?.iter();
    let fields: Vec<(String, Value)> = fields
        .filter(|(name, _)| !IDENTITY_OF_METADATA.contains(&name.as_str()))
        .filter_map(|(name, value)| {
            let node = written(value, layout.below_field(name), None)?;
            Some((format!("f:{name}"), node))
        })
        .collect();
    (!fields.is_empty()).then(|| node_of(fields))
}

/// A value and what is below it; none for what is not set, or is as in the empty object.
fn written(value: &Value, layout: Layout, zero: Option<&Value>) -> Option<Value> {
    if value.is_null() {
        return None;
    }
    let leaf = || (zero != Some(value)).then(|| Value::Object(Map::new()));
    let mut fields = match (layout, value) {
        (Layout::Object(_) | Layout::Map(_), Value::Object(fields)) => fields
            .iter()
            .filter_map(|(name, value)| {
                let zero = zero.and_then(|zero| zero.get(name));
                let node = written(value, layout.below_field(name), zero)?;
                Some((format!("f:{name}"), node))
            })
            .collect(),
        (Layout::Set | Layout::ListMap(..), Value::Array(items)) => match written_items(items, layout) {
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

/// The items of a list that can be told apart; none if it has one that cannot.
fn written_items(items: &[Value], layout: Layout) -> Option<Vec<(String, Value)>> {
    let elements: Vec<PathElement> = items
        .iter()
        .map(|item| layout.element_of(item).ok())
        .collect::<Option<_>>()?;
    let mut once = BTreeSet::new();
    let twice: BTreeSet<&PathElement> = elements.iter().filter(|element| !once.insert(*element)).collect();
    let mut fields = Vec::with_capacity(items.len());
    for (element, item) in elements.iter().zip(items) {
        let node = match twice.contains(element) {
            // Items that cannot be told apart are owned together, as wholes.
            true => Some(Value::Object(Map::new())),
            false => written(item, layout.below(element), None),
        };
        fields.extend(node.map(|node| (write_element(element), node)));
    }
    Some(fields)
}

fn node_of(mut fields: Vec<(String, Value)>) -> Value {
    fields.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Value::Object(fields.into_iter().collect())
}

/// The part of an object that its own records are about, if it has any.
pub(super) fn managed_fields(object: &Value) -> &Value {
    child(child(object, "metadata"), "managedFields")
}
