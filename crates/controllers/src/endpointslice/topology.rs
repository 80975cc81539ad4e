//! Topology mode Auto (EPS-18): endpoints are shared out among the zones in proportion to the CPUs of
//! their nodes, so that traffic stays in its zone and no zone's endpoints are overloaded.

use std::collections::{BTreeMap, HashMap};

use api::object::{AddressType, Endpoint, EndpointHints, EndpointSlice, HintName, Service};

use super::slice::identity;
use crate::events::Finding;

/// How much more than its share a zone's endpoints may carry (EPS-18).
const OVERLOAD_MAX: f64 = 0.2;

/// Annotation that asks for topology mode Auto.
pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// Its older name, which wins where both are set.
pub const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Allocatable CPU of the ready nodes by zone, in thousandths of a CPU; control plane nodes do not count.
/// `None` if a node does not say its zone or its CPUs: then nothing can be shared out.
pub type ZoneCpus = Option<BTreeMap<String, u64>>;

/// Whether the Service asks for topology mode Auto, whatever its `trafficDistribution`.
pub fn is_auto(service: &Service) -> bool {
    let annotations = &service.metadata.annotations;
    let mode = annotations
        .get(TOPOLOGY_AWARE_HINTS)
        .or_else(|| annotations.get(TOPOLOGY_MODE));
    mode.is_some_and(|mode| mode == "Auto" || mode == "auto")
}

/// Gives every ready endpoint of a family a hint for one zone, or none of them any; returns which, and
/// why (EPS-19).
pub(super) fn assign<'a>(
    endpoints: impl Iterator<Item = &'a mut Endpoint>,
    slices: &[&EndpointSlice],
    family: AddressType,
    cpus: &ZoneCpus,
) -> Finding {
    let ready = endpoints.filter(|endpoint| endpoint.conditions.ready == Some(true));
    match share_out(ready.collect(), slices, cpus) {
        Ok(()) => Finding {
            is_warning: false,
            reason: "TopologyAwareHintsEnabled",
            message: format!("Topology Aware Hints has been enabled, addressType: {family:?}"),
        },
        Err(why) => Finding::warning(
            "TopologyAwareHintsDisabled",
            format!("{why}, addressType: {family:?}"),
        ),
    }
}

fn share_out(
    mut endpoints: Vec<&mut Endpoint>,
    slices: &[&EndpointSlice],
    cpus: &ZoneCpus,
) -> Result<(), String> {
    let mut home: BTreeMap<String, usize> = BTreeMap::new();
    for endpoint in &endpoints {
        *home.entry(zone_of(endpoint)).or_default() += 1;
    }
    let quotas = quotas(endpoints.len(), &home, cpus)?;
    if home.contains_key("") {
        return Err("One or more endpoints do not have a zone specified".to_owned());
    }
    let quota = |zone: &str| quotas.get(zone).copied().unwrap_or(0);
    let mut giving: BTreeMap<String, usize> = home.clone();
    giving
        .iter_mut()
        .for_each(|(zone, count)| *count = count.saturating_sub(quota(zone)));
    let mut receiving = quotas.clone();
    for (zone, count) in &mut receiving {
        *count = count.saturating_sub(home.get(zone).copied().unwrap_or(0));
    }
    // Those that serve another zone already go on doing so; then whoever comes first.
    let hinted = hinted_zones(slices);
    let mut assigned: Vec<Option<String>> = vec![None; endpoints.len()];
    for only_as_before in [true, false] {
        for (endpoint, assigned) in endpoints.iter().zip(&mut assigned) {
            let from = zone_of(endpoint);
            let left = giving.get(&from).copied().unwrap_or(0);
            if assigned.is_some() || left == 0 {
                continue;
            }
            let before = hinted.get(&identity(endpoint)).map(String::as_str);
            let fits = |(zone, places): &(&String, &mut usize)| {
                **places > 0 && (!only_as_before || before == Some(zone.as_str()))
            };
            if let Some((zone, places)) = receiving.iter_mut().find(fits) {
                *places -= 1;
                giving.insert(from, left - 1);
                *assigned = Some(zone.clone());
            }
        }
    }
    for (endpoint, assigned) in endpoints.iter_mut().zip(assigned) {
        let name = assigned.unwrap_or_else(|| zone_of(endpoint));
        endpoint.hints = Some(EndpointHints {
            for_zones: vec![HintName { name }],
            for_nodes: Vec::new(),
        });
    }
    Ok(())
}

/// How many endpoints each zone gets: first as many as it needs not to be overloaded, then those that are
/// left in proportion, where there is a choice to a zone that has endpoints to spare.
fn quotas(
    total: usize,
    home: &BTreeMap<String, usize>,
    cpus: &ZoneCpus,
) -> Result<BTreeMap<String, usize>, String> {
    let Some(cpus) = cpus.as_ref().filter(|cpus| !cpus.is_empty()) else {
        return Err(
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
                .to_owned(),
        );
    };
    let zones = cpus.len();
    if zones < 2 {
        return Err("Nodes only ready in one zone".to_owned());
    }
    if total < zones {
        return Err(format!(
            "Insufficient number of endpoints ({total} endpoints, {zones} zones)"
        ));
    }
    let all_cpus: u64 = cpus.values().sum();
    let share = |zone: &str| {
        let cpus = cpus.get(zone).copied().unwrap_or(0);
        total as f64 * cpus as f64 / all_cpus.max(1) as f64
    };
    let minimum = |zone: &String| (share(zone) / (1.0 + OVERLOAD_MAX)).ceil() as usize;
    let mut quotas: BTreeMap<String, usize> = cpus.keys().map(|zone| (zone.clone(), minimum(zone))).collect();
    let needed: usize = quotas.values().sum();
    if needed > total {
        return Err(format!(
            "Minimum allocation of required endpoints exceeds overload threshold ({total} endpoints, {zones} zones)"
        ));
    }
    for _ in needed..total {
        let wish = |zone: &String, quota: usize| {
            let missing = share(zone) - quota as f64;
            let stays = missing > 0.0 && home.get(zone).is_some_and(|home| *home > quota);
            (stays, missing)
        };
        let chosen = quotas.iter_mut().max_by(|(a, quota_a), (b, quota_b)| {
            let (a, b) = (wish(a, **quota_a), wish(b, **quota_b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        if let Some((_, quota)) = chosen {
            *quota += 1;
        }
    }
    Ok(quotas)
}

fn zone_of(endpoint: &Endpoint) -> String {
    endpoint.zone.as_deref().unwrap_or_default().to_owned()
}

/// The zone that each endpoint has a hint for, as the slices are now.
fn hinted_zones(slices: &[&EndpointSlice]) -> HashMap<String, String> {
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    endpoints
        .filter_map(|endpoint| {
            let zone = endpoint.hints.as_ref()?.for_zones.first()?;
            Some((identity(endpoint), zone.name.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests;
