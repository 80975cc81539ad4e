//! Defaults, preparation of updates and validation of DaemonSets.

use serde_json::{Value, json};

use super::int_or_percent::{self, IntOrPercent};
use super::template::TemplateRules;
use super::{begin_generation, complete, status, validate_not_negative, validate_same_selector};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, is_set, object_mut, omit_null, omit_zero, set_or_clear, text};

/// Annotation with the generation of the template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const REVISION_HISTORY_LIMIT_DEFAULT: i64 = 10;
const MAX_UNAVAILABLE_DEFAULT: i64 = 1;
const MAX_SURGE_DEFAULT: i64 = 0;

/// Sets defaults and drops empty fields.
pub fn default_daemon_set_on_write(daemon_set: &mut Value) {
    complete(daemon_set, &["revisionHistoryLimit"], &["minReadySeconds"]);
    status::complete(daemon_set, &status::OF_DAEMON_SET);
    let fields = object_mut(daemon_set, "spec");
    fields
        .entry("revisionHistoryLimit")
        .or_insert(json!(REVISION_HISTORY_LIMIT_DEFAULT));
    let strategy = fields.entry("updateStrategy").or_insert(json!({}));
    omit_zero(strategy, &["type"]);
    omit_null(strategy, &["rollingUpdate"]);
    let Some(strategy) = strategy.as_object_mut() else {
        return;
    };
    if strategy.entry("type").or_insert(json!("RollingUpdate")) != "RollingUpdate" {
        return;
    }
    let rolling = strategy.entry("rollingUpdate").or_insert(json!({}));
    omit_null(rolling, &["maxUnavailable", "maxSurge"]);
    if let Some(rolling) = rolling.as_object_mut() {
        for (field, default) in [
            ("maxUnavailable", MAX_UNAVAILABLE_DEFAULT),
            ("maxSurge", MAX_SURGE_DEFAULT),
        ] {
            rolling.entry(field).or_insert(json!(default));
        }
    }
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_daemon_set_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    let (after, before) = (child(new, "spec"), child(old, "spec"));
    let is_template_changed = child(after, "template") != child(before, "template");
    if after != before {
        begin_generation(new, old);
    }
    let generation = template_generation(old).max(1);
    set_template_generation(new, generation.saturating_add(i64::from(is_template_changed)));
}

/// Returns the number of changes of the template, which upstream keeps in an annotation.
fn template_generation(daemon_set: &Value) -> i64 {
    let annotations = child(child(daemon_set, "metadata"), "annotations");
    let generation = text(annotations, TEMPLATE_GENERATION).parse();
    generation.unwrap_or_default()
}

fn set_template_generation(daemon_set: &mut Value, generation: i64) {
    object_mut(daemon_set, "metadata");
    if let Some(metadata) = daemon_set.get_mut("metadata") {
        let annotations = object_mut(metadata, "annotations");
        annotations.insert(TEMPLATE_GENERATION.to_owned(), json!(generation.to_string()));
    }
}

/// Validates a new DaemonSet.
pub fn validate_daemon_set(daemon_set: &Value) -> FieldErrors {
    let mut errors = metadata::validate(daemon_set, NameForm::DnsSubdomain, true);
    validate_spec(&mut errors, child(daemon_set, "spec"));
    errors
}

/// Validates an update. The selector is immutable.
pub fn validate_daemon_set_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_spec(&mut errors, child(new, "spec"));
    validate_same_selector(&mut errors, new, old);
    errors
}

/// Validates a status: counts are not negative.
pub fn validate_daemon_set_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    const COUNTS: [&str; 9] = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    validate_not_negative(&mut errors, child(new, "status"), &COUNTS, &Path::new("status"));
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    let rules = TemplateRules::of("DaemonSet");
    super::validate_selector_and_template(errors, spec, &path, &rules);
    validate_not_negative(errors, spec, &["minReadySeconds", "revisionHistoryLimit"], &path);
    validate_strategy(
        errors,
        child(spec, "updateStrategy"),
        &path.child("updateStrategy"),
    );
}

fn validate_strategy(errors: &mut FieldErrors, strategy: &Value, path: &Path) {
    let rolling = path.child("rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" if !is_set(strategy, "rollingUpdate") => {
            errors.push(FieldError::required(&rolling, ""));
        }
        "RollingUpdate" => validate_rolling(errors, child(strategy, "rollingUpdate"), &rolling),
        _ => errors.push(FieldError::not_supported(
            path,
            strategy.clone(),
            &["OnDelete", "RollingUpdate"],
        )),
    }
}

fn validate_rolling(errors: &mut FieldErrors, rolling: &Value, path: &Path) {
    for field in ["maxUnavailable", "maxSurge"] {
        let (value, path) = (child(rolling, field), path.child(field));
        int_or_percent::validate(errors, value, &path);
        if matches!(IntOrPercent::read(value), Some(IntOrPercent::Percent(101..))) {
            errors.push(FieldError::invalid(
                &path,
                value.clone(),
                "must not be greater than 100%",
            ));
        }
    }
    let is_zero = |field| IntOrPercent::read(child(rolling, field)).is_none_or(IntOrPercent::is_zero);
    match (is_zero("maxUnavailable"), is_zero("maxSurge")) {
        (false, false) => {
            let fault = "may not be set when maxUnavailable is non-zero";
            let surge = child(rolling, "maxSurge").clone();
            errors.push(FieldError::invalid(&path.child("maxSurge"), surge, fault));
        }
        (true, true) => {
            let detail = "cannot be 0 when maxSurge is 0";
            errors.push(FieldError::required(&path.child("maxUnavailable"), detail));
        }
        _ => {}
    }
}

/// Prepares a new DaemonSet: the template has generation 1, and the status has no Pods.
pub fn prepare_daemon_set_create(daemon_set: &mut Value) {
    status::reset(daemon_set, &status::OF_DAEMON_SET);
    let generation = template_generation(daemon_set).max(1);
    set_template_generation(daemon_set, generation);
}
