//! Evaluation of Pods against a level and version.

use super::checks::CHECKS;
use super::level::{Level, LevelVersion, Version};
use super::pod::PodView;

/// A check with its revisions, as in upstream's registry.
pub(super) struct Check {
    /// Upstream's ID. Violations are listed by level, then by ID.
    pub(super) id: &'static str,
    /// Lowest level that includes the check.
    pub(super) level: Level,
    /// Revisions in ascending order; the newest one that is not newer than the policy applies.
    pub(super) revisions: &'static [Revision],
}

/// Revision of a check.
pub(super) struct Revision {
    /// Minor version `N` of `v1.N` since which the revision applies.
    pub(super) since_minor: u64,
    pub(super) run: fn(&PodView<'_>) -> Option<Violation>,
    /// Baseline checks that this revision replaces.
    pub(super) overrides: &'static [&'static str],
}

/// Violation of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Short reason, for example `privileged`.
    pub reason: String,
    /// Containers or values; "" if the reason is sufficient.
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

/// Violations of a policy, in upstream's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// Violations; empty if the Pod complies.
    pub violations: Vec<Violation>,
}

impl Evaluation {
    /// Returns true if the Pod complies.
    pub fn is_allowed(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns the reasons only: `hostPort, privileged`.
    pub fn reasons(&self) -> String {
        let reasons: Vec<&str> = self
            .violations
            .iter()
            .map(|violation| violation.reason.as_str())
            .collect();
        reasons.join(", ")
    }

    /// Returns reasons with details: `hostPort (container "a" uses hostPort 80), privileged (…)`.
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

/// Evaluates a Pod against a level and version.
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
