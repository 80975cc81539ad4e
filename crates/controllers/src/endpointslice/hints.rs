//! For whom an endpoint is meant: `trafficDistribution` (EPS-16, EPS-17).
//!
//! Hints follow from the endpoint alone, so they are part of what is wanted, and a slice whose hints are
//! wrong or no longer asked for (EPS-20) is one that changed.

use std::sync::Arc;

use api::object::{Endpoint, EndpointHints, HintName, Service};

/// The hints of an endpoint of `service`; only ready ones have any.
pub(super) fn of(endpoint: &Endpoint, service: &Service) -> Option<EndpointHints> {
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
    (!hints.for_zones.is_empty() || !hints.for_nodes.is_empty()).then_some(hints)
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
