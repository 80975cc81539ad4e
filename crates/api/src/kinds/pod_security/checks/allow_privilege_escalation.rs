//! Check of the restricted level: privilege escalation, such as by set-user-ID files, is disabled.

use super::messages::format_containers;
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::flag_if_set;

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let violating =
        pod.containers_where(|context| flag_if_set(context, "allowPrivilegeEscalation") != Some(false));
    if violating.is_empty() {
        return None;
    }
    let containers = format_containers(&violating);
    Violation::new(
        "allowPrivilegeEscalation != false",
        format!("{containers} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

/// Check since 1.25: exempts Windows Pods, which do not have the field.
pub(super) fn check_linux(pod: &PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
