//! Counters of PodSecurity, with upstream's labels.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::pod_security::{Evaluation, Level, LevelVersion, Version};

use super::Attempt;

/// The minor version of Kubernetes that this server has the rules of; later versions are counted as `future`.
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

/// The request that is counted: its operation and resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Occasion {
    operation: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

/// An evaluation that is counted. Labels have few values each, so the counters are bounded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Evaluated {
    decision: Decision,
    level: Level,
    version: CountedVersion,
    mode: Mode,
    occasion: Occasion,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CountedVersion {
    Minor(u64),
    Latest,
    Future,
}

#[derive(Default)]
struct Totals {
    evaluations: BTreeMap<Evaluated, u64>,
    exemptions: BTreeMap<Occasion, u64>,
    /// By whether the error prevented the evaluation.
    errors: BTreeMap<(bool, Occasion), u64>,
}

/// The counters.
#[derive(Default)]
pub(crate) struct Counts {
    totals: Mutex<Totals>,
}

/// One value of a metric: its labels and its count.
pub(crate) type Sample = (String, u64);

impl Counts {
    pub(super) fn evaluated(&self, decision: Decision, policy: LevelVersion, mode: Mode, occasion: Occasion) {
        let evaluated = Evaluated {
            decision,
            level: policy.level,
            version: CountedVersion::of(policy),
            mode,
            occasion,
        };
        *self.lock().evaluations.entry(evaluated).or_default() += 1;
    }

    pub(super) fn exempted(&self, occasion: Occasion) {
        *self.lock().exemptions.entry(occasion).or_default() += 1;
    }

    pub(super) fn failed(&self, is_fatal: bool, occasion: Occasion) {
        *self.lock().errors.entry((is_fatal, occasion)).or_default() += 1;
    }

    /// The values of `pod_security_evaluations_total`.
    pub(crate) fn evaluations(&self) -> Vec<Sample> {
        let totals = self.lock();
        let samples = totals.evaluations.iter();
        samples
            .map(|(evaluated, count)| (evaluated.labels(), *count))
            .collect()
    }

    /// The values of `pod_security_exemptions_total`.
    pub(crate) fn exemptions(&self) -> Vec<Sample> {
        let totals = self.lock();
        let samples = totals.exemptions.iter();
        samples
            .map(|(occasion, count)| (occasion.labels(), *count))
            .collect()
    }

    /// The values of `pod_security_errors_total`.
    pub(crate) fn errors(&self) -> Vec<Sample> {
        let totals = self.lock();
        let samples = totals.errors.iter();
        samples
            .map(|((is_fatal, occasion), count)| {
                (format!("fatal=\"{is_fatal}\",{}", occasion.labels()), *count)
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decision {
    pub(super) fn of(evaluation: &Evaluation) -> Decision {
        match evaluation.is_allowed() {
            true => Decision::Allow,
            false => Decision::Deny,
        }
    }
}

impl Occasion {
    pub(super) fn of(attempt: &Attempt<'_>) -> Occasion {
        Occasion {
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

    fn labels(&self) -> String {
        let Occasion {
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
            // Privileged is the same at every version.
            _ if policy.level == Level::Privileged => CountedVersion::Latest,
            Version::Latest => CountedVersion::Latest,
            Version::Minor(minor) if minor > MINOR => CountedVersion::Future,
            Version::Minor(minor) => CountedVersion::Minor(minor),
        }
    }
}

impl Evaluated {
    fn labels(&self) -> String {
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
            self.occasion.labels()
        )
    }
}
