//! Warnings about Pods and Pod templates (upstream's `pkg/api/pod/warnings.go`).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{CONTAINER_LISTS, PREFERRED_AFFINITY, REQUIRED_AFFINITY};
use crate::machinery::decode::quantity_in_thousandths;
use crate::machinery::field::Path;
use crate::machinery::tree::{child, entries, is_set, items, number, text, texts};
use crate::machinery::{ip, names};

/// Deprecated labels of Nodes, with their reason.
const DEPRECATED_LABELS: [(&str, &str); 5] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
];
/// Deprecated sources of volumes, with their reason.
const DEPRECATED_SOURCES: [(&str, &str); 7] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    (
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
];
const CRITICAL_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/critical-pod";
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Returns the warnings about a new Pod.
pub fn pod_creation_warnings(pod: &Value) -> Vec<String> {
    let mut warnings = name_warnings(pod, "the Pod's hostname");
    warnings.extend(spec_and_metadata_warnings(pod, &Path::default()));
    warnings
}

/// Returns the warnings about the addresses in a written status (upstream's `podStatusStrategy`).
pub fn pod_status_warnings(pod: &Value) -> Vec<String> {
    let (status, path) = (child(pod, "status"), Path::new("status"));
    let mut warnings = Vec::new();
    for list in ["podIPs", "hostIPs"] {
        for (index, entry) in items(status, list).iter().enumerate() {
            let at = path.child(list).index(index).child("ip");
            warnings.extend(ip::warning(&at, text(entry, "ip")));
        }
    }
    warnings
}

/// Returns the warnings about the Pod template of a workload.
pub(crate) fn template_warnings(workload: &Value) -> Vec<String> {
    let template = child(child(workload, "spec"), "template");
    spec_and_metadata_warnings(template, &Path::new("spec").child("template"))
}

/// Returns a warning about a name that is not a DNS label. `use_of_name` is the use that needs a DNS label.
pub(crate) fn name_warnings(object: &Value, use_of_name: &str) -> Vec<String> {
    let name = text(child(object, "metadata"), "name");
    let faults = names::dns_label(name);
    if name.is_empty() || faults.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {use_of_name}, which can result in surprising behavior; a DNS label is \
         recommended: [{}]",
        faults.join(" ")
    )]
}

/// Returns the warnings about spec and metadata of a Pod or Pod template at `path`.
fn spec_and_metadata_warnings(pod: &Value, path: &Path) -> Vec<String> {
    let (spec, at) = (child(pod, "spec"), path.child("spec"));
    let mut warnings = Vec::new();
    for (key, _) in entries(spec, "nodeSelector") {
        if let Some(reason) = deprecation(key) {
            warnings.push(format!("{}: {reason}", at.child("nodeSelector").key(key)));
        }
    }
    push_node_affinity_warnings(&mut warnings, spec, &at);
    push_topology_spread_warnings(&mut warnings, spec, &at.child("topologySpreadConstraints"));
    let annotations = child(child(pod, "metadata"), "annotations");
    let annotations_at = path.child("metadata").child("annotations");
    if is_set(annotations, CRITICAL_ANNOTATION) {
        let at = annotations_at.key(CRITICAL_ANNOTATION);
        warnings.push(format!(
            "{at}: non-functional in v1.16+; use the \"priorityClassName\" field instead"
        ));
    }
    push_volume_warnings(&mut warnings, spec, &at.child("volumes"));
    push_address_warnings(&mut warnings, spec, &at);
    push_pull_secret_warnings(&mut warnings, spec, &at.child("imagePullSecrets"));
    if number(spec, "terminationGracePeriodSeconds") < 0 {
        let at = at.child("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{at}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for list in CONTAINER_LISTS {
        for (index, container) in items(spec, list).iter().enumerate() {
            let key = format!("{APP_ARMOR_ANNOTATION}{}", text(container, "name"));
            if is_set(annotations, &key) {
                let at = annotations_at.key(&key);
                warnings.push(format!(
                    "{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead"
                ));
            }
            push_container_warnings(&mut warnings, container, &at.child(list).index(index));
        }
    }
    push_pod_affinity_warnings(&mut warnings, spec, &at);
    warnings
}

/// Returns the reason if a label of Nodes is deprecated.
fn deprecation(label: &str) -> Option<&'static str> {
    DEPRECATED_LABELS
        .iter()
        .find(|(deprecated, _)| *deprecated == label)
        .map(|(_, reason)| *reason)
}

fn push_node_affinity_warnings(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let affinity = child(child(spec, "affinity"), "nodeAffinity");
    let path = path.child("affinity").child("nodeAffinity");
    let required = items(child(affinity, REQUIRED_AFFINITY), "nodeSelectorTerms")
        .iter()
        .enumerate();
    let required_at = path.child(REQUIRED_AFFINITY).child("nodeSelectorTerms");
    let preferred = items(affinity, PREFERRED_AFFINITY).iter().enumerate();
    let preferred_at = path.child(PREFERRED_AFFINITY);
    let terms = required
        .map(|(index, term)| (term, required_at.index(index)))
        .chain(preferred.map(|(index, preferred)| {
            let at = preferred_at.index(index).child("preference");
            (child(preferred, "preference"), at)
        }));
    for (term, path) in terms {
        for (index, requirement) in items(term, "matchExpressions").iter().enumerate() {
            let key = text(requirement, "key");
            if let Some(reason) = deprecation(key) {
                let at = path.child("matchExpressions").index(index).child("key");
                warnings.push(format!("{at}: {key} is {reason}"));
            }
        }
    }
}

