//! What the Endpoints of a Service should become: a pure function from the world to a write.

use std::net::IpAddr;

use api::object::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Labels, ObjectMeta, Service, SubsetPort,
};

use super::capacity::truncate;
use super::repack::repack;
use super::{MANAGED_BY, MANAGED_BY_LABEL, OVER_CAPACITY};
use crate::endpointslice::endpoint::{endpoint_of, is_candidate, ports_of};
use crate::endpointslice::slice::address_types;
use crate::endpointslice::{HEADLESS_LABEL, TRIGGER_TIME};
use crate::world::PodFacts;

/// Everything that decides about the Endpoints of one Service.
pub struct Inputs<'a> {
    /// The Service; it has a selector and is not of type ExternalName (EPC-01).
    pub service: &'a Service,
    /// The Pods that its selector chooses.
    pub pods: &'a [&'a PodFacts],
    /// The Endpoints of the Service's name, if there are any.
    pub current: Option<&'a Endpoints>,
    /// Time of the change that is being written, RFC 3339 (EPC-10).
    pub trigger_time: Option<&'a str>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointsWrite {
    /// Endpoints where none are.
    Create(Endpoints),
    /// Another content; carries the resourceVersion that it replaces.
    Update(Endpoints),
    /// Endpoints to remove, if nobody wrote them since.
    Delete(ObjectMeta),
}

/// Computes the write that brings the Endpoints of a Service to what its Pods say; `None` if they say it
/// already (EPC-12).
pub fn reconcile(inputs: &Inputs<'_>) -> Option<EndpointsWrite> {
    let mut subsets = subsets_of(inputs);
    let truncated = truncate(&mut subsets);
    let labels = labels_of(inputs.service);
    let Some(current) = inputs.current else {
        let service = &inputs.service.metadata;
        let metadata = ObjectMeta {
            name: service.name.clone(),
            namespace: service.namespace.clone(),
            ..ObjectMeta::default()
        };
        let metadata = annotated(metadata, labels, truncated, inputs.trigger_time);
        return Some(EndpointsWrite::Create(Endpoints { metadata, subsets }));
    };
    let says_so = current
        .metadata
        .annotations
        .get(OVER_CAPACITY)
        .map(String::as_str);
    let same = current.metadata.labels == labels
        && says_so == truncated.then_some("truncated")
        && repack(current.subsets.clone()) == subsets;
    if same {
        return None;
    }
    let metadata = annotated(current.metadata.clone(), labels, truncated, inputs.trigger_time);
    Some(EndpointsWrite::Update(Endpoints { metadata, subsets }))
}

fn annotated(
    mut metadata: ObjectMeta,
    labels: Labels,
    truncated: bool,
    trigger_time: Option<&str>,
) -> ObjectMeta {
    metadata.labels = labels;
    let wanted = [
        (TRIGGER_TIME, trigger_time),
        (OVER_CAPACITY, truncated.then_some("truncated")),
    ];
    for (key, value) in wanted {
        match value {
            Some(value) => metadata.annotations.insert(key.to_owned(), value.to_owned()),
            None => metadata.annotations.remove(key),
        };
    }
    metadata
}

/// The Service's labels and our own (EPC-09).
fn labels_of(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.clone();
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    labels.remove(HEADLESS_LABEL);
    if service.spec.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels
}

fn subsets_of(inputs: &Inputs<'_>) -> Vec<EndpointSubset> {
    let publishes = inputs.service.spec.publish_not_ready_addresses;
    let mut subsets = Vec::new();
    for pod in inputs.pods {
        // Terminating Pods only if readiness does not matter (EPC-03).
        if !is_candidate(pod) || (pod.is_terminating && !publishes) {
            continue;
        }
        let Some(address) = address_of(pod, inputs.service) else {
            continue;
        };
        let ports: Vec<SubsetPort> = ports_of(pod, inputs.service)
            .into_iter()
            .filter_map(port_of)
            .collect();
        // No ports at all is what a headless Service without ports asks for (EPC-07), and nobody else.
        let is_portless = inputs.service.spec.ports.is_empty() && inputs.service.spec.is_headless();
        if ports.is_empty() && !is_portless {
            continue;
        }
        let mut subset = EndpointSubset {
            ports,
            ..EndpointSubset::default()
        };
        match publishes || pod.is_ready {
            true => subset.addresses.push(address),
            false => subset.not_ready_addresses.push(address),
        }
        subsets.push(subset);
    }
    repack(subsets)
}

/// The Pod as an address of the Service's first family (EPC-02, EPC-05).
fn address_of(pod: &PodFacts, service: &Service) -> Option<EndpointAddress> {
    let family = *address_types(service).first()?;
    let endpoint = endpoint_of(pod, service, family, None)?;
    let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    Some(EndpointAddress {
        ip: ip.to_string(),
        hostname: endpoint.hostname.unwrap_or_default(),
        node_name: endpoint.node_name.map(|name| name.to_string()),
        target_ref: endpoint.target_ref,
    })
}

fn port_of(port: EndpointPort) -> Option<SubsetPort> {
    Some(SubsetPort {
        name: port.name.unwrap_or_default(),
        port: port.port?,
        protocol: port.protocol.unwrap_or_default(),
        app_protocol: port.app_protocol,
    })
}

#[cfg(test)]
mod tests;
