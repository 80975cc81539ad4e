//! Validation of the status of a Job (upstream's `ValidateJobUpdateStatus`, with the options that
//! `pkg/registry/batch/job/strategy.go` selects).
//!
//! Most rules apply only to fields that a write changes: a change of the spec may leave a status that violates them.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::success_policy::{count_indexes, parse_interval};
use crate::kinds::apps::validate_not_negative;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata;
use crate::machinery::tree::{child, flag_if_set, is_set, items, number, text, text_if_set, texts};

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
const UNCOUNTED: &str = "uncountedTerminatedPods";
const COMPLETED_INDEXES: &str = "completedIndexes";
const FAILED_INDEXES: &str = "failedIndexes";

/// Validates an update of the status.
pub fn validate_job_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let change = Change {
        new: View::of(new),
        old: View::of(old),
        path: Path::new("status"),
    };
    change.validate_counts(&mut errors);
    change.validate_end(&mut errors);
    change.validate_finished(&mut errors);
    change.validate_indexes(&mut errors);
    change.validate_running(&mut errors);
    change.validate_success_criteria(&mut errors);
    change.validate_transition(&mut errors);
    errors
}

/// View of a Job.
#[derive(Clone, Copy)]
struct View<'a> {
    spec: &'a Value,
    status: &'a Value,
}

impl<'a> View<'a> {
    fn of(job: &'a Value) -> Self {
        Self {
            spec: child(job, "spec"),
            status: child(job, "status"),
        }
    }

    /// Returns true if the condition is True.
    fn is(self, kind: &str) -> bool {
        let mut conditions = items(self.status, "conditions").iter();
        conditions.any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
    }

    fn is_finished(self) -> bool {
        self.is(COMPLETE) || self.is(FAILED)
    }

    fn is_indexed(self) -> bool {
        text(self.spec, "completionMode") == "Indexed"
    }

    fn time(self, field: &str) -> Option<jiff::Timestamp> {
        text(self.status, field).parse().ok()
    }
}

/// A change of the status of a Job.
struct Change<'a> {
    new: View<'a>,
    old: View<'a>,
    /// Path of the status.
    path: Path,
}

