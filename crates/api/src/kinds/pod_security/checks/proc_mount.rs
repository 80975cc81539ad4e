//! Check of the baseline level: the masked paths in `/proc` stay masked.

use std::collections::BTreeSet;

use super::messages::{format_containers, join_quoted};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::text_if_set;

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    let violating = pod.containers_where(|context| match text_if_set(context, "procMount") {
        None | Some("Default") => false,
        Some(other) => {
            forbidden.insert(other);
            true
        }
    });
    if violating.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        format_containers(&violating),
        join_quoted(&forbidden)
    );
    Violation::new("procMount", detail)
}

/// Check since 1.35: exempts Pods with a user namespace, for which unmasked paths are harmless.
pub(super) fn check_without_user_namespace(pod: &PodView<'_>) -> Option<Violation> {
    if pod.has_user_namespace() {
        None
    } else {
        check(pod)
    }
}
