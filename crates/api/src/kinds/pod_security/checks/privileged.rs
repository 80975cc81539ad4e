//! Check of the baseline level: no container is privileged.

use super::messages::format_containers;
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::flag_if_set;

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let violating = pod.containers_where(|context| flag_if_set(context, "privileged") == Some(true));
    if violating.is_empty() {
        return None;
    }
    let containers = format_containers(&violating);
    Violation::new(
        "privileged",
        format!("{containers} must not set securityContext.privileged=true"),
    )
}
