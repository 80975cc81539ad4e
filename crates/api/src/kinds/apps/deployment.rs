//! Defaults, preparation of updates and validation of Deployments.

use serde_json::{Value, json};

use super::int_or_percent::{self, IntOrPercent};
use super::template::TemplateRules;
use super::{
    begin_generation, complete, validate_not_negative, validate_proportions, validate_same_selector,
};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{
    child, entries, is_set, number, object_mut, omit_null, omit_zero, set_or_clear, text,
};

const REPLICAS_DEFAULT: i64 = 1;
const REVISION_HISTORY_LIMIT_DEFAULT: i64 = 10;
const PROGRESS_DEADLINE_SECONDS_DEFAULT: i64 = 600;
/// Default of `maxSurge` and `maxUnavailable`.
const SHARE_DEFAULT: &str = "25%";

/// Sets defaults and drops empty fields.
pub fn default_deployment_on_write(deployment: &mut Value) {
    let nullable = [
        "replicas",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
        "strategy",
    ];
    complete(deployment, &nullable, &["minReadySeconds", "paused"]);
    super::complete_conditions(deployment, &["lastUpdateTime"]);
    let fields = object_mut(deployment, "spec");
    for (field, default) in [
        ("replicas", REPLICAS_DEFAULT),
        ("revisionHistoryLimit", REVISION_HISTORY_LIMIT_DEFAULT),
        ("progressDeadlineSeconds", PROGRESS_DEADLINE_SECONDS_DEFAULT),
    ] {
        fields.entry(field).or_insert(json!(default));
    }
    let strategy = fields.entry("strategy").or_insert(json!({}));
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
    omit_null(rolling, &["maxUnavailable", "maxSurge"]);
    if let Some(rolling) = rolling.as_object_mut() {
        for field in ["maxUnavailable", "maxSurge"] {
            rolling.entry(field).or_insert(json!(SHARE_DEFAULT));
        }
    }
}

/// Prepares an update: the status stays, and a changed spec or annotation increments the generation.
pub fn prepare_deployment_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    let annotations = |object| {
        let all = entries(child(object, "metadata"), "annotations");
        all.map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    if child(new, "spec") != child(old, "spec") || annotations(new) != annotations(old) {
        begin_generation(new, old);
    }
}

/// Prepares an update of the status: spec and labels stay.
pub fn prepare_deployment_status_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "spec", old.get("spec").cloned());
    let labels = child(old, "metadata").get("labels").cloned();
    object_mut(new, "metadata");
    if let Some(metadata) = new.get_mut("metadata") {
        set_or_clear(metadata, "labels", labels);
    }
}

/// Validates a new Deployment.
pub fn validate_deployment(deployment: &Value) -> FieldErrors {
    let mut errors = metadata::validate(deployment, NameForm::DnsSubdomain, true);
    validate_spec(&mut errors, child(deployment, "spec"));
    errors
}

/// Validates an update. The selector is immutable.
pub fn validate_deployment_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, child(new, "spec"));
    validate_same_selector(&mut errors, new, old);
    errors
}

/// Validates a status: counts are not negative and consistent with each other.
pub fn validate_deployment_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let status = child(new, "status");
    let path = Path::new("status");
    const COUNTS: [&str; 7] = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
    ];
    validate_not_negative(&mut errors, status, &COUNTS, &path);
    const COLLISIONS: &str = "collisionCount";
    validate_not_negative(&mut errors, status, &[COLLISIONS], &path);
    let collisions = number(status, COLLISIONS);
    let before = child(old, "status");
    let is_known = is_set(status, COLLISIONS) && is_set(before, COLLISIONS);
    if is_known && collisions < number(before, COLLISIONS) {
        errors.push(FieldError::invalid(
            &path.child(COLLISIONS),
            collisions,
            "cannot be decremented",
        ));
    }
    let replica_counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    validate_proportions(&mut errors, status, &replica_counts);
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    validate_not_negative(errors, spec, &["replicas"], &path);
    let rules = TemplateRules::of("ReplicaSet");
    super::validate_selector_and_template(errors, spec, &path, &rules);
    validate_strategy(errors, child(spec, "strategy"), &path.child("strategy"));
    const DEADLINE: &str = "progressDeadlineSeconds";
    let fields = ["minReadySeconds", "revisionHistoryLimit", DEADLINE];
    validate_not_negative(errors, spec, &fields, &path);
    let deadline = number(spec, DEADLINE);
    if is_set(spec, DEADLINE) && deadline <= number(spec, "minReadySeconds") {
        let fault = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(&path.child(DEADLINE), deadline, fault));
    }
}

fn validate_strategy(errors: &mut FieldErrors, strategy: &Value, path: &Path) {
    match text(strategy, "type") {
        "Recreate" if is_set(strategy, "rollingUpdate") => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden(&path.child("rollingUpdate"), detail));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            validate_rolling(
                errors,
                child(strategy, "rollingUpdate"),
                &path.child("rollingUpdate"),
            );
        }
        _ => errors.push(FieldError::not_supported(
            path,
            strategy.clone(),
            &["Recreate", "RollingUpdate"],
        )),
    }
}

fn validate_rolling(errors: &mut FieldErrors, rolling: &Value, path: &Path) {
    let (unavailable, surge) = (child(rolling, "maxUnavailable"), child(rolling, "maxSurge"));
    let at = path.child("maxUnavailable");
    int_or_percent::validate(errors, unavailable, &at);
    int_or_percent::validate(errors, surge, &path.child("maxSurge"));
    // A value of another form counts as zero, as upstream.
    let is_zero = |value| IntOrPercent::read(value).is_none_or(IntOrPercent::is_zero);
    if is_zero(unavailable) && is_zero(surge) {
        let fault = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&at, unavailable.clone(), fault));
    }
    if matches!(
        IntOrPercent::read(unavailable),
        Some(IntOrPercent::Percent(101..))
    ) {
        let fault = "must not be greater than 100%";
        errors.push(FieldError::invalid(&at, unavailable.clone(), fault));
    }
}
