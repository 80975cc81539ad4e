//! Containers do not ask for the user root.

use serde_json::Value;

use super::wording::setters;
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{is_set, number};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let is_root = |context: &Value| is_set(context, "runAsUser") && number(context, "runAsUser") == 0;
    let bad = pod.containers_where(is_root);
    let setters = setters(is_root(pod.security_context()), &bad)?;
    Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

/// The same; root in a user namespace of the Pod's own is not root on the node.
pub(super) fn check_without_user_namespace(pod: &PodView<'_>) -> Option<Violation> {
    match pod.has_user_namespace() {
        true => None,
        false => check(pod),
    }
}
