//! Checks of a level and version, and their results.

use super::checks::CHECKS;
use super::level::{Level, LevelVersion, Version};
use super::pod::PodView;

/// One check with its revisions, as upstream's registry has it.
pub(super) struct Check {
    /// Upstream's name. Violations are listed in the order of levels, then of these names.
    pub(super) id: &'static str,
    /// The first level that the check belongs to.
    pub(super) level: Level,
    /// Ascending by version; the newest one that is not newer than the policy applies.
    pub(super) revisions: &'static [Revision],
}

/// A check as it is from some version on.
pub(super) struct Revision {
    /// `N` of the version `v1.N` that brought it.
    pub(super) since_minor: u64,
    pub(super) run: fn(&PodView<'_>) -> Option<Violation>,
    /// Baseline checks that do not apply beside this one.
    pub(super) overrides: &'static [&'static str],
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In short: `privileged`.
    pub reason: String,
    /// Containers or values; "" if the reason is complete.
    pub detail: String,
}

impl Violation {
    pub(super) fn new(reason: impl Into<String>, detail: String) -> Option<Self> {
        Some(Self {
            reason: reason.into(),
            detail,
        })
    }
}

/// Results of all checks of a policy, in upstream's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// None if the Pod complies.
    pub violations: Vec<Violation>,
}

impl Evaluation {
    /// Returns true if the Pod complies.
    pub fn is_allowed(&self) -> bool {
        self.violations.is_empty()
    }

    /// The reasons alone: `hostPort, privileged`.
    pub fn reasons(&self) -> String {
        let reasons: Vec<&str> = self
            .violations
            .iter()
            .map(|violation| violation.reason.as_str())
            .collect();
        reasons.join(", ")
    }

    /// The reasons, each with its detail: `hostPort (container "a" uses hostPort 80), privileged (…)`.
    pub fn details(&self) -> String {
        let details: Vec<String> = self
            .violations
            .iter()
            .map(|violation| match violation.detail.as_str() {
                "" => violation.reason.clone(),
                detail => format!("{} ({detail})", violation.reason),
            })
            .collect();
        details.join(", ")
    }
}

/// Checks a Pod against a level of the standards.
pub fn evaluate(policy: LevelVersion, pod: &PodView<'_>) -> Evaluation {
    if policy.level == Level::Privileged {
        return Evaluation::default();
    }
    let minor = match policy.version {
        Version::Minor(minor) => minor,
        Version::Latest => u64::MAX,
    };
    let applying: Vec<(&Check, &Revision)> = CHECKS
        .iter()
        .filter(|check| check.level <= policy.level)
        .filter_map(|check| Some((check, check.revision_at(minor)?)))
        .collect();
    let is_overridden = |id: &str| {
        applying
            .iter()
            .any(|(_, revision)| revision.overrides.contains(&id))
    };
    let violations = applying
        .iter()
        .filter(|(check, _)| !is_overridden(check.id))
        .filter_map(|(_, revision)| (revision.run)(pod))
        .collect();
    Evaluation { violations }
}

impl Check {
    fn revision_at(&self, minor: u64) -> Option<&Revision> {
        self.revisions
            .iter()
            .rev()
            .find(|revision| revision.since_minor <= minor)
    }
}
