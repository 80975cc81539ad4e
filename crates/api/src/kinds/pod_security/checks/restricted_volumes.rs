//! Check of the restricted level: volumes have types that do not expose the node.

use std::collections::BTreeSet;

use serde_json::Value;

use super::messages::{join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{is_set, items, text};

const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Forbidden types in upstream's order; the message contains the first one that is set.
const FORBIDDEN: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let violating: Vec<(&str, &str)> = items(pod.spec, "volumes")
        .iter()
        .filter(|volume| first_set(volume, &ALLOWED).is_none())
        .map(|volume| {
            let kind = first_set(volume, &FORBIDDEN).unwrap_or("unknown");
            (text(volume, "name"), kind)
        })
        .collect();
    if violating.is_empty() {
        return None;
    }
    let kinds: BTreeSet<&str> = violating.iter().map(|(_, kind)| *kind).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", violating.len()),
        join_quoted(violating.iter().map(|(name, _)| name)),
        plural("uses", "use", violating.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        join_quoted(&kinds)
    );
    Violation::new("restricted volume types", detail)
}

fn first_set(volume: &Value, kinds: &[&'static str]) -> Option<&'static str> {
    kinds.iter().copied().find(|kind| is_set(volume, kind))
}
