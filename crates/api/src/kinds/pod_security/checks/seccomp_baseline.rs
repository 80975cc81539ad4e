//! Check of the baseline level: the seccomp profile, if set, filters system calls.

use std::collections::BTreeSet;

use serde_json::Value;

use super::messages::{format_setters, join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, is_set, text, text_if_set};

const POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Check before 1.19: the annotations that preceded the fields.
pub(super) fn check_annotations(pod: &PodView<'_>) -> Option<Violation> {
    let container_keys = pod
        .containers()
        .map(|container| format!("{CONTAINER_PREFIX}{}", text(container, "name")));
    let forbidden: BTreeSet<String> = std::iter::once(POD_ANNOTATION.to_owned())
        .chain(container_keys)
        .filter_map(|key| {
            let value = text_if_set(pod.annotations(), &key)?;
            (!is_allowed_annotation(value)).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let list: Vec<&str> = forbidden.iter().map(String::as_str).collect();
    let annotations = plural("annotation", "annotations", list.len());
    Violation::new(
        "seccompProfile",
        format!("forbidden {annotations} {}", list.join(", ")),
    )
}

pub(super) fn check_fields(pod: &PodView<'_>) -> Option<Violation> {
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    let mut is_forbidden = |context| match profile(context) {
        Some(profile) if !is_allowed(profile) => {
            forbidden.insert(profile);
            true
        }
        _ => false,
    };
    let is_pod_violating = is_forbidden(pod.security_context());
    let violating = pod.containers_where(is_forbidden);
    let setters = format_setters(is_pod_violating, &violating)?;
    let values = join_quoted(&forbidden);
    Violation::new(
        "seccompProfile",
        format!("{setters} must not set securityContext.seccompProfile.type to {values}"),
    )
}

/// Returns the profile type of a security context, if set.
pub(super) fn profile(context: &Value) -> Option<&str> {
    is_set(context, "seccompProfile").then(|| text(child(context, "seccompProfile"), "type"))
}

/// Returns true if profiles of this type filter system calls.
pub(super) fn is_allowed(profile: &str) -> bool {
    matches!(profile, "RuntimeDefault" | "Localhost")
}

fn is_allowed_annotation(value: &str) -> bool {
    matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
}
