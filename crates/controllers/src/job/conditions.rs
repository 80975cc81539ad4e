//! Conditions of a Job: its end, and its suspension.

use api::object::Job;
use api::tree::{items, text};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::workload::timestamp;

/// Reason of an end by the success policy.
const SUCCESS_POLICY: &str = "SuccessPolicy";
/// Reason of an end by the pod failure policy.
const POD_FAILURE_POLICY: &str = "PodFailurePolicy";

/// The end of a Job, with upstream's reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The completions are reached.
    Complete,
    /// A rule of `successPolicy` is met, with the message of the condition.
    SuccessPolicy(String),
    /// More Pods than `backoffLimit` have failed.
    BackoffLimitExceeded,
    /// The Job was active longer than `activeDeadlineSeconds`.
    DeadlineExceeded,
    /// A Pod met a rule FailJob of `podFailurePolicy`, with the message of the condition.
    PodFailurePolicy(String),
}

impl End {
    /// Returns the end by the success policy, whose rule at this position is met.
    pub(super) fn by_rule(position: usize) -> Self {
        Self::SuccessPolicy(format!("Matched rules at index {position}"))
    }

    /// Returns true if the Job succeeded.
    pub(super) fn is_success(&self) -> bool {
        matches!(self, Self::Complete | Self::SuccessPolicy(_))
    }

    /// Returns the type of the final condition.
    pub(super) fn kind(&self) -> &'static str {
        if self.is_success() { "Complete" } else { "Failed" }
    }

    /// Returns the type of the condition while Pods still run.
    fn interim_kind(&self) -> &'static str {
        if self.is_success() {
            "SuccessCriteriaMet"
        } else {
            "FailureTarget"
        }
    }

    /// Returns the reason of the condition and of the Event.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Complete => "CompletionsReached",
            Self::SuccessPolicy(_) => SUCCESS_POLICY,
            Self::BackoffLimitExceeded => "BackoffLimitExceeded",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::PodFailurePolicy(_) => POD_FAILURE_POLICY,
        }
    }

    /// Returns the message of the condition.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Complete => "Reached expected number of succeeded pods",
            Self::SuccessPolicy(message) | Self::PodFailurePolicy(message) => message,
            Self::BackoffLimitExceeded => "Job has reached the specified backoff limit",
            Self::DeadlineExceeded => "Job was active longer than specified deadline",
        }
    }

    /// Returns the end that the conditions record, final or interim.
    pub(super) fn recorded(job: &Job) -> Option<Self> {
        let conditions = items(&job.status, "conditions").iter();
        let mut conditions = conditions.filter(|condition| text(condition, "status") == "True");
        conditions.find_map(
            |condition| match (text(condition, "type"), text(condition, "reason")) {
                ("Complete" | "SuccessCriteriaMet", SUCCESS_POLICY) => {
                    Some(Self::SuccessPolicy(text(condition, "message").to_owned()))
                }
                ("Complete" | "SuccessCriteriaMet", _) => Some(Self::Complete),
                ("Failed" | "FailureTarget", POD_FAILURE_POLICY) => {
                    Some(Self::PodFailurePolicy(text(condition, "message").to_owned()))
                }
                ("Failed" | "FailureTarget", "DeadlineExceeded") => Some(Self::DeadlineExceeded),
                ("Failed" | "FailureTarget", _) => Some(Self::BackoffLimitExceeded),
                _ => None,
            },
        )
    }
}

/// Returns true if the condition is True.
pub(super) fn is_condition_true(conditions: &[Value], kind: &str) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
}

/// Returns the time of the final condition.
pub(super) fn finished_at(job: &Job) -> Option<Timestamp> {
    let mut conditions = items(&job.status, "conditions").iter();
    let last = conditions.find(|condition| {
        matches!(text(condition, "type"), "Complete" | "Failed") && text(condition, "status") == "True"
    })?;
    text(last, "lastTransitionTime").parse().ok()
}

/// Adds the conditions of the end of a Job to `conditions`. `is_final` states that no Pod of the Job runs.
pub(super) fn record_end(conditions: &mut Vec<Value>, end: &End, is_final: bool, now: Timestamp) {
    let kinds = [Some(end.interim_kind()), is_final.then_some(end.kind())];
    for kind in kinds.into_iter().flatten() {
        if !is_condition_true(conditions, kind) {
            conditions.push(condition(kind, "True", end.reason(), end.message(), now));
        }
    }
}

/// Sets the condition Suspended; a Job that was never suspended has none.
pub(super) fn record_suspension(conditions: &mut Vec<Value>, is_suspended: bool, now: Timestamp) {
    const SUSPENDED: &str = "Suspended";
    if is_condition_true(conditions, SUSPENDED) == is_suspended {
        return;
    }
    conditions.retain(|condition| text(condition, "type") != SUSPENDED);
    conditions.push(if is_suspended {
        condition(SUSPENDED, "True", "JobSuspended", "Job suspended", now)
    } else {
        condition(SUSPENDED, "False", "JobResumed", "Job resumed", now)
    });
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let time = timestamp(now);
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastProbeTime": time, "lastTransitionTime": time})
}
