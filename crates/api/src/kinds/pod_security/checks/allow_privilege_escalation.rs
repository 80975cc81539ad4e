//! Privilege escalation, such as by set-user-ID files, is switched off.

use super::wording::containers;
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::flag_if_set;

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let bad = pod.containers_where(|context| flag_if_set(context, "allowPrivilegeEscalation") != Some(false));
    if bad.is_empty() {
        return None;
    }
    let containers = containers(&bad);
    Violation::new(
        "allowPrivilegeEscalation != false",
        format!("{containers} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

/// The same; the field does not exist for Pods of Windows.
pub(super) fn check_linux(pod: &PodView<'_>) -> Option<Violation> {
    match pod.is_windows() {
        true => None,
        false => check(pod),
    }
}
