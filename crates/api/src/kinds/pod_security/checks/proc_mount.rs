//! The masks over `/proc` stay.

use std::collections::BTreeSet;

use super::wording::{containers, join_quoted};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::text_if_set;

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    let bad = pod.containers_where(|context| match text_if_set(context, "procMount") {
        None | Some("Default") => false,
        Some(other) => {
            forbidden.insert(other);
            true
        }
    });
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        containers(&bad),
        join_quoted(&forbidden)
    );
    Violation::new("procMount", detail)
}

/// The same; in a user namespace of its own a Pod sees nothing through `/proc` that it may not.
pub(super) fn check_without_user_namespace(pod: &PodView<'_>) -> Option<Violation> {
    match pod.has_user_namespace() {
        true => None,
        false => check(pod),
    }
}