impl Change<'_> {
    fn changes_condition(&self, kind: &str) -> bool {
        self.new.is(kind) != self.old.is(kind)
    }

    fn changes_end(&self) -> bool {
        self.new.is_finished() != self.old.is_finished()
    }

    fn changes(&self, field: &str) -> bool {
        child(self.new.status, field) != child(self.old.status, field)
    }

    /// Returns true if a count changes. An absent count is zero.
    fn changes_count(&self, field: &str) -> bool {
        number(self.new.status, field) != number(self.old.status, field)
    }

    fn reject_conditions(&self, errors: &mut FieldErrors, fault: &str) {
        errors.push(FieldError::invalid_whole(&self.path.child("conditions"), fault));
    }

    fn reject(&self, errors: &mut FieldErrors, field: &str, fault: &str) {
        let value = child(self.new.status, field).clone();
        errors.push(FieldError::invalid(&self.path.child(field), value, fault));
    }

    fn validate_counts(&self, errors: &mut FieldErrors) {
        const COUNTS: [&str; 5] = ["active", "succeeded", "failed", "ready", "terminating"];
        validate_not_negative(errors, self.new.status, &COUNTS, &self.path);
        let path = self.path.child(UNCOUNTED);
        let mut seen = HashSet::new();
        for field in ["succeeded", "failed"] {
            let uids = texts(child(self.new.status, UNCOUNTED), field);
            for (index, uid) in uids.into_iter().enumerate() {
                let path = path.child(field).index(index);
                if uid.is_empty() {
                    errors.push(FieldError::invalid(&path, uid, "must not be empty"));
                } else if !seen.insert(uid) {
                    errors.push(FieldError::duplicate(&path, uid));
                }
            }
        }
    }

    /// Validates the conditions of the end against each other and against the time of the completion.
    fn validate_end(&self, errors: &mut FieldErrors) {
        let new = self.new;
        let (is_complete, is_failed) = (new.is(COMPLETE), new.is(FAILED));
        let (changes_complete, changes_failed) =
            (self.changes_condition(COMPLETE), self.changes_condition(FAILED));
        let changes_target = self.changes_condition(FAILURE_TARGET);
        if is_complete && is_failed && (changes_complete || changes_failed) {
            self.reject_conditions(errors, "cannot set Complete=True and Failed=true conditions");
        }
        if is_complete && new.is(FAILURE_TARGET) && (changes_complete || changes_target) {
            self.reject_conditions(
                errors,
                "cannot set Complete=True and FailureTarget=true conditions",
            );
        }
        self.validate_completion_time(errors, is_complete);
        if is_failed && !new.is(FAILURE_TARGET) && changes_failed {
            let fault = "cannot set Failed=True condition without the FailureTarget=true condition";
            self.reject_conditions(errors, fault);
        }
        if is_complete && !new.is(SUCCESS_CRITERIA_MET) && changes_complete {
            let fault = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            self.reject_conditions(errors, fault);
        }
    }

    fn validate_completion_time(&self, errors: &mut FieldErrors, is_complete: bool) {
        const FIELD: &str = "completionTime";
        let changes_time = self.changes(FIELD);
        if self.changes_condition(COMPLETE) || changes_time {
            match (is_complete, is_set(self.new.status, FIELD)) {
                (false, true) => {
                    let fault = "cannot set completionTime when there is no Complete=True condition";
                    self.reject(errors, FIELD, fault);
                }
                (true, false) => {
                    let detail = "completionTime is required for Complete jobs";
                    errors.push(FieldError::required(&self.path.child(FIELD), detail));
                }
                _ => {}
            }
        }
        if let (Some(start), Some(completion)) = (self.new.time("startTime"), self.new.time(FIELD))
            && completion < start
            && (changes_time || self.changes("startTime"))
        {
            self.reject(errors, FIELD, "must be equal to or after `startTime`");
        }
    }

    /// Validates the fields that a finished Job has, or has no longer.
    fn validate_finished(&self, errors: &mut FieldErrors) {
        let status = self.new.status;
        if !self.new.is_finished() {
            return;
        }
        let changes_end = self.changes_end();
        if number(status, "active") > 0 && (changes_end || self.changes_count("active")) {
            self.reject(errors, "active", "active>0 is invalid for finished job");
        }
        if !is_set(status, "startTime") && (changes_end || self.changes("startTime")) {
            let detail = "startTime is required for finished job";
            errors.push(FieldError::required(&self.path.child("startTime"), detail));
        }
        let uncounted = child(status, UNCOUNTED);
        let is_empty = items(uncounted, "succeeded").is_empty() && items(uncounted, "failed").is_empty();
        if !is_empty && (changes_end || self.changes(UNCOUNTED)) {
            self.reject(errors, UNCOUNTED, "must be empty for finished job");
        }
    }

    fn validate_indexes(&self, errors: &mut FieldErrors) {
        let (spec, status) = (self.new.spec, self.new.status);
        let completions = spec.get("completions").and_then(Value::as_i64);
        let completed = text(status, COMPLETED_INDEXES);
        let changes_completed = completed != text(self.old.status, COMPLETED_INDEXES);
        if changes_completed
            && let Some(completions) = completions
            && let Err(fault) = count_indexes(completed, completions)
        {
            let fault = format!("error parsing completedIndexes: {fault}");
            self.reject(errors, COMPLETED_INDEXES, &fault);
        }
        if changes_completed && !completed.is_empty() && !self.new.is_indexed() {
            let fault = "cannot set non-empty completedIndexes when non-indexed completion mode";
            self.reject(errors, COMPLETED_INDEXES, fault);
        }
        let failed = text_if_set(status, FAILED_INDEXES);
        let changes_failed = failed != text_if_set(self.old.status, FAILED_INDEXES);
        // No Job has `backoffLimitPerIndex`, because validation of the spec rejects it.
        if changes_failed && failed.is_some() {
            let fault = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            self.reject(errors, FAILED_INDEXES, fault);
        }
        if (changes_failed || changes_completed)
            && let (Some(completions), Some(failed)) = (completions, failed)
            && let Some(index) = first_common_index(completed, failed, completions)
        {
            let fault = format!("failedIndexes and completedIndexes overlap at index: {index}");
            self.reject(errors, FAILED_INDEXES, &fault);
        }
    }

    fn validate_running(&self, errors: &mut FieldErrors) {
        let status = self.new.status;
        let changes_terminating = self.changes_end() || self.changes_count("terminating");
        if number(status, "terminating") > 0 && self.new.is_finished() && changes_terminating {
            self.reject(errors, "terminating", "terminating>0 is invalid for finished job");
        }
        let changes_ready = self.changes_count("ready") || self.changes_count("active");
        if number(status, "ready") > number(status, "active") && is_set(status, "ready") && changes_ready {
            self.reject(errors, "ready", "cannot set more ready pods than active");
        }
    }

    fn validate_success_criteria(&self, errors: &mut FieldErrors) {
        let new = self.new;
        let is_met = new.is(SUCCESS_CRITERIA_MET);
        if is_met && new.is(FAILED) {
            self.reject_conditions(
                errors,
                "cannot set SuccessCriteriaMet=True and Failed=true conditions",
            );
        }
        if is_met && new.is(FAILURE_TARGET) {
            let fault = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
            self.reject_conditions(errors, fault);
        }
        if is_set(new.spec, "successPolicy") && !is_met && new.is(COMPLETE) {
            let fault = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            self.reject_conditions(errors, fault);
        }
    }

    /// Validates the new status against the old one: ends are final, and counts of ended Pods do not decrease.
    fn validate_transition(&self, errors: &mut FieldErrors) {
        let (new, old) = (self.new, self.old);
        for kind in [FAILED, COMPLETE, FAILURE_TARGET] {
            if old.is(kind) && !new.is(kind) {
                self.reject_conditions(
                    errors,
                    &format!("cannot disable the terminal {kind}=True condition"),
                );
            }
        }
        // Completions of an elastic Job, and with them its successes, decrease together with its parallelism.
        let is_elastic = new.is_indexed() && child(new.spec, "completions") == child(new.spec, "parallelism");
        for (field, may_decrease) in [("failed", false), ("succeeded", is_elastic)] {
            let count = number(new.status, field);
            if !may_decrease && count < number(old.status, field) {
                let fault = format!("cannot decrease the {field} counter");
                errors.push(FieldError::invalid(&self.path.child(field), count, fault));
            }
        }
        let has_both = |field| is_set(new.status, field) && is_set(old.status, field);
        if has_both("completionTime") && self.changes("completionTime") {
            self.reject(errors, "completionTime", "field is immutable");
        }
        let is_suspended = flag_if_set(new.spec, "suspend") == Some(true);
        if is_set(old.status, "startTime") && self.changes("startTime") && !is_suspended {
            let value = json!(text_if_set(new.status, "startTime"));
            let fault = "field is immutable for unsuspended job once set";
            errors.push(FieldError::invalid(&self.path.child("startTime"), value, fault));
        }
        let (was_met, is_met) = (old.is(SUCCESS_CRITERIA_MET), new.is(SUCCESS_CRITERIA_MET));
        if was_met && !is_met {
            self.reject_conditions(errors, "cannot disable the SuccessCriteriaMet=True condition");
        }
        if old.is(COMPLETE) && !was_met && is_met {
            let fault = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            self.reject_conditions(errors, fault);
        }
    }
}

/// Returns the first index that is in both lists. Invalid intervals are skipped: the validation of the form reports
/// them.
fn first_common_index(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |indexes: &str| -> Vec<(i64, i64)> {
        let parsed = indexes
            .split(',')
            .map(|interval| parse_interval(interval, completions));
        parsed.filter_map(Result::ok).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut of_completed, mut of_failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some(success), Some(failure)) = (of_completed.peek(), of_failed.peek()) {
        if success.0 <= failure.1 && failure.0 <= success.1 {
            return Some(success.0.max(failure.0));
        }
        if success.0 <= failure.0 {
            of_completed.next();
        } else {
            of_failed.next();
        }
    }
    None
}

#[cfg(test)]
mod tests;
