//! Topology mode Auto (EPS-18) distributes endpoints over zones in proportion to the CPUs of their Nodes. Traffic then
//! stays in its zone, and the overload of each zone is bounded.

use std::collections::{BTreeMap, HashMap};

use api::object::{AddressType, Endpoint, EndpointHints, EndpointSlice, HintName};
use reconcile::events::EventText;

use super::slice::identity;
use crate::topology_mode::ZoneCpus;

/// Largest overload of a zone's endpoints, as a fraction of their share (EPS-18).
const OVERLOAD_MAX: f64 = 0.2;

/// The reason that endpoints cannot be distributed over zones, with upstream's text.
#[derive(Debug, thiserror::Error)]
enum DistributionError {
    #[error("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")]
    NodeInformation,
    #[error("Nodes only ready in one zone")]
    SingleZone,
    #[error("Insufficient number of endpoints ({total} endpoints, {zones} zones)")]
    TooFewEndpoints { total: usize, zones: usize },
    #[error(
        "Minimum allocation of required endpoints exceeds overload threshold ({total} endpoints, {zones} zones)"
    )]
    Overload { total: usize, zones: usize },
    #[error("One or more endpoints do not have a zone specified")]
    EndpointWithoutZone,
}

/// Sets the hint of every ready endpoint of a family, or of none; returns the event (EPS-19).
pub(super) fn assign_zone_hints<'a>(
    endpoints: impl Iterator<Item = &'a mut Endpoint>,
    slices: &[&EndpointSlice],
    family: AddressType,
    cpus: &ZoneCpus,
) -> EventText {
    let ready = endpoints.filter(|endpoint| endpoint.conditions.ready == Some(true));
    match distribute_over_zones(ready.collect(), slices, cpus) {
        Ok(()) => EventText {
            is_warning: false,
            reason: "TopologyAwareHintsEnabled",
            message: format!("Topology Aware Hints has been enabled, addressType: {family:?}"),
        },
        Err(reason) => EventText::warning(
            "TopologyAwareHintsDisabled",
            format!("{reason}, addressType: {family:?}"),
        ),
    }
}

/// Writes the zone hints, in proportion to the CPUs of the zones.
fn distribute_over_zones(
    mut endpoints: Vec<&mut Endpoint>,
    slices: &[&EndpointSlice],
    cpus: &ZoneCpus,
) -> Result<(), DistributionError> {
    let mut by_zone: BTreeMap<String, usize> = BTreeMap::new();
    for endpoint in &endpoints {
        *by_zone.entry(zone_of(endpoint)).or_default() += 1;
    }
    let quotas = quotas(endpoints.len(), &by_zone, cpus)?;
    if by_zone.contains_key("") {
        return Err(DistributionError::EndpointWithoutZone);
    }
    let quota = |zone: &str| quotas.get(zone).copied().unwrap_or(0);
    let mut surplus: BTreeMap<String, usize> = by_zone.clone();
    surplus
        .iter_mut()
        .for_each(|(zone, count)| *count = count.saturating_sub(quota(zone)));
    let mut deficit = quotas.clone();
    for (zone, count) in &mut deficit {
        *count = count.saturating_sub(by_zone.get(zone).copied().unwrap_or(0));
    }
    // Endpoints that serve another zone already keep it; the others follow in order.
    let hinted = hinted_zones(slices);
    let mut assigned: Vec<Option<String>> = vec![None; endpoints.len()];
    for only_as_before in [true, false] {
        for (endpoint, assigned) in endpoints.iter().zip(&mut assigned) {
            let from = zone_of(endpoint);
            let left = surplus.get(&from).copied().unwrap_or(0);
            if assigned.is_some() || left == 0 {
                continue;
            }
            let before = hinted.get(&identity(endpoint)).map(String::as_str);
            let fits = |(zone, free): &(&String, &mut usize)| {
                **free > 0 && (!only_as_before || before == Some(zone.as_str()))
            };
            if let Some((zone, free)) = deficit.iter_mut().find(fits) {
                *free -= 1;
                surplus.insert(from, left - 1);
                *assigned = Some(zone.clone());
            }
        }
    }
    for (endpoint, assigned) in endpoints.iter_mut().zip(assigned) {
        let name = assigned.unwrap_or_else(|| zone_of(endpoint));
        endpoint.hints = Some(Box::new(EndpointHints {
            for_zones: vec![HintName { name }],
            for_nodes: Vec::new(),
        }));
    }
    Ok(())
}

/// Returns the number of endpoints for each zone: first the minimum that prevents an overload, then the rest
/// in proportion. Among equals a zone with surplus endpoints is preferred.
fn quotas(
    total: usize,
    by_zone: &BTreeMap<String, usize>,
    cpus: &ZoneCpus,
) -> Result<BTreeMap<String, usize>, DistributionError> {
    let Some(cpus) = cpus.as_ref().filter(|cpus| !cpus.is_empty()) else {
        return Err(DistributionError::NodeInformation);
    };
    let zones = cpus.len();
    if zones < 2 {
        return Err(DistributionError::SingleZone);
    }
    if total < zones {
        return Err(DistributionError::TooFewEndpoints { total, zones });
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
        return Err(DistributionError::Overload { total, zones });
    }
    for _ in needed..total {
        let demand = |zone: &String, quota: usize| {
            let missing = share(zone) - quota as f64;
            let stays = missing > 0.0 && by_zone.get(zone).is_some_and(|by_zone| *by_zone > quota);
            (stays, missing)
        };
        let chosen = quotas.iter_mut().max_by(|(a, quota_a), (b, quota_b)| {
            let (a, b) = (demand(a, **quota_a), demand(b, **quota_b));
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

/// Returns the hinted zone of each endpoint in the current slices.
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
