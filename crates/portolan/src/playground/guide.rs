//! Instructions that are printed once all examples respond.

use testbed::{Cluster, RunningEnclosure};

use super::components::Components;
use crate::output;

/// Returns the ID of this process on the host, while `/proc` is still that of the host.
pub(super) fn host_pid() -> Option<u32> {
    std::fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// Prints the instructions.
pub(super) fn print(cluster: &Cluster, components: &Components, host_pid: Option<u32>) {
    let inside = components.host_kubeconfig().display().to_string();
    let kubeconfig = host_pid.map_or_else(|| inside.clone(), |pid| RunningEnclosure { pid }.path(&inside));
    let node = cluster
        .topology
        .nodes
        .first()
        .map(|node| node.member.name.clone())
        .unwrap_or_default();
    let node_ip = cluster
        .topology
        .nodes
        .first()
        .map(|node| node.member.address.ipv4.to_string())
        .unwrap_or_default();
    output::print(&format!(
        "From another terminal:\n\n  \
         export KUBECONFIG={kubeconfig}\n  \
         kubectl get services,endpointslices,pods -o wide\n  \
         kubectl describe service my-service\n  \
         kubectl delete pod my-app-1          # and see the remaining endpoints:\n\n  \
         portolan playground exec outside -- curl -s http://{node_ip}:30007/\n  \
         portolan playground exec {node} -- dig +short my-service.default.svc.cluster.local @10.96.0.10\n  \
         portolan playground exec {node} -- nft list table inet portolan\n\n\
         Ctrl-C stops the playground and removes everything.\n"
    ));
}
