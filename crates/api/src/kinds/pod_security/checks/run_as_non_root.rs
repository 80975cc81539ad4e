//! Check of the restricted level: containers must run as a user other than root.

use super::messages::{format_containers, format_setters};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::flag_if_set;

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let pod_setting = flag_if_set(pod.security_context(), "runAsNonRoot");
    let explicit = pod.containers_where(|context| flag_if_set(context, "runAsNonRoot") == Some(false));
    if let Some(setters) = format_setters(pod_setting == Some(false), &explicit) {
        return Violation::new(
            REASON,
            format!("{setters} must not set securityContext.runAsNonRoot=false"),
        );
    }
    if pod_setting == Some(true) {
        return None;
    }
    let implicit = pod.containers_where(|context| flag_if_set(context, "runAsNonRoot").is_none());
    if implicit.is_empty() {
        return None;
    }
    let containers = format_containers(&implicit);
    Violation::new(
        REASON,
        format!("pod or {containers} must set securityContext.runAsNonRoot=true"),
    )
}

/// Check since 1.35: exempts Pods with a user namespace, in which root is not root on the node.
pub(super) fn check_without_user_namespace(pod: &PodView<'_>) -> Option<Violation> {
    if pod.has_user_namespace() {
        None
    } else {
        check(pod)
    }
}
