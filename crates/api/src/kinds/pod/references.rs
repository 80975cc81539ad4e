//! References of a Pod to API objects (upstream's `pkg/api/pod/util.go`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::ALL_CONTAINER_LISTS;
use crate::machinery::tree::{child, is_set, items, text};

/// Annotation of mirror Pods: the agent runs such a Pod itself, and the API shows a copy.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Volume sources that name a Secret in an object: the source, and the field with that object.
const SECRET_REFERENCES: [(&str, &str); 8] = [
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("flexVolume", "secretRef"),
    ("iscsi", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("storageos", "secretRef"),
];

/// Volume sources that name a Secret by `secretName`.
const SECRET_NAMES: [&str; 2] = ["azureFile", "secret"];

/// Volume sources that need an API object, with the wording of upstream's `HasAPIObjectReference`.
const API_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that need an API object, with upstream's wording.
const API_PROJECTIONS: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Returns true if the Pod is a mirror Pod.
pub fn is_mirror(pod: &Value) -> bool {
    is_set(child(child(pod, "metadata"), "annotations"), MIRROR_ANNOTATION)
}

/// Returns the name of the ServiceAccount in a Pod spec, "" if absent. `serviceAccount` is the older name of the field.
pub fn service_account_name(spec: &Value) -> &str {
    match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    }
}

/// Returns the names of the Secrets to which a Pod spec refers (upstream's `VisitPodSecretNames`).
pub fn secret_names(spec: &Value) -> BTreeSet<&str> {
    let mut names = names_in_containers(spec, "secretRef", "secretKeyRef");
    let pull_secrets = items(spec, "imagePullSecrets").iter();
    names.extend(pull_secrets.map(|reference| text(reference, "name")));
    for volume in items(spec, "volumes") {
        for (source, field) in SECRET_REFERENCES {
            names.insert(text(child(child(volume, source), field), "name"));
        }
        for source in SECRET_NAMES {
            names.insert(text(child(volume, source), "secretName"));
        }
        names.extend(projections(volume).map(|source| text(child(source, "secret"), "name")));
    }
    names.remove("");
    names
}

/// Returns the names of the ConfigMaps to which a Pod spec refers (upstream's `VisitPodConfigmapNames`).
pub fn config_map_names(spec: &Value) -> BTreeSet<&str> {
    let mut names = names_in_containers(spec, "configMapRef", "configMapKeyRef");
    for volume in items(spec, "volumes") {
        names.insert(text(child(volume, "configMap"), "name"));
        names.extend(projections(volume).map(|source| text(child(source, "configMap"), "name")));
    }
    names.remove("");
    names
}

/// Audiences of the projected tokens in a Pod spec; "" means the API server.
pub fn token_audiences(spec: &Value) -> BTreeSet<&str> {
    items(spec, "volumes")
        .iter()
        .flat_map(projections)
        .filter(|source| is_set(source, "serviceAccountToken"))
        .map(|source| text(child(source, "serviceAccountToken"), "audience"))
        .collect()
}

/// Returns the first API resource that a Pod spec needs, in the wording of upstream's `HasAPIObjectReference`.
pub fn api_object_reference(spec: &Value) -> Option<&'static str> {
    if !service_account_name(spec).is_empty() {
        return Some("serviceaccounts");
    }
    if !secret_names(spec).is_empty() {
        return Some("secrets");
    }
    if !config_map_names(spec).is_empty() {
        return Some("configmaps");
    }
    if !items(spec, "resourceClaims").is_empty() {
        return Some("resourceclaims");
    }
    items(spec, "volumes").iter().find_map(|volume| {
        let needs = |tree: &Value, table: &[(&str, &'static str)]| {
            let found = table.iter().find(|(source, _)| is_set(tree, source));
            found.map(|(_, resource)| *resource)
        };
        needs(volume, &API_VOLUMES)
            .or_else(|| projections(volume).find_map(|source| needs(source, &API_PROJECTIONS)))
    })
}

/// Returns the names in the environments of all containers: `from` is the field of `envFrom`, `key` that of a
/// variable's value.
fn names_in_containers<'s>(spec: &'s Value, from: &str, key: &str) -> BTreeSet<&'s str> {
    let mut names = BTreeSet::new();
    for container in ALL_CONTAINER_LISTS.into_iter().flat_map(|list| items(spec, list)) {
        let sources = items(container, "envFrom").iter();
        names.extend(sources.map(|source| text(child(source, from), "name")));
        let variables = items(container, "env").iter();
        names.extend(variables.map(|variable| text(child(child(variable, "valueFrom"), key), "name")));
    }
    names
}

fn projections(volume: &Value) -> impl Iterator<Item = &Value> {
    items(child(volume, "projected"), "sources").iter()
}

#[cfg(test)]
mod tests;
