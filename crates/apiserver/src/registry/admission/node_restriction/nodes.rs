//! Writes of a node to its own Node. A write must not direct Pods or packets of other nodes to the node.

use std::collections::{BTreeMap, BTreeSet};

use api::certificates::{CERTIFICATES_SINCE, INCARNATION, JOINED_BY_REQUEST};
use api::tree::{child, entries, flag_if_set, items, text, texts};
use serde_json::Value;

use super::{Refusal, finalizers};

/// Domain of labels that only administrators set.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";
/// Domains that are reserved for upstream.
const KUBERNETES_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Subdomains whose labels kubelets may set (`kubeletLabelNamespaces` in `k8s.io/kubelet/pkg/apis`).
const NODE_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Other labels of reserved domains that kubelets may set (`kubeletLabels` in `k8s.io/kubelet/pkg/apis`).
const NODE_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Annotations in which the signer records which certificates of a node are valid.
const SIGNER_ANNOTATIONS: [&str; 3] = [CERTIFICATES_SINCE, INCARNATION, JOINED_BY_REQUEST];

/// Admits a write of the Node `name` or one of its subresources.
pub(super) fn admit(node: &str, name: &str, before: Option<&Value>, after: &Value) -> Result<(), Refusal> {
    admit_name(node, name)?;
    match before {
        None => admit_creation(node, after),
        Some(before) => admit_update(node, before, after),
    }
}

/// Refuses names other than the node's own.
pub(super) fn admit_name(node: &str, name: &str) -> Result<(), Refusal> {
    if name == node {
        Ok(())
    } else {
        Err(format!("node {node:?} is not allowed to modify node {name:?}").into())
    }
}

fn admit_creation(node: &str, object: &Value) -> Result<(), Refusal> {
    admit_finalizers(node, &Value::Null, object)?;
    if !child(child(object, "spec"), "configSource").is_null() {
        let message = format!("node {node:?} is not allowed to create pods with a non-nil configSource");
        return Err(message.into());
    }
    if !pod_ranges(object).is_empty() {
        return Err(format!("node {node:?} is not allowed to set podCIDR or podCIDRs").into());
    }
    let forbidden = forbidden_labels(&Value::Null, object);
    if forbidden.is_empty() {
        Ok(())
    } else {
        Err(format!("node {node:?} is not allowed to set the following labels: {forbidden}").into())
    }
}

fn admit_update(node: &str, before: &Value, after: &Value) -> Result<(), Refusal> {
    let spec = |object, field| child(child(object, "spec"), field);
    let source = spec(after, "configSource");
    if !source.is_null() && source != spec(before, "configSource") {
        let message =
            format!("node {node:?} is not allowed to update configSource to a new non-nil configSource");
        return Err(message.into());
    }
    let taints = |object| items(child(object, "spec"), "taints");
    if taints(before) != taints(after) {
        return Err(format!("node {node:?} is not allowed to modify taints").into());
    }
    let owners = |object| items(child(object, "metadata"), "ownerReferences");
    if owners(before) != owners(after) {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences").into());
    }
    admit_finalizers(node, before, after)?;
    if is_cordoned(before) && !is_cordoned(after) {
        return Err(format!("node {node:?} is not allowed to uncordon itself").into());
    }
    if pod_ranges(before) != pod_ranges(after) {
        return Err(format!("node {node:?} is not allowed to modify podCIDR or podCIDRs").into());
    }
    let annotation = |object, name| text(child(child(object, "metadata"), "annotations"), name);
    let signers = SIGNER_ANNOTATIONS.into_iter();
    let mut changed = signers.filter(|name| annotation(before, name) != annotation(after, name));
    if let Some(name) = changed.next() {
        return Err(format!("node {node:?} is not allowed to modify the annotation {name}").into());
    }
    let forbidden = forbidden_labels(before, after);
    if forbidden.is_empty() {
        Ok(())
    } else {
        Err(format!("is not allowed to modify labels: {forbidden}").into())
    }
}

/// Refuses changes of finalizers. A Node with a finalizer outlasts its deletion, and its certificates stay valid while it
/// exists.
fn admit_finalizers(node: &str, before: &Value, after: &Value) -> Result<(), Refusal> {
    if finalizers(before) == finalizers(after) {
        Ok(())
    } else {
        Err(format!("node {node:?} is not allowed to modify finalizers").into())
    }
}

/// Returns true if the scheduler assigns no Pods to the Node. `portolan leave` cordons with the rights of the node.
fn is_cordoned(object: &Value) -> bool {
    flag_if_set(child(object, "spec"), "unschedulable") == Some(true)
}

/// Returns the Pod CIDRs of a Node. Packets to them are routed to the node, so only the node-ipam controller
/// chooses them.
fn pod_ranges(object: &Value) -> BTreeSet<&str> {
    let spec = child(object, "spec");
    let mut ranges: BTreeSet<&str> = texts(spec, "podCIDRs").into_iter().collect();
    ranges.insert(text(spec, "podCIDR"));
    ranges.remove("");
    ranges
}

/// Returns the changed labels that a node may not change, separated by commas.
fn forbidden_labels(before: &Value, after: &Value) -> String {
    let labels = |object| -> BTreeMap<&str, &str> { entries(child(object, "metadata"), "labels").collect() };
    let (before, after) = (labels(before), labels(after));
    let keys: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let forbidden = keys
        .into_iter()
        .filter(|key| before.get(key) != after.get(key) && !is_settable_label(key));
    forbidden.collect::<Vec<_>>().join(", ")
}

fn is_settable_label(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return true;
    };
    let is_below = |parent: &str| {
        let prefix = domain.strip_suffix(parent);
        prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    };
    let is_kubernetes = KUBERNETES_DOMAINS.iter().any(|parent| is_below(parent));
    let is_kubelet_label = NODE_LABELS.contains(&key) || NODE_DOMAINS.iter().any(|parent| is_below(parent));
    !is_below(RESTRICTED_DOMAIN) && (!is_kubernetes || is_kubelet_label)
}
