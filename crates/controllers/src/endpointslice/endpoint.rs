//! One Pod as an endpoint: its addresses, conditions and ports.

use std::net::IpAddr;

use api::object::{
    AddressType, Container, Endpoint, EndpointConditions, EndpointPort, IntOrString, Pod, Service,
    ServicePort, TargetRef,
};

/// Whether the Pod may be an endpoint at all: it runs, or is about to, and has an address (EPS-05).
pub fn is_candidate(pod: &Pod) -> bool {
    !pod.is_finished() && (!pod.status.pod_ip.is_empty() || !pod.status.pod_ips.is_empty())
}

/// The Pod as an endpoint of `service`, or `None` without an address of the family (EPS-06, EPS-07).
pub fn endpoint_of(
    pod: &Pod,
    service: &Service,
    family: AddressType,
    zone: Option<&str>,
) -> Option<Endpoint> {
    let addresses = addresses_of(pod, family);
    if addresses.is_empty() {
        return None;
    }
    let serving = pod.is_ready();
    let terminating = pod.is_terminating();
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let has_hostname = !pod.spec.hostname.is_empty() && pod.spec.subdomain == service.metadata.name;
    Some(Endpoint {
        addresses,
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: has_hostname.then(|| pod.spec.hostname.clone()),
        node_name: (!pod.spec.node_name.is_empty()).then(|| pod.spec.node_name.as_str().into()),
        zone: zone.map(Into::into),
        hints: None,
        target_ref: Some(TargetRef {
            kind: "Pod".to_owned(),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        }),
    })
}

/// The ports at which the Pod serves the Service; a named port that the Pod lacks is left out (EPS-09).
pub fn ports_of(pod: &Pod, service: &Service) -> Vec<EndpointPort> {
    let ports = service.spec.ports.iter().filter_map(|port| {
        let number = port_number(pod, port)?;
        Some(EndpointPort {
            name: Some(port.name.clone()),
            protocol: Some(port.protocol),
            port: Some(number),
            app_protocol: port.app_protocol.clone(),
        })
    });
    ports.collect()
}

fn addresses_of(pod: &Pod, family: AddressType) -> Vec<std::sync::Arc<str>> {
    let of_family = |text: &str| match (text.parse::<IpAddr>(), family) {
        (Ok(IpAddr::V4(_)), AddressType::IPv4) | (Ok(IpAddr::V6(_)), AddressType::IPv6) => Some(text.into()),
        _ => None,
    };
    if pod.status.pod_ips.is_empty() {
        return of_family(&pod.status.pod_ip).into_iter().collect();
    }
    pod.status
        .pod_ips
        .iter()
        .filter_map(|a| of_family(&a.ip))
        .collect()
}

/// The number behind `targetPort`: itself, or the container port of that name and protocol, in
/// containers first, then in restartable init containers (EPC-06).
fn port_number(pod: &Pod, port: &ServicePort) -> Option<u16> {
    let name = match &port.target_port {
        IntOrString::Int(0) => return Some(port.port),
        IntOrString::Int(number) => return u16::try_from(*number).ok(),
        IntOrString::String(name) => name,
    };
    let restartable = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let containers = pod
        .spec
        .containers
        .iter()
        .chain(pod.spec.init_containers.iter().filter(restartable));
    containers
        .flat_map(|container| &container.ports)
        .find(|p| &p.name == name && p.protocol == port.protocol)
        .map(|p| p.container_port)
}

#[cfg(test)]
mod tests;
