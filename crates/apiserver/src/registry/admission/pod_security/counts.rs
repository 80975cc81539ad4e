//! Counters of PodSecurity, with upstream's labels.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::pod_security::{Evaluation, Level, LevelVersion, Version};

use super::WriteAttempt;

/// Minor version of the newest rules; later versions are counted as `future`.
const MINOR: u64 = 36;

/// The outcome of an evaluation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Decision {
    Allow,
    Deny,
}

/// The mode that an evaluation is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    Audit,
    Enforce,
    Warn,
}

/// Labels of the counted request: operation and resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestLabels {
    operation: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

/// Labels of a counted evaluation. They have few values each, so the number of counters is bounded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvaluationLabels {
    decision: Decision,
    level: Level,
    version: CountedVersion,
    mode: Mode,
    request: RequestLabels,
}

/// Version of a policy, as a label of metrics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CountedVersion {
    Minor(u64),
    Latest,
    Future,
}

/// Numbers since the start.
#[derive(Default)]
struct Totals {
    evaluations: BTreeMap<EvaluationLabels, u64>,
    exemptions: BTreeMap<RequestLabels, u64>,
    /// Errors by `fatal` (the error prevented the evaluation) and request.
    errors: BTreeMap<(bool, RequestLabels), u64>,
}

/// The counters of the plugin.
#[derive(Default)]
pub(crate) struct Counts {
    totals: Mutex<Totals>,
}

/// A sample of a metric: its labels and its value.
pub(crate) type Sample = (String, u64);

impl Counts {
    /// Counts an evaluation.
    pub(super) fn count_evaluation(
        &self,
        decision: Decision,
        policy: LevelVersion,
        mode: Mode,
        request: RequestLabels,
    ) {
        let labels = EvaluationLabels {
            decision,
            level: policy.level,
            version: CountedVersion::of(policy),
            mode,
            request,
        };
        *self.lock().evaluations.entry(labels).or_default() += 1;
    }

    pub(super) fn count_exemption(&self, request: RequestLabels) {
        *self.lock().exemptions.entry(request).or_default() += 1;
    }

    pub(super) fn count_error(&self, is_fatal: bool, request: RequestLabels) {
        *self.lock().errors.entry((is_fatal, request)).or_default() += 1;
    }

    /// Returns the samples of `pod_security_evaluations_total`.
    pub(crate) fn evaluations(&self) -> Vec<Sample> {
        let totals = self.lock();
        let samples = totals.evaluations.iter();
        samples
            .map(|(labels, count)| (labels.to_text(), *count))
            .collect()
    }

    /// Returns the samples of `pod_security_exemptions_total`.
    pub(crate) fn exemptions(&self) -> Vec<Sample> {
        let totals = self.lock();
        let samples = totals.exemptions.iter();
        samples
            .map(|(request, count)| (request.to_text(), *count))
            .collect()
    }

    /// Returns the samples of `pod_security_errors_total`.
    pub(crate) fn errors(&self) -> Vec<Sample> {
        let totals = self.lock();
        let samples = totals.errors.iter();
        samples
            .map(|((is_fatal, request), count)| {
                (format!("fatal=\"{is_fatal}\",{}", request.to_text()), *count)
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decision {
    pub(super) fn of(evaluation: &Evaluation) -> Decision {
        if evaluation.is_allowed() {
            Decision::Allow
        } else {
            Decision::Deny
        }
    }
}

impl RequestLabels {
    pub(super) fn of(attempt: &WriteAttempt<'_>) -> RequestLabels {
        RequestLabels {
            operation: match attempt.stored {
                None => "create",
                Some(_) => "update",
            },
            resource: match attempt.target.kind.kind {
                "Pod" => "pod",
                _ => "controller",
            },
            subresource: attempt.target.subresource.unwrap_or_default(),
        }
    }

    fn to_text(self) -> String {
        let RequestLabels {
            operation,
            resource,
            subresource,
        } = self;
        format!("request_operation=\"{operation}\",resource=\"{resource}\",subresource=\"{subresource}\"")
    }
}

impl CountedVersion {
    fn of(policy: LevelVersion) -> CountedVersion {
        match policy.version {
            // The privileged level is the same in all versions.
            _ if policy.level == Level::Privileged => CountedVersion::Latest,
            Version::Latest => CountedVersion::Latest,
            Version::Minor(minor) if minor > MINOR => CountedVersion::Future,
            Version::Minor(minor) => CountedVersion::Minor(minor),
        }
    }
}

impl EvaluationLabels {
    fn to_text(self) -> String {
        let decision = match self.decision {
            Decision::Allow => "allow",
            Decision::Deny => "deny",
        };
        let mode = match self.mode {
            Mode::Audit => "audit",
            Mode::Enforce => "enforce",
            Mode::Warn => "warn",
        };
        let version = match self.version {
            CountedVersion::Minor(minor) => format!("v1.{minor}"),
            CountedVersion::Latest => "latest".to_owned(),
            CountedVersion::Future => "future".to_owned(),
        };
        format!(
            "decision=\"{decision}\",mode=\"{mode}\",policy_level=\"{}\",policy_version=\"{version}\",{}",
            self.level,
            self.request.to_text()
        )
    }
}
