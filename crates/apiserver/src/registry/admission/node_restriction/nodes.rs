//! What a node says about its own Node: nothing that draws the Pods or the packets of others to it.

use std::collections::{BTreeMap, BTreeSet};

use api::certificates::{CERTIFICATES_SINCE, INCARNATION, JOINED_BY_REQUEST};
use api::tree::{child, entries, items, text, texts};
use serde_json::Value;

use super::Refusal;

/// The domain of labels that only administrators set.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";
/// The domains whose labels are upstream's to give a meaning to.
const KUBERNETES_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// The domains below those that are a node's own (`k8s.io/kubelet/pkg/apis`, `kubeletLabelNamespaces`).
const NODE_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The other labels of those domains that a node sets (`k8s.io/kubelet/pkg/apis`, `kubeletLabels`).
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

/// The annotations by which the signer says which certificates of a Node's machine count.
const SIGNERS_ANNOTATIONS: [&str; 3] = [CERTIFICATES_SINCE, INCARNATION, JOINED_BY_REQUEST];

/// Admits the Node `name`, whichever part of it is written.
pub(super) fn admit(node: &str, name: &str, before: Option<&Value>, after: &Value) -> Result<(), Refusal> {
    admit_name(node, name)?;
    match before {
        None => admit_creation(node, after),
        Some(before) => admit_update(node, before, after),
    }
}

/// Admits the name of the node's own Node alone.
pub(super) fn admit_name(node: &str, name: &str) -> Result<(), Refusal> {
    match name == node {
        true => Ok(()),
        false => Err(format!("node {node:?} is not allowed to modify node {name:?}").into()),
    }
}

fn admit_creation(node: &str, object: &Value) -> Result<(), Refusal> {
    if !child(child(object, "spec"), "configSource").is_null() {
        let why = format!("node {node:?} is not allowed to create pods with a non-nil configSource");
        return Err(why.into());
    }
    if !pod_ranges(object).is_empty() {
        return Err(format!("node {node:?} is not allowed to set podCIDR or podCIDRs").into());
    }
    let forbidden = forbidden_labels(&Value::Null, object);
    match forbidden.is_empty() {
        true => Ok(()),
        false => Err(format!("node {node:?} is not allowed to set the following labels: {forbidden}").into()),
    }
}

fn admit_update(node: &str, before: &Value, after: &Value) -> Result<(), Refusal> {
    let spec = |object, field| child(child(object, "spec"), field);
    let source = spec(after, "configSource");
    if !source.is_null() && source != spec(before, "configSource") {
        let why =
            format!("node {node:?} is not allowed to update configSource to a new non-nil configSource");
        return Err(why.into());
    }
    let taints = |object| items(child(object, "spec"), "taints");
    if taints(before) != taints(after) {
        return Err(format!("node {node:?} is not allowed to modify taints").into());
    }
    let owners = |object| items(child(object, "metadata"), "ownerReferences");
    if owners(before) != owners(after) {
        return Err(format!("node {node:?} is not allowed to modify ownerReferences").into());
    }
    if pod_ranges(before) != pod_ranges(after) {
        return Err(format!("node {node:?} is not allowed to modify podCIDR or podCIDRs").into());
    }
    let annotation = |object, name| text(child(child(object, "metadata"), "annotations"), name);
    let signers = SIGNERS_ANNOTATIONS.into_iter();
    let mut changed = signers.filter(|name| annotation(before, name) != annotation(after, name));
    if let Some(name) = changed.next() {
        return Err(format!("node {node:?} is not allowed to modify the annotation {name}").into());
    }
    let forbidden = forbidden_labels(before, after);
    match forbidden.is_empty() {
        true => Ok(()),
        false => Err(format!("is not allowed to modify labels: {forbidden}").into()),
    }
}

/// The ranges of a Node's Pods. Packets to them are routed to the node, so the node-ipam controller alone chooses them.
fn pod_ranges(object: &Value) -> BTreeSet<&str> {
    let spec = child(object, "spec");
    let mut ranges: BTreeSet<&str> = texts(spec, "podCIDRs").into_iter().collect();
    ranges.insert(text(spec, "podCIDR"));
    ranges.remove("");
    ranges
}

/// The labels that differ and that a node may not change, separated by commas.
fn forbidden_labels(before: &Value, after: &Value) -> String {
    let labels = |object| -> BTreeMap<&str, &str> { entries(child(object, "metadata"), "labels").collect() };
    let (before, after) = (labels(before), labels(after));
    let keys: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let forbidden = keys
        .into_iter()
        .filter(|key| before.get(key) != after.get(key) && !is_own_label(key));
    forbidden.collect::<Vec<_>>().join(", ")
}

fn is_own_label(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return true;
    };
    let is_below = |parent: &str| {
        let prefix = domain.strip_suffix(parent);
        prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    };
    let is_kubernetes = KUBERNETES_DOMAINS.iter().any(|parent| is_below(parent));
    let is_of_nodes = NODE_LABELS.contains(&key) || NODE_DOMAINS.iter().any(|parent| is_below(parent));
    !is_below(RESTRICTED_DOMAIN) && (!is_kubernetes || is_of_nodes)
}
