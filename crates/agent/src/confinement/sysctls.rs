//! Sysctls of Pods (kubelet's `pkg/kubelet/sysctl`). A Pod may set only sysctls that apply to its namespaces and cannot
//! harm the node.

use std::collections::BTreeMap;

use crate::object::{PodSpec, Sysctl};

#[cfg(test)]
mod tests;

/// Safe sysctls (upstream's `safeSysctls`).
const SAFE: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Sysctl that a Pod on this node cannot have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("forbidden sysctl: {name:?} not allowlisted")]
pub(crate) struct ForbiddenSysctl {
    name: String,
}

/// Returns the sysctls of a Pod by name, with dots.
///
/// # Errors
/// [`ForbiddenSysctl`] for the first one that is not safe, or not of a namespace of the Pod.
pub(crate) fn of_pod(spec: &PodSpec) -> Result<BTreeMap<String, String>, ForbiddenSysctl> {
    let permitted = |Sysctl { name, value }: &Sysctl| {
        let dotted = name.replace('/', ".");
        let is_of_host = if dotted.starts_with("net.") {
            spec.host_network
        } else {
            spec.host_ipc
        };
        if !SAFE.contains(&dotted.as_str()) || is_of_host {
            return Err(ForbiddenSysctl { name: name.clone() });
        }
        Ok((dotted, value.clone()))
    };
    spec.security_context.sysctls.iter().map(permitted).collect()
}
