//! The Endpoints of a Service: a pure function of the caches.
//!
//! Pods whose ports resolve alike share a subset, and the result is in the canonical order, so that equal states need
//! no write. Only the first IP family of the Service counts. Addresses beyond the maximum are left out, and an
//! annotation states that. Terminating Pods count only if the Service publishes addresses that are not ready.

use std::collections::{BTreeMap, HashMap};

use api::object::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Labels, ObjectMeta, Service, SubsetPort,
};

use super::capacity::truncate;
use super::repack::repack;
use super::{MANAGED_BY, MANAGED_BY_LABEL, OVER_CAPACITY};
use crate::caches::PodFacts;
use crate::endpoint_slice::endpoint::{
    RESOLVED_PORTS_MAX, endpoint_of, has_named_targets, is_candidate, port_list, ports_of,
};
use crate::endpoint_slice::slice::address_types;
use crate::endpoint_slice::{HEADLESS_LABEL, TRIGGER_TIME};

/// Inputs of [`reconcile()`].
pub(crate) struct Inputs<'a> {
    /// The Service; it has a selector and is not of type ExternalName (EPC-01).
    pub service: &'a Service,
    /// The Pods that match its selector.
    pub pods: &'a [&'a PodFacts],
    /// The existing Endpoints with the name of the Service.
    pub current: Option<&'a Endpoints>,
    /// Time of the change that causes the write, RFC 3339 (EPC-10).
    pub trigger_time: Option<&'a str>,
}

/// A write of Endpoints.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EndpointsWrite {
    /// Create Endpoints.
    Create(Endpoints),
    /// Replace Endpoints with this resourceVersion.
    Update(Endpoints),
    /// Delete Endpoints, unless another client has written them since.
    Delete(ObjectMeta),
}

/// Computes the write that brings the Endpoints of a Service to their desired state; `None` if they are in it
/// (EPC-12).
pub(crate) fn reconcile(inputs: &Inputs<'_>) -> Option<EndpointsWrite> {
    let mut subsets = subsets_of(inputs);
    let is_truncated = truncate(&mut subsets);
    let labels = labels_of(inputs.service);
    let Some(current) = inputs.current else {
        let service = &inputs.service.metadata;
        let metadata = ObjectMeta {
            name: service.name.clone(),
            namespace: service.namespace.clone(),
            ..ObjectMeta::default()
        };
        let metadata = annotated(metadata, labels, is_truncated, inputs.trigger_time);
        return Some(EndpointsWrite::Create(Endpoints { metadata, subsets }));
    };
    let over_capacity = current
        .metadata
        .annotations
        .get(OVER_CAPACITY)
        .map(String::as_str);
    let is_current = current.metadata.labels == labels
        && over_capacity == is_truncated.then_some("truncated")
        && repack(current.subsets.clone()) == subsets;
    if is_current {
        return None;
    }
    let metadata = annotated(
        current.metadata.clone(),
        labels,
        is_truncated,
        inputs.trigger_time,
    );
    Some(EndpointsWrite::Update(Endpoints { metadata, subsets }))
}

fn annotated(
    mut metadata: ObjectMeta,
    labels: Labels,
    is_truncated: bool,
    trigger_time: Option<&str>,
) -> ObjectMeta {
    metadata.labels = labels;
    let desired = [
        (TRIGGER_TIME, trigger_time),
        (OVER_CAPACITY, is_truncated.then_some("truncated")),
    ];
    for (key, value) in desired {
        match value {
            Some(value) => metadata.annotations.insert(key.to_owned(), value.to_owned()),
            None => metadata.annotations.remove(key),
        };
    }
    metadata
}

/// Returns the labels of the Service and the managed-by label (EPC-09).
fn labels_of(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.clone();
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    labels.remove(HEADLESS_LABEL);
    if service.spec.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels
}

/// Returns the subsets of the Pods, grouped by ports.
fn subsets_of(inputs: &Inputs<'_>) -> Vec<EndpointSubset> {
    let publishes = inputs.service.spec.publish_not_ready_addresses;
    // A subset without ports is valid only for a headless Service without ports (EPC-07).
    let is_portless = inputs.service.spec.ports.is_empty() && inputs.service.spec.is_headless();
    let has_named_targets = has_named_targets(inputs.service);
    // By their ports, so that many Pods with the same ports do not have a copy each.
    let mut subsets: Vec<EndpointSubset> = Vec::new();
    let mut by_ports: BTreeMap<Vec<SubsetPort>, usize> = BTreeMap::new();
    let mut by_list: HashMap<usize, Option<usize>> = HashMap::new();
    let mut ports_left = RESOLVED_PORTS_MAX;
    for pod in inputs.pods {
        // Terminating Pods count only if the Service publishes addresses that are not ready (EPC-03).
        if !is_candidate(pod) || (pod.is_terminating && !publishes) {
            continue;
        }
        let Some(address) = address_of(pod, inputs.service) else {
            continue;
        };
        let index = *by_list
            .entry(port_list(pod, has_named_targets))
            .or_insert_with(|| {
                let ports = ports_of(pod, inputs.service).into_iter();
                let ports: Vec<SubsetPort> = ports.filter_map(port_of).collect();
                if ports.is_empty() && !is_portless {
                    return None;
                }
                if let Some(index) = by_ports.get(&ports) {
                    return Some(*index);
                }
                ports_left = ports_left.checked_sub(ports.len())?;
                by_ports.insert(ports.clone(), subsets.len());
                subsets.push(EndpointSubset {
                    ports,
                    ..EndpointSubset::default()
                });
                Some(subsets.len() - 1)
            });
        let Some(subset) = index.and_then(|index| subsets.get_mut(index)) else {
            continue;
        };
        if publishes || pod.is_ready {
            subset.addresses.push(address)
        } else {
            subset.not_ready_addresses.push(address)
        }
    }
    repack(subsets)
}

/// Returns the Pod as an address of the Service's first family (EPC-02, EPC-05).
fn address_of(pod: &PodFacts, service: &Service) -> Option<EndpointAddress> {
    let family = *address_types(service).first()?;
    let endpoint = endpoint_of(pod, service, family, None)?;
    Some(EndpointAddress {
        // Addresses of cached Pods are valid and in canonical form.
        ip: endpoint.addresses.into_iter().next()?,
        hostname: endpoint.hostname.as_deref().unwrap_or_default().to_owned(),
        node_name: endpoint.node_name,
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
