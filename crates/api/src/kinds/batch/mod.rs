//! Rules of Jobs (`batch/v1`): defaults, preparation of writes, and validation, as upstream.

mod pod_failure_policy;
mod status;
mod success_policy;
mod suspended_template;
mod warnings;

use serde_json::{Map, Value, json};

use crate::kinds::apps;
use crate::kinds::apps::template::{self, TemplateRules};
use crate::kinds::apps::{begin_generation, complete, validate_not_negative};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::names;
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{
    child, entries, flag_if_set, is_set, number, object_mut, omit_zero, set, set_or_clear, text,
};

pub use status::validate_job_status_update;
pub use warnings::{job_creation_warnings, job_update_warnings};

/// API group of Jobs.
pub const GROUP: &str = "batch";
/// Label of Pods with the UID of their Job.
pub const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// Label of Pods with the name of their Job.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// Labels of earlier versions of Kubernetes, which are set as well.
const FORMER_LABELS: [(&str, &str); 2] = [
    ("controller-uid", CONTROLLER_UID_LABEL),
    ("job-name", JOB_NAME_LABEL),
];

const BACKOFF_LIMIT_DEFAULT: i64 = 6;
/// Upper bound of `parallelism` of an Indexed Job.
const INDEXED_PARALLELISM_MAX: i64 = 100_000;
/// Fields that no controller acts upon.
const NOT_SERVED: [&str; 3] = ["backoffLimitPerIndex", "maxFailedIndexes", "managedBy"];

const TEMPLATE_RULES: TemplateRules = TemplateRules {
    kind: "Job",
    restart_policies: &["OnFailure", "Never"],
    has_deadline: true,
};

/// Sets defaults and drops empty fields.
pub fn default_job_on_write(job: &mut Value) {
    let nullable = [
        "completions",
        "parallelism",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        "completionMode",
        "suspend",
        "selector",
        "manualSelector",
        "podReplacementPolicy",
        "successPolicy",
        pod_failure_policy::FIELD,
    ];
    complete(job, &nullable, &[]);
    apps::complete_conditions(job, &["lastProbeTime"]);
    let fields = object_mut(job, "spec");
    let replacement = match fields.get_mut(pod_failure_policy::FIELD) {
        Some(policy) => {
            pod_failure_policy::default_on_write(policy);
            "Failed"
        }
        None => "TerminatingOrFailed",
    };
    if !fields.contains_key("completions") && !fields.contains_key("parallelism") {
        fields.insert("completions".to_owned(), json!(1));
    }
    for (field, default) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(BACKOFF_LIMIT_DEFAULT)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!(replacement)),
        ("manualSelector", json!(false)),
    ] {
        fields.entry(field).or_insert(default);
    }
    let labels = default_labels(job);
    object_mut(job, "metadata");
    if let Some(metadata) = job.get_mut("metadata") {
        omit_zero(metadata, &["labels"]);
        if !is_set(metadata, "labels") {
            set_or_clear(metadata, "labels", labels);
        }
    }
}

/// Returns the labels of a Job without labels: those of its template. As upstream, they have the labels that identify the
/// Job, although these are added to the template later. A Job whose template has no labels has these only.
fn default_labels(job: &Value) -> Option<Value> {
    let (metadata, spec) = (child(job, "metadata"), child(job, "spec"));
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    let mut labels = labels.as_object().cloned().unwrap_or_default();
    let (uid, name) = (text(metadata, "uid"), text(metadata, "name"));
    if flag_if_set(spec, "manualSelector") != Some(true) && !uid.is_empty() {
        add_identity(&mut labels, uid, name);
    }
    (!labels.is_empty()).then_some(Value::Object(labels))
}

/// Adds the labels that identify the Pods of a Job.
fn add_identity(labels: &mut Map<String, Value>, uid: &str, name: &str) {
    labels.insert(CONTROLLER_UID_LABEL.to_owned(), json!(uid));
    labels.insert(JOB_NAME_LABEL.to_owned(), json!(name));
    for (former, label) in FORMER_LABELS {
        let value = labels[label].clone();
        labels.insert(former.to_owned(), value);
    }
}

/// Prepares a new Job: the status is empty, and the UID of the Job selects its Pods.
pub fn prepare_job_create(job: &mut Value) {
    set(job, "status", json!({}));
    if flag_if_set(child(job, "spec"), "manualSelector") == Some(true) {
        return;
    }
    let metadata = child(job, "metadata");
    let (uid, name) = (
        text(metadata, "uid").to_owned(),
        text(metadata, "name").to_owned(),
    );
    object_mut(job, "spec");
    let Some(spec) = job.get_mut("spec") else { return };
    object_mut(spec, "template");
    let Some(template) = spec.get_mut("template") else {
        return;
    };
    object_mut(template, "metadata");
    if let Some(metadata) = template.get_mut("metadata") {
        add_identity(object_mut(metadata, "labels"), &uid, &name);
    }
    let selector = object_mut(spec, "selector");
    let labels = selector.entry("matchLabels").or_insert(json!({}));
    set(labels, CONTROLLER_UID_LABEL, uid);
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_job_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    if child(new, "spec") != child(old, "spec") {
        begin_generation(new, old);
    }
}

/// Validates a new Job.
pub fn validate_job(job: &Value) -> FieldErrors {
    let mut errors = metadata::validate(job, NameForm::DnsSubdomain, true);
    validate_generated_selector(&mut errors, job);
    validate_spec(&mut errors, child(job, "spec"));
    validate_hostnames(&mut errors, job);
    errors
}

