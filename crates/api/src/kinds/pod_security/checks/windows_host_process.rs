//! Check of the baseline level: no container runs as a process of a Windows host.

use serde_json::Value;

use super::messages::format_setters;
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, flag_if_set};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let is_forbidden =
        |context: &Value| flag_if_set(child(context, "windowsOptions"), "hostProcess") == Some(true);
    let violating = pod.containers_where(is_forbidden);
    let setters = format_setters(is_forbidden(pod.security_context()), &violating)?;
    Violation::new(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}
