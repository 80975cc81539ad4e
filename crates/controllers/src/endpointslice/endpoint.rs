//! A Pod as an endpoint: addresses, conditions and ports.

use std::sync::Arc;

use api::object::{
    AddressType, Endpoint, EndpointConditions, EndpointPort, IntOrString, Service, ServicePort, TargetRef,
};

use crate::caches::PodFacts;

/// Returns true if the Pod can be an endpoint: it has not ended, and has an address (EPS-05).
pub fn is_candidate(pod: &PodFacts) -> bool {
    !pod.is_finished && !pod.addresses.is_empty()
}

/// Returns the Pod as an endpoint of `service`; `None` if it has no address of the family (EPS-06, EPS-07).
pub fn endpoint_of(
    pod: &PodFacts,
    service: &Service,
    family: AddressType,
    zone: Option<&str>,
) -> Option<Endpoint> {
    let addresses = addresses_of(pod, family);
    if addresses.is_empty() {
        return None;
    }
    let (serving, terminating) = (pod.is_ready, pod.is_terminating);
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let host = pod.host.as_ref();
    let host = host.filter(|host| host.subdomain == service.metadata.name);
    Some(Endpoint {
        addresses,
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: host.map(|host| host.name.clone()),
        node_name: (!pod.node_name.is_empty()).then(|| Arc::clone(&pod.node_name)),
        zone: zone.map(Into::into),
        hints: None,
        target_ref: Some(TargetRef {
            kind: "Pod".to_owned(),
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
        }),
    })
}

/// Returns the ports at which the Pod serves the Service. A named port that the Pod lacks is omitted
/// (EPS-09).
pub fn ports_of(pod: &PodFacts, service: &Service) -> Vec<EndpointPort> {
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

fn addresses_of(pod: &PodFacts, family: AddressType) -> Vec<Arc<str>> {
    let of_family = |address: &&Arc<str>| address.contains(':') == (family == AddressType::IPv6);
    pod.addresses.iter().filter(of_family).cloned().collect()
}

/// Resolves `targetPort`: a number, or the name of a container port with the same protocol. Containers
/// precede restartable init containers (EPC-06).
fn port_number(pod: &PodFacts, port: &ServicePort) -> Option<u16> {
    let name = match &port.target_port {
        IntOrString::Int(0) => return Some(port.port),
        IntOrString::Int(number) => return u16::try_from(*number).ok(),
        IntOrString::String(name) => name,
    };
    let is_meant = |p: &&crate::caches::pods::NamedPort| *p.name == **name && p.protocol == port.protocol;
    pod.ports.iter().find(is_meant).map(|p| p.number)
}

#[cfg(test)]
mod tests;
