//! Warnings about workloads, most of which are about their Pod templates.

use serde_json::Value;

use crate::kinds::pod::{name_warnings, template_warnings};
use crate::machinery::tree::{child, number};

/// Use of the name of a workload.
const USE_OF_NAME: &str = "Pod names and hostnames";

/// Returns the warnings about a new Deployment, ReplicaSet, ReplicationController or Job.
pub fn workload_creation_warnings(workload: &Value) -> Vec<String> {
    let mut warnings = name_warnings(workload, USE_OF_NAME);
    warnings.extend(template_warnings(workload));
    warnings
}

/// Returns the warnings about a new DaemonSet.
pub fn daemon_set_creation_warnings(daemon_set: &Value) -> Vec<String> {
    template_warnings(daemon_set)
}

/// Returns the warnings about a new StatefulSet.
pub fn stateful_set_creation_warnings(stateful_set: &Value) -> Vec<String> {
    let mut warnings = template_warnings(stateful_set);
    warnings.extend(history_warning(stateful_set));
    warnings
}

/// Returns the warnings about a changed workload. As upstream, only a change of the desired state causes them.
pub fn workload_update_warnings(new: &Value, old: &Value) -> Vec<String> {
    let generation = |object| number(child(object, "metadata"), "generation");
    if generation(new) == generation(old) {
        return Vec::new();
    }
    template_warnings(new)
}

/// Returns the warnings about a changed StatefulSet.
pub fn stateful_set_update_warnings(new: &Value, old: &Value) -> Vec<String> {
    let mut warnings = workload_update_warnings(new, old);
    warnings.extend(history_warning(new));
    warnings
}

fn history_warning(stateful_set: &Value) -> Option<String> {
    (number(child(stateful_set, "spec"), "revisionHistoryLimit") < 0).then(|| {
        "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
            .to_owned()
    })
}
