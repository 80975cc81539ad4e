//! The policy of a Namespace, as its labels state it.

use serde_json::Value;

use super::PREFIX;
use super::level::{Level, LevelVersion, Version};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, text_if_set};

/// Policy of a Namespace in each mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Violations are refused.
    pub enforce: LevelVersion,
    /// Violations are annotated in the audit event.
    pub audit: LevelVersion,
    /// Violations are told to the client as warnings.
    pub warn: LevelVersion,
}

impl Policy {
    /// No restrictions in any mode: upstream's defaults.
    pub const PRIVILEGED: Self = Self {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };
}

/// The policy that the labels of `namespace` ask for, with `defaults` for labels that are missing, and the faults of the
/// labels.
///
/// A policy results in any case: an enforce level that cannot be read counts as `restricted`, a level of the other modes as
/// `privileged`, and a version as `latest` (upstream's `PolicyToEvaluate`).
pub fn policy_of_labels(namespace: &Value, defaults: Policy) -> (Policy, FieldErrors) {
    let labels = child(child(namespace, "metadata"), "labels");
    let mut errors = FieldErrors::new();
    let policy = Policy {
        enforce: mode(
            labels,
            "enforce",
            defaults.enforce,
            Level::Restricted,
            &mut errors,
        ),
        audit: mode(labels, "audit", defaults.audit, Level::Privileged, &mut errors),
        warn: mode(labels, "warn", defaults.warn, Level::Privileged, &mut errors),
    };
    (policy, errors)
}

fn mode(
    labels: &Value,
    name: &str,
    default: LevelVersion,
    unreadable: Level,
    errors: &mut FieldErrors,
) -> LevelVersion {
    let mut result = default;
    let label = format!("{PREFIX}{name}");
    if let Some(text) = text_if_set(labels, &label) {
        result.level = Level::parse(text).unwrap_or_else(|detail| {
            errors.push(invalid(&label, text, detail));
            unreadable
        });
    }
    let label = format!("{label}-version");
    if let Some(text) = text_if_set(labels, &label) {
        result.version = Version::parse(text).unwrap_or_else(|detail| {
            errors.push(invalid(&label, text, detail));
            Version::Latest
        });
    }
    result
}

fn invalid(label: &str, value: &str, detail: &str) -> FieldError {
    let path = Path::new("metadata").child("labels").key(label);
    FieldError::invalid(&path, value, detail)
}
