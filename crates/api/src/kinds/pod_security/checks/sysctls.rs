//! Check of the baseline level: only namespaced, safe sysctls are set.

use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{items, text};

/// Safe sysctls. Each version's additions follow those of earlier versions.
const SAFE: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    // 1.27
    "net.ipv4.ip_local_reserved_ports",
    // 1.29
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    // 1.32
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    check_against(pod, &SAFE[..5])
}

pub(super) fn check_1_27(pod: &PodView<'_>) -> Option<Violation> {
    check_against(pod, &SAFE[..6])
}

pub(super) fn check_1_29(pod: &PodView<'_>) -> Option<Violation> {
    check_against(pod, &SAFE[..10])
}

pub(super) fn check_1_32(pod: &PodView<'_>) -> Option<Violation> {
    check_against(pod, &SAFE)
}

fn check_against(pod: &PodView<'_>, safe: &[&str]) -> Option<Violation> {
    let forbidden: Vec<&str> = items(pod.security_context(), "sysctls")
        .iter()
        .map(|sysctl| text(sysctl, "name"))
        .filter(|name| !safe.contains(name))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    Violation::new("forbidden sysctls", forbidden.join(", "))
}
