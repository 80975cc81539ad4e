//! Pods of a StatefulSet: names, numbers and identity.

use api::object::{ControllerRevision, StatefulSet};
use serde_json::{Value, json};

use crate::replica_set::ReplicaPod;
use crate::workload::pods::pod_from;
use crate::workload::revisions::{REVISION_LABEL, template_of};

/// Label with the name of the Pod.
const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Label with the number of the Pod.
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Returns the number of the first Pod.
pub(super) fn first_ordinal(set: &StatefulSet) -> i64 {
    set.spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start)
}

/// Returns the number of a Pod of the StatefulSet; `None` if the name has another form.
pub(super) fn ordinal_of(set: &StatefulSet, pod: &ReplicaPod) -> Option<i64> {
    let number = pod
        .metadata
        .name
        .strip_prefix(&*set.metadata.name)?
        .strip_prefix('-')?;
    let is_canonical = number == "0" || !number.starts_with('0');
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_canonical && is_number)
}

/// Returns the name of the revision of a Pod.
pub(super) fn revision_of(pod: &ReplicaPod) -> &str {
    pod.metadata.labels.get(REVISION_LABEL).map_or("", String::as_str)
}

/// Returns true if the Pod runs and is ready.
pub(super) fn is_running(pod: &ReplicaPod) -> bool {
    pod.status.phase == "Running" && pod.is_ready()
}

/// Returns the Pod with this number from the template of a revision.
pub(super) fn pod_of(set: &StatefulSet, ordinal: i64, revision: &ControllerRevision) -> Value {
    let name = format!("{}-{ordinal}", set.metadata.name);
    let mut pod = pod_from(set, &template_of(revision), &name);
    if !pod["metadata"]["labels"].is_object() {
        pod["metadata"]["labels"] = json!({});
    }
    let labels = &mut pod["metadata"]["labels"];
    labels[POD_NAME_LABEL] = json!(name);
    labels[POD_INDEX_LABEL] = json!(ordinal.to_string());
    labels[REVISION_LABEL] = json!(revision.metadata.name);
    pod["spec"]["hostname"] = json!(name);
    if !set.spec.service_name.is_empty() {
        pod["spec"]["subdomain"] = json!(set.spec.service_name);
    }
    pod
}
