//! A Pod as an endpoint: addresses, conditions and ports.
//!
//! An endpoint serves while its Pod has the condition Ready, and terminates from the deletion timestamp of the Pod. It is
//! ready if it serves and does not terminate, or if the Service has `publishNotReadyAddresses`.

use std::collections::HashMap;
use std::sync::Arc;

use api::object::{
    AddressType, Endpoint, EndpointConditions, EndpointPort, IntOrString, Protocol, Service, ServicePort,
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
        hostname: host.map(|host| Arc::clone(&host.name)),
        node_name: (!pod.node_name.is_empty()).then(|| Arc::clone(&pod.node_name)),
        zone: zone.map(Into::into),
        hints: None,
        target_ref: Some(Arc::clone(&pod.target)),
    })
}

/// Maximum number of ports of a Service that its Pods resolve differently, added up. Named ports can have another
/// number in each Pod. A Service can have tens of thousands of further ports, and each of these port lists repeats
/// them. Pods beyond the bound are left out.
pub(crate) const RESOLVED_PORTS_MAX: usize = 200_000;

/// Returns a number that is equal for Pods whose ports for `service` are equal because they come from one template.
/// The ports of a Service are then resolved once for all of them.
pub(crate) fn port_list(pod: &PodFacts, has_named_targets: bool) -> usize {
    if has_named_targets {
        // Equal lists have one allocation (`Interner`). Pods hold it, so its address is not used for another list.
        Arc::as_ptr(&pod.ports).cast::<()>().addr()
    } else {
        0
    }
}

/// Returns true if a port of the Service names a container port.
pub(crate) fn has_named_targets(service: &Service) -> bool {
    let names = |port: &ServicePort| matches!(port.target_port, IntOrString::String(_));
    service.spec.ports.iter().any(names)
}

/// Returns the ports at which the Pod serves the Service. A named port that the Pod lacks is omitted
/// (EPS-09).
pub fn ports_of(pod: &PodFacts, service: &Service) -> Vec<EndpointPort> {
    let mut named = NamedPorts::new();
    // A map, because both lists can have thousands of ports.
    if has_named_targets(service) {
        for port in pod.ports.iter() {
            named.entry((&*port.name, port.protocol)).or_insert(port.number);
        }
    }
    let ports = service.spec.ports.iter().filter_map(|port| {
        let number = port_number(&named, port)?;
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
    let is_of_family = |address: &&Arc<str>| address.contains(':') == (family == AddressType::IPv6);
    pod.addresses.iter().filter(is_of_family).cloned().collect()
}

/// Numbers of the container ports of a Pod by name and protocol. Containers precede restartable init containers
/// (EPC-06).
type NamedPorts<'a> = HashMap<(&'a str, Protocol), u16>;

/// Resolves `targetPort`: a number, or the name of a container port with the same protocol.
fn port_number(named: &NamedPorts<'_>, port: &ServicePort) -> Option<u16> {
    match &port.target_port {
        IntOrString::Int(0) => Some(port.port),
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => named.get(&(&**name, port.protocol)).copied(),
    }
}

#[cfg(test)]
mod tests;
