//! Topology hints for `trafficDistribution` (EPS-16, EPS-17).
//!
//! Hints depend on the endpoint alone, so they are part of the desired endpoint. A slice with outdated hints
//! (EPS-20) is a changed slice.

use std::sync::Arc;

use api::object::{Endpoint, EndpointHints, HintName, Service};

/// Returns the hints of an endpoint of `service`; only ready endpoints have hints.
pub(super) fn hints_of(endpoint: &Endpoint, service: &Service) -> Option<Box<EndpointHints>> {
    let to_nodes = match service.spec.traffic_distribution.as_deref()? {
        "PreferSameNode" => true,
        "PreferSameZone" | "PreferClose" => false,
        _ => return None,
    };
    if endpoint.conditions.ready != Some(true) {
        return None;
    }
    let hints = EndpointHints {
        for_zones: names(endpoint.zone.as_ref()),
        for_nodes: names(endpoint.node_name.as_ref().filter(|_| to_nodes)),
    };
    (!hints.for_zones.is_empty() || !hints.for_nodes.is_empty()).then(|| Box::new(hints))
}

fn names(name: Option<&Arc<str>>) -> Vec<HintName> {
    name.map(|name| HintName {
        name: name.to_string(),
    })
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests;
