//! `/etc/hosts` of Pods (kubelet's `managedHostsFileContent`). Pure.

use std::net::IpAddr;

use crate::network::resolv_conf::{ClusterDns, fully_qualified};
use crate::object::Pod;

#[cfg(test)]
mod tests;

const LOOPBACK: &str = "127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    fe00::0\tip6-mcastprefix\n\
    fe00::1\tip6-allnodes\n\
    fe00::2\tip6-allrouters\n";

/// Returns the file of a Pod with these addresses. `host_file` is the file of the node, which a Pod in the host network
/// has with its own aliases.
pub(crate) fn for_pod(pod: &Pod, cluster: &ClusterDns, addresses: &[IpAddr], host_file: &str) -> String {
    let mut text = String::new();
    if pod.spec.host_network {
        text.push_str("# Kubernetes-managed hosts file (host network).\n");
        text.push_str(host_file);
    } else {
        text.push_str("# Kubernetes-managed hosts file.\n");
        text.push_str(LOOPBACK);
        let hostname = pod.hostname();
        let names = match fully_qualified(pod, cluster) {
            Some(name) => format!("{name}\t{hostname}"),
            None => hostname.to_owned(),
        };
        for address in addresses {
            text.push_str(&format!("{address}\t{names}\n"));
        }
    }
    if !pod.spec.host_aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
        for alias in &pod.spec.host_aliases {
            text.push_str(&format!("{}\t{}\n", alias.ip, alias.hostnames.join("\t")));
        }
    }
    text
}
