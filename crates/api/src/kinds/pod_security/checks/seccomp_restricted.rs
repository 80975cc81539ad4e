//! Check of the restricted level: a seccomp profile is set.

use super::messages::format_containers;
use super::seccomp_baseline::{check_fields, is_allowed, profile};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let explicit = check_fields(pod);
    if explicit.is_some() || profile(pod.security_context()).is_some_and(is_allowed) {
        return explicit;
    }
    let implicit = pod.containers_where(|context| profile(context).is_none());
    if implicit.is_empty() {
        return None;
    }
    let containers = format_containers(&implicit);
    Violation::new(
        "seccompProfile",
        format!(
            r#"pod or {containers} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#
        ),
    )
}

/// Check since 1.25: exempts Windows Pods, which have no seccomp.
pub(super) fn check_linux(pod: &PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
