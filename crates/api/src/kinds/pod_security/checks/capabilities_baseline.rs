//! Check of the baseline level: only default capabilities are added.

use std::collections::BTreeSet;

use super::messages::{format_containers, join_quoted};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, texts};

const ALLOWED: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    let violating = pod.containers_where(|context| {
        let added = texts(child(context, "capabilities"), "add");
        let added: Vec<&str> = added.into_iter().filter(|name| !ALLOWED.contains(name)).collect();
        forbidden.extend(&added);
        !added.is_empty()
    });
    if violating.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        format_containers(&violating),
        join_quoted(&forbidden)
    );
    Violation::new("non-default capabilities", detail)
}