/// Warns of terms without a label selector.
fn push_pod_affinity_warnings(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = child(child(spec, "affinity"), kind);
        let path = path.child("affinity").child(kind);
        let at = path.child(REQUIRED_AFFINITY);
        for (index, term) in items(affinity, REQUIRED_AFFINITY).iter().enumerate() {
            push_selector_warning(warnings, term, &at.index(index));
        }
        let at = path.child(PREFERRED_AFFINITY);
        for (index, preferred) in items(affinity, PREFERRED_AFFINITY).iter().enumerate() {
            let term = child(preferred, "podAffinityTerm");
            push_selector_warning(warnings, term, &at.index(index).child("podAffinityTerm"));
        }
    }
}

fn push_selector_warning(warnings: &mut Vec<String>, term: &Value, path: &Path) {
    if !is_set(term, "labelSelector") {
        let at = path.child("labelSelector");
        warnings.push(format!("{at}: a null labelSelector results in matching no pod"));
    }
}

fn push_topology_spread_warnings(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = path.index(index);
        let key = text(constraint, "topologyKey");
        if let Some(reason) = deprecation(key) {
            warnings.push(format!("{}: {key} is {reason}", path.child("topologyKey")));
        }
        push_selector_warning(warnings, constraint, &path);
    }
}

fn push_volume_warnings(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let path = path.index(index);
        for (source, reason) in DEPRECATED_SOURCES {
            if is_set(volume, source) {
                warnings.push(format!("{}: {reason}", path.child(source)));
            }
        }
        let is_empty = |source: &Value| {
            let fields = source.as_object();
            fields.is_none_or(|fields| fields.values().all(Value::is_null))
        };
        if items(child(volume, "projected"), "sources").iter().any(is_empty) {
            let name = text(volume, "name");
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
    }
}

fn push_address_warnings(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let (address, at) = (
            text(alias, "ip"),
            path.child("hostAliases").index(index).child("ip"),
        );
        if !seen.insert(address) {
            warnings.push(format!("{at}: duplicate ip {address:?}"));
        }
        warnings.extend(ip::warning(&at, address));
    }
    let nameservers = texts(child(spec, "dnsConfig"), "nameservers");
    let path = path.child("dnsConfig").child("nameservers");
    for (index, nameserver) in nameservers.into_iter().enumerate() {
        warnings.extend(ip::warning(&path.index(index), nameserver));
    }
}

fn push_pull_secret_warnings(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        let (name, at) = (text(secret, "name"), path.index(index).child("name"));
        if name.is_empty() {
            warnings.push(format!("{at}: invalid empty name \"\""));
        } else if !seen.insert(name) {
            warnings.push(format!("{at}: duplicate name {name:?}"));
        }
    }
}

fn push_container_warnings(warnings: &mut Vec<String>, container: &Value, path: &Path) {
    for list in ["limits", "requests"] {
        for resource in ["memory", "ephemeral-storage"] {
            let amount = text(child(child(container, "resources"), list), resource);
            if quantity_in_thousandths(amount).is_some_and(|thousandths| thousandths % 1000 != 0) {
                let at = path.child("resources").child(list).key(resource);
                warnings.push(format!(
                    "{at}: fractional byte value {amount:?} is invalid, must be an integer"
                ));
            }
        }
    }
    push_variable_warnings(warnings, container, &path.child("env"));
    push_port_warnings(warnings, container, &path.child("ports"));
}

/// Adds warnings about variables that hide an earlier one. A variable may extend the value of the earlier one.
fn push_variable_warnings(warnings: &mut Vec<String>, container: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, variable) in items(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        let is_first = seen.insert(name);
        let extends = text(variable, "value").contains(&format!("$({name})"));
        if !is_first && !extends {
            let at = path.index(index);
            warnings.push(format!(
                "{at}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

/// Adds warnings about ports that are listed twice, with and without a host port.
fn push_port_warnings(warnings: &mut Vec<String>, container: &Value, path: &Path) {
    let mut known: HashMap<(i64, &str), (usize, (i64, &str))> = HashMap::new();
    for (index, port) in items(container, "ports").iter().enumerate() {
        let key = (number(port, "containerPort"), text(port, "protocol"));
        let on_host = (number(port, "hostPort"), text(port, "hostIP"));
        let Some(&(earlier, earlier_on_host)) = known.get(&key) else {
            known.insert(key, (index, on_host));
            continue;
        };
        let kind = if on_host == earlier_on_host {
            "duplicate"
        } else if on_host == (0, "") || earlier_on_host == (0, "") {
            "overlapping"
        } else {
            continue;
        };
        let (at, earlier) = (path.index(index), path.index(earlier));
        warnings.push(format!("{at}: {kind} port definition with {earlier}"));
    }
}

#[cfg(test)]
mod tests;
