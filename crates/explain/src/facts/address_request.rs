//! Load balancer IPs that a Service requests.

use std::net::IpAddr;

use crate::views::Service;

/// Annotations with requested addresses, the most specific first.
const ANNOTATIONS: [&str; 8] = [
    "portolan.dev/load-balancer-ips",
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
    "kube-vip.io/loadbalancerIPs",
    "lbipam.cilium.io/ips",
    "io.cilium/lb-ipam-ips",
    "service.beta.kubernetes.io/azure-load-balancer-ipv4",
    "service.beta.kubernetes.io/azure-load-balancer-ipv6",
];

/// Returns the requested addresses with their field: those of the first annotation that has some, or that of the field
/// of the Service.
pub(crate) fn requested_addresses(service: Service<'_>) -> Option<(String, Vec<IpAddr>)> {
    requests(service).next()
}

/// Returns all requests for addresses with their fields, the most specific first. They can contradict each other.
pub(crate) fn requests(service: Service<'_>) -> impl Iterator<Item = (String, Vec<IpAddr>)> {
    let annotations = ANNOTATIONS.iter().filter_map(move |name| {
        let addresses = addresses(service.0.annotation(name)?);
        Some((format!("metadata.annotations[{name}]"), addresses))
    });
    let in_spec = (
        "spec.loadBalancerIP".to_owned(),
        addresses(service.0.text("/spec/loadBalancerIP")),
    );
    let all = annotations.chain([in_spec]);
    all.filter(|(_, addresses)| !addresses.is_empty())
}

/// Reads addresses that are separated by commas.
fn addresses(text: &str) -> Vec<IpAddr> {
    text.split(',')
        .filter_map(|part| part.trim().parse().ok())
        .collect()
}
