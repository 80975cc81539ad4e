//! What to do with a playground: printed once all examples answered.

use testbed::{Cluster, Running};

use super::components::Components;

/// This process's number on the host: `/proc` is still the host's, until the enclosure is settled.
pub fn host_pid() -> Option<u32> {
    std::fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// Prints the guide.
pub fn print(cluster: &Cluster, components: &Components, host_pid: Option<u32>) {
    let inside = components.host_kubeconfig().display().to_string();
    let kubeconfig = host_pid.map_or_else(|| inside.clone(), |pid| Running { pid }.path(&inside));
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
    println!("From another terminal:\n");
    println!("  export KUBECONFIG={kubeconfig}");
    println!("  kubectl get services,endpointslices,pods -o wide");
    println!("  kubectl describe service my-service");
    println!("  kubectl delete pod my-app-1          # and see who answers now:\n");
    println!("  portolan playground exec outside -- curl -s http://{node_ip}:30007/");
    println!(
        "  portolan playground exec {node} -- dig +short my-service.default.svc.cluster.local @10.96.0.10"
    );
    println!("  portolan playground exec {node} -- nft list table inet portolan\n");
    println!("Ctrl-C ends the playground; nothing of it stays.");
}
