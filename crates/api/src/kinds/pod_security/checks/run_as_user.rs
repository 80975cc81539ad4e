//! Check of the restricted level: containers do not request the user root.

use serde_json::Value;

use super::messages::format_setters;
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{is_set, number};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let is_root = |context: &Value| is_set(context, "runAsUser") && number(context, "runAsUser") == 0;
    let violating = pod.containers_where(is_root);
    let setters = format_setters(is_root(pod.security_context()), &violating)?;
    Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

/// Check since 1.35: exempts Pods with a user namespace, in which root is not root on the node.
pub(super) fn check_without_user_namespace(pod: &PodView<'_>) -> Option<Violation> {
    if pod.has_user_namespace() {
        None
    } else {
        check(pod)
    }
}
