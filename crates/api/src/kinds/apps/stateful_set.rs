//! Defaults, preparation of updates and validation of StatefulSets.

use serde_json::{Value, json};

use super::template::TemplateRules;
use super::{begin_generation, complete, status, validate_not_negative};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::names;
use crate::machinery::tree::{
    child, clear, is_set, items, number, object_mut, omit_null, omit_zero, set_or_clear, text,
};

const REPLICAS_DEFAULT: i64 = 1;
const REVISION_HISTORY_LIMIT_DEFAULT: i64 = 10;

const RETENTION: &str = "persistentVolumeClaimRetentionPolicy";
const RETENTION_TIMES: [&str; 2] = ["whenDeleted", "whenScaled"];

/// Spec fields that an update may change.
const MUTABLE_FIELDS: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Sets defaults and drops empty fields.
pub fn default_stateful_set_on_write(stateful_set: &mut Value) {
    complete(
        stateful_set,
        &[
            "replicas",
            "revisionHistoryLimit",
            "volumeClaimTemplates",
            RETENTION,
        ],
        &["minReadySeconds", "podManagementPolicy", "volumeClaimTemplates"],
    );
    status::complete(stateful_set, &status::OF_STATEFUL_SET);
    let fields = object_mut(stateful_set, "spec");
    for (field, default) in [
        ("replicas", json!(REPLICAS_DEFAULT)),
        ("revisionHistoryLimit", json!(REVISION_HISTORY_LIMIT_DEFAULT)),
        ("podManagementPolicy", json!("OrderedReady")),
        ("serviceName", json!("")),
        (RETENTION, json!({})),
    ] {
        fields.entry(field).or_insert(default);
    }
    if let Some(retention) = fields.get_mut(RETENTION).and_then(Value::as_object_mut) {
        for field in RETENTION_TIMES {
            let policy = retention.entry(field).or_insert(Value::Null);
            if matches!(policy.as_str(), None | Some("")) {
                *policy = json!("Retain");
            }
        }
    }
    if let Some(ordinals) = fields.get_mut("ordinals").and_then(Value::as_object_mut) {
        let start = ordinals.entry("start").or_insert(Value::Null);
        if start.is_null() {
            *start = json!(0);
        }
    }
    let strategy = fields.entry("updateStrategy").or_insert(json!({}));
    default_strategy(strategy);
}

fn default_strategy(strategy: &mut Value) {
    omit_zero(strategy, &["type"]);
    omit_null(strategy, &["rollingUpdate"]);
    let Some(fields) = strategy.as_object_mut() else {
        return;
    };
    let kind = fields.entry("type").or_insert(json!("RollingUpdate"));
    if kind != "RollingUpdate" {
        return;
    }
    let rolling = fields.entry("rollingUpdate").or_insert(json!({}));
    omit_null(rolling, &["partition"]);
    // Upstream drops the field unless its feature gate is on.
    clear(rolling, "maxUnavailable");
    if let Some(rolling) = rolling.as_object_mut() {
        rolling.entry("partition").or_insert(json!(0));
    }
}

/// Prepares a new StatefulSet: its status has no replicas.
pub fn prepare_stateful_set_create(stateful_set: &mut Value) {
    status::reset(stateful_set, &status::OF_STATEFUL_SET);
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_stateful_set_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    if child(new, "spec") != child(old, "spec") {
        begin_generation(new, old);
    }
}

/// Validates a new StatefulSet.
pub fn validate_stateful_set(stateful_set: &Value) -> FieldErrors {
    let mut errors = metadata::validate(stateful_set, NameForm::DnsLabel, true);
    validate_spec(&mut errors, child(stateful_set, "spec"));
    errors
}

/// Validates an update. Most fields are immutable.
pub fn validate_stateful_set_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, child(new, "spec"));
    let fixed = |object: &Value| {
        let mut spec = child(object, "spec").clone();
        for field in MUTABLE_FIELDS {
            clear(&mut spec, field);
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(&Path::new("spec"), detail));
    }
    errors
}

/// Validates a status: counts are not negative and consistent with each other.
pub fn validate_stateful_set_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let status = child(new, "status");
    const COUNTS: [&str; 7] = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    validate_not_negative(&mut errors, status, &COUNTS, &Path::new("status"));
    let replica_counts = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    super::validate_proportions(&mut errors, status, &replica_counts);
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let fault = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid(
            &path.child("podManagementPolicy"),
            policy,
            fault,
        ));
    }
    validate_strategy(
        errors,
        child(spec, "updateStrategy"),
        &path.child("updateStrategy"),
    );
    validate_retention(errors, spec, &path.child(RETENTION));
    // As upstream: a negative `revisionHistoryLimit` is accepted.
    validate_not_negative(errors, spec, &["replicas", "minReadySeconds"], &path);
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        let path = path.child("serviceName");
        push_faults(errors, &path, service, names::dns_label(service));
    }
    validate_not_negative(
        errors,
        child(spec, "ordinals"),
        &["start"],
        &path.child("ordinals"),
    );
    if !items(spec, "volumeClaimTemplates").is_empty() {
        let detail = "persistent volumes are not served; use volumes of the Pod template";
        errors.push(FieldError::forbidden(&path.child("volumeClaimTemplates"), detail));
    }
    let rules = TemplateRules::of("StatefulSet");
    super::validate_selector_and_template(errors, spec, &path, &rules);
}

fn validate_retention(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let policies = ["Retain", "Delete"];
    for field in RETENTION_TIMES {
        let policy = text(child(spec, RETENTION), field);
        if !policies.contains(&policy) {
            errors.push(FieldError::not_supported(&path.child(field), policy, &policies));
        }
    }
}

fn validate_strategy(errors: &mut FieldErrors, strategy: &Value, path: &Path) {
    match text(strategy, "type") {
        "" => errors.push(FieldError::required(path, "")),
        "OnDelete" if is_set(strategy, "rollingUpdate") => {
            let fault = "only allowed for updateStrategy 'RollingUpdate'";
            let rolling = child(strategy, "rollingUpdate").clone();
            errors.push(FieldError::invalid(&path.child("rollingUpdate"), rolling, fault));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = child(strategy, "rollingUpdate");
            let partition = number(rolling, "partition");
            if partition < 0 {
                let path = path.child("rollingUpdate").child("partition");
                errors.push(FieldError::invalid(&path, partition, super::NOT_NEGATIVE));
            }
        }
        _ => {
            let fault = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid(path, strategy.clone(), fault));
        }
    }
}
