//! Defaults, preparation of updates and validation of ReplicaSets.

use serde_json::{Value, json};

use super::template::TemplateRules;
use super::{
    begin_generation, complete, status, validate_not_negative, validate_proportions, validate_same_selector,
};
use crate::machinery::field::{FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, object_mut, set_or_clear};

const REPLICAS_DEFAULT: i64 = 1;

/// Sets defaults and drops empty fields.
pub fn default_replica_set_on_write(replica_set: &mut Value) {
    complete(replica_set, &["replicas"], &["minReadySeconds"]);
    status::complete(replica_set, &status::OF_REPLICA_SET);
    let fields = object_mut(replica_set, "spec");
    fields.entry("replicas").or_insert(json!(REPLICAS_DEFAULT));
}

/// Prepares a new ReplicaSet or ReplicationController: its status has no replicas.
pub fn prepare_replica_set_create(object: &mut Value) {
    status::reset(object, &status::OF_REPLICA_SET);
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_replica_set_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    if child(new, "spec") != child(old, "spec") {
        begin_generation(new, old);
    }
}

/// Validates a new ReplicaSet.
pub fn validate_replica_set(replica_set: &Value) -> FieldErrors {
    let mut errors = metadata::validate(replica_set, NameForm::DnsSubdomain, true);
    validate_spec(&mut errors, child(replica_set, "spec"));
    errors
}

/// Validates an update. The selector is immutable.
pub fn validate_replica_set_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, child(new, "spec"));
    validate_same_selector(&mut errors, new, old);
    errors
}

/// Validates a status: counts are not negative and consistent with each other.
pub fn validate_replica_set_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let status = child(new, "status");
    const COUNTS: [&str; 6] = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    validate_not_negative(&mut errors, status, &COUNTS, &Path::new("status"));
    let replica_counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    validate_proportions(&mut errors, status, &replica_counts);
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    validate_not_negative(errors, spec, &["replicas", "minReadySeconds"], &path);
    let rules = TemplateRules::of("ReplicaSet");
    super::validate_selector_and_template(errors, spec, &path, &rules);
}
