//! Validation of Events, in the form of the core group. Paths are those of the form that the client sent.

use serde_json::{Value, json};

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, number, omit_zero, set, text};

/// Longest action, reason or reporting instance.
const WORD_BYTES_MAX: usize = 128;
/// Longest message.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Fewest Events of a series.
const SERIES_COUNT_MIN: i64 = 2;

/// Drops empty fields. The reporter is always written.
pub fn default_event_on_write(event: &mut Value) {
    metadata::omit_empty(event);
    omit_zero(event, &["reason", "message", "count", "type", "action"]);
    for field in ["reportingComponent", "reportingInstance"] {
        if !is_set(event, field) {
            set(event, field, "");
        }
    }
    // As upstream, which always writes times and the source.
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        if !is_set(event, field) {
            set(event, field, Value::Null);
        }
    }
    if !is_set(event, "source") {
        set(event, "source", json!({}));
    }
}

/// Validates an Event in the form of the core group.
pub fn validate_core_event(event: &Value) -> FieldErrors {
    let mut errors = metadata::validate(event, NameForm::PathSegment, true);
    validate_any(&mut errors, event, "reportingComponent");
    errors
}

/// Validates a new Event of `events.k8s.io`, which cannot set deprecated fields.
pub fn validate_event(event: &Value) -> FieldErrors {
    let mut errors = metadata::validate(event, NameForm::DnsSubdomain, true);
    validate_any(&mut errors, event, "reportingController");
    validate_series(&mut errors, event);
    if !is_set(event, "eventTime") {
        errors.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    if !matches!(text(event, "type"), "Normal" | "Warning") {
        let fault = "has invalid value: ";
        errors.push(FieldError::invalid(&Path::new("type"), "", fault));
    }
    let source = child(event, "source");
    let is_given = [
        ("firstTimestamp", is_set(event, "firstTimestamp")),
        ("lastTimestamp", is_set(event, "lastTimestamp")),
        ("count", number(event, "count") != 0),
        (
            "source",
            !text(source, "component").is_empty() || !text(source, "host").is_empty(),
        ),
    ];
    for (field, _) in is_given.into_iter().filter(|(_, is_given)| *is_given) {
        errors.push(FieldError::invalid(&Path::new(field), "", "needs to be unset"));
    }
    errors
}

/// Validates an update of an Event of `events.k8s.io`, which can change the series only.
pub fn validate_event_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    validate_any(&mut errors, new, "reportingController");
    let kept = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    // An unchanged series may predate the rules.
    if child(new, "series") != child(old, "series") {
        validate_series(&mut errors, new);
    }
    for field in kept {
        let (before, after) = (child(old, field), child(new, field));
        // As upstream: a changed reason is reported twice.
        let reports = if field == "reason" { 2 } else { 1 };
        for _ in (0..reports).filter(|_| before != after) {
            let fault = "field is immutable";
            errors.push(FieldError::invalid(
                &Path::new(path_of(field)),
                after.clone(),
                fault,
            ));
        }
    }
    errors
}

fn path_of(field: &'static str) -> &'static str {
    match field {
        "reportingComponent" => "reportingController",
        other => other,
    }
}

/// Validates both forms: the namespace is that of the object, and an Event with `eventTime` names its reporter.
fn validate_any(errors: &mut FieldErrors, event: &Value, controller_field: &str) {
    let namespace = text(child(event, "metadata"), "namespace");
    let about = text(child(event, "involvedObject"), "namespace");
    let path = Path::new("involvedObject").child("namespace");
    let has_time = is_set(event, "eventTime");
    let agrees = match (about, has_time) {
        ("", false) => matches!(namespace, "" | "default"),
        (about, false) => about == namespace,
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (_, true) => true,
    };
    if !agrees {
        errors.push(FieldError::invalid(
            &path,
            about,
            "does not match event.namespace",
        ));
    }
    if has_time {
        validate_reporter(errors, event, controller_field);
    }
}

fn validate_reporter(errors: &mut FieldErrors, event: &Value, controller_field: &str) {
    let controller = text(event, "reportingComponent");
    let path = Path::new(controller_field);
    if controller.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    metadata::push_faults(errors, &path, controller, names::qualified_name(controller));
    for field in ["reportingInstance", "action", "reason"] {
        let (path, value) = (Path::new(field), text(event, field));
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        if value.len() > WORD_BYTES_MAX {
            let fault = format!("can have at most {WORD_BYTES_MAX} characters");
            errors.push(FieldError::invalid(&path, "", fault));
        }
    }
    if text(event, "message").len() > MESSAGE_BYTES_MAX {
        let fault = format!("can have at most {MESSAGE_BYTES_MAX} characters");
        errors.push(FieldError::invalid(&Path::new("message"), "", fault));
    }
}

fn validate_series(errors: &mut FieldErrors, event: &Value) {
    let series = child(event, "series");
    if series.is_null() {
        return;
    }
    let path = Path::new("series");
    if number(series, "count") < SERIES_COUNT_MIN {
        let fault = format!("should be at least {SERIES_COUNT_MIN}");
        errors.push(FieldError::invalid(&path.child("count"), "", fault));
    }
    if !is_set(series, "lastObservedTime") {
        errors.push(FieldError::required(&path.child("lastObservedTime"), ""));
    }
}
