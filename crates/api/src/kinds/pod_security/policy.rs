//! The policy of a Namespace, from its labels.

use serde_json::Value;

use super::PREFIX;
use super::level::{Level, LevelVersion, Version};
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, text_if_set};

/// Policy of a Namespace, in each mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Level whose violations are rejected.
    pub enforce: LevelVersion,
    /// Level whose violations are annotated in the audit event.
    pub audit: LevelVersion,
    /// Level whose violations cause warnings.
    pub warn: LevelVersion,
}

impl Policy {
    /// Unrestricted in all modes: upstream's defaults.
    pub const PRIVILEGED: Self = Self {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };
}

/// Returns the policy in the labels of `namespace`, with `defaults` for missing labels, and the errors of invalid
/// labels.
///
/// Always returns a policy. An invalid enforce level counts as `restricted`, and an invalid level of the other modes
/// as `privileged`. An invalid version counts as `latest` (upstream's `PolicyToEvaluate`).
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
    fallback: Level,
    errors: &mut FieldErrors,
) -> LevelVersion {
    let mut result = default;
    let label = format!("{PREFIX}{name}");
    if let Some(text) = text_if_set(labels, &label) {
        result.level = Level::parse(text).unwrap_or_else(|detail| {
            errors.push(invalid(&label, text, detail));
            fallback
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