/// Checks that the hostnames of an Indexed Job's Pods, which end with the index, are DNS labels.
fn validate_hostnames(errors: &mut FieldErrors, job: &Value) {
    let spec = child(job, "spec");
    let completions = number(spec, "completions");
    if text(spec, "completionMode") != "Indexed" || completions < 1 {
        return;
    }
    let name = text(child(job, "metadata"), "name");
    let last = format!("{name}-{}", completions - 1);
    if !names::dns_label(&last).is_empty() {
        let path = Path::new("metadata").child("name");
        let fault = format!("will not able to create pod with invalid DNS label: {last}");
        errors.push(FieldError::invalid(&path, name, fault));
    }
}

/// Checks that the selector is the one that the server creates, unless the client manages it (upstream's
/// `validateGeneratedSelector`).
fn validate_generated_selector(errors: &mut FieldErrors, job: &Value) {
    let spec = child(job, "spec");
    if flag_if_set(spec, "manualSelector") == Some(true) || !is_set(spec, "selector") {
        return;
    }
    let selector = child(spec, "selector");
    let uid = text(child(job, "metadata"), "uid");
    let has_expressions = is_set(selector, "matchExpressions");
    let mut labels = entries(selector, "matchLabels");
    let is_generated = !has_expressions
        && matches!(labels.next(), Some((CONTROLLER_UID_LABEL, value)) if value == uid)
        && labels.next().is_none();
    if !is_generated {
        let path = Path::new("spec").child("selector");
        errors.push(FieldError::invalid(
            &path,
            selector.clone(),
            "`selector` not auto-generated",
        ));
    }
}

/// Validates an update. Selector and completions are immutable; parts of the template are unless the Job is suspended.
pub fn validate_job_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    // An object of an earlier version may lack defaults, or have empty lists.
    let mut old = old.clone();
    default_job_on_write(&mut old);
    let (new_spec, old_spec) = (child(new, "spec"), child(&old, "spec"));
    validate_generated_selector(&mut errors, new);
    validate_spec(&mut errors, new_spec);
    let is_resizable = text(new_spec, "completionMode") == "Indexed"
        && number(new_spec, "completions") == number(new_spec, "parallelism");
    let path = Path::new("spec");
    validate_template_update(&mut errors, new_spec, &old, &path);
    for (field, is_mutable) in [
        ("completions", is_resizable),
        ("selector", false),
        ("completionMode", false),
        ("successPolicy", false),
        (pod_failure_policy::FIELD, false),
    ] {
        let (new, old) = (child(new_spec, field), child(old_spec, field));
        if !is_mutable && new != old {
            errors.push(FieldError::invalid(
                &path.child(field),
                new.clone(),
                "field is immutable",
            ));
        }
    }
    errors
}

/// Validates a change of the template. As upstream, the error of a suspended Job names the spec of the template.
fn validate_template_update(errors: &mut FieldErrors, new_spec: &Value, old: &Value, path: &Path) {
    let template = child(new_spec, "template");
    let before = child(child(old, "spec"), "template");
    if template == before {
        return;
    }
    let mut path = path.child("template");
    if suspended_template::is_adjustable(old) {
        if *template == suspended_template::adjusted_template(before, template) {
            return;
        }
        path = path.child("spec");
    }
    errors.push(FieldError::invalid(&path, template.clone(), "field is immutable"));
}

/// Validates the spec of a Job.
fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    let fields = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ];
    validate_not_negative(errors, spec, &fields, &path);
    for field in NOT_SERVED {
        if is_set(spec, field) {
            errors.push(FieldError::forbidden(&path.child(field), "is not served"));
        }
    }
    validate_mode(errors, spec, &path);
    pod_failure_policy::validate(errors, spec, &path);
    success_policy::validate(errors, spec, &path);
    let has_failure_policy = is_set(spec, pod_failure_policy::FIELD);
    let policies: &[&str] = if has_failure_policy {
        &["Failed"]
    } else {
        &["TerminatingOrFailed", "Failed"]
    };
    let policy = text(spec, "podReplacementPolicy");
    if !policies.contains(&policy) {
        let path = path.child("podReplacementPolicy");
        errors.push(FieldError::not_supported(&path, policy, policies));
    }
    let at = path.child("selector");
    if !is_set(spec, "selector") {
        errors.push(FieldError::required(&at, ""));
        template::reject_labels(errors, child(spec, "template"), &path.child("template"));
    }
    match LabelSelector::from_object(&at, child(spec, "selector")) {
        Ok(selector) => template::validate(
            errors,
            child(spec, "template"),
            &selector,
            &path.child("template"),
            &TEMPLATE_RULES,
        ),
        Err(faults) => errors.extend(faults),
    }
    let restarts = text(child(child(spec, "template"), "spec"), "restartPolicy");
    if has_failure_policy && restarts == "OnFailure" {
        let path = path.child("template").child("spec").child("restartPolicy");
        let fault = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.push(FieldError::invalid(&path, restarts, fault));
    }
}

fn validate_mode(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let modes = ["NonIndexed", "Indexed"];
    let mode = text(spec, "completionMode");
    if !modes.contains(&mode) {
        let path = path.child("completionMode");
        errors.push(FieldError::not_supported(&path, mode, &modes));
    }
    if mode != "Indexed" {
        return;
    }
    if !is_set(spec, "completions") {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(&path.child("completions"), detail));
    }
    let parallelism = number(spec, "parallelism");
    if parallelism > INDEXED_PARALLELISM_MAX {
        let fault = format!(
            "must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
        );
        errors.push(FieldError::invalid(
            &path.child("parallelism"),
            parallelism,
            fault,
        ));
    }
}

#[cfg(test)]
mod tests;
