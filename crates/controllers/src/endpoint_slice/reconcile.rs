//! The slices of a Service: a pure function of the caches.
//!
//! Each IP family has slices of its own. Pods whose ports resolve alike share slices, over which `packing` distributes
//! the endpoints. A family without endpoints has one empty slice. Slices that fit none of these are deleted, or reused
//! for new ones. A Pod whose Node is unknown is left out, unless the Service publishes addresses that are not ready.

use std::collections::{BTreeMap, HashMap};

use api::object::{AddressType, EndpointSlice};
use reconcile::events::EventText;

use super::endpoint::{
    RESOLVED_PORTS_MAX, endpoint_of, has_named_targets, is_candidate, port_list, ports_of,
};
use super::hints;
use super::inputs::Inputs;
use super::packing::{PortSet, pack};
use super::slice::{address_types, identity, is_owned, ports_key};
use super::slice_changes::{SliceChanges, SliceWrite};
use super::slice_reuse::Writes;
use super::topology;
use crate::topology_mode::is_auto;

/// Computes the writes that bring the slices of a Service to their desired state.
pub fn reconcile(inputs: &Inputs<'_>) -> SliceChanges {
    // Endpoints of a slice that is being deleted need another slice.
    let is_live = |slice: &&EndpointSlice| slice.metadata.deletion_timestamp.is_none();
    let slices: Vec<&EndpointSlice> = inputs.slices.iter().copied().filter(is_live).collect();
    let inputs = &Inputs {
        slices: &slices,
        ..*inputs
    };
    let mut changes = SliceChanges::default();
    let families = address_types(inputs.service);
    let mut writes = Writes::default();
    for slice in inputs.slices {
        if !is_owned(slice, inputs.service) || !families.contains(&slice.address_type) {
            writes.delete(slice);
        }
    }
    for &family in &families {
        reconcile_family(inputs, family, &mut writes, &mut changes);
    }
    changes.counts = writes.counts;
    changes.writes = writes.finish(inputs);
    changes.counts.slices = slices_after(inputs.slices.len(), &changes.writes);
    changes
}

fn reconcile_family(
    inputs: &Inputs<'_>,
    family: AddressType,
    writes: &mut Writes,
    changes: &mut SliceChanges,
) {
    let mut sets = desired_sets(inputs, family, changes);
    if is_auto(inputs.service) {
        let endpoints = sets.values_mut().flat_map(|set| set.desired.values_mut());
        let event = topology::assign_zone_hints(endpoints, inputs.slices, family, inputs.zone_cpus);
        changes.events.push(event);
    }
    let mut existing: BTreeMap<String, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in inputs.slices {
        if slice.address_type == family && is_owned(slice, inputs.service) {
            existing.entry(ports_key(&slice.ports)).or_default().push(slice);
        }
    }
    if sets.is_empty() {
        sets.insert(
            ports_key(&[]),
            PortSet {
                ports: Vec::new(),
                desired: BTreeMap::new(),
            },
        );
    }
    for (key, slices) in &existing {
        if !sets.contains_key(key) {
            slices.iter().for_each(|slice| writes.delete(slice));
        }
    }
    for (key, set) in sets {
        let slices = existing.get(&key).map(Vec::as_slice).unwrap_or_default();
        pack(inputs, family, set, slices, writes);
    }
}

fn slices_after(before: usize, writes: &[SliceWrite]) -> usize {
    let count = |is_meant: fn(&SliceWrite) -> bool| writes.iter().filter(|write| is_meant(write)).count();
    let created = count(|write| matches!(write, SliceWrite::Create(_)));
    let deleted = count(|write| matches!(write, SliceWrite::Delete(_)));
    (before + created).saturating_sub(deleted)
}

/// Returns the desired endpoints of a family, by the key of their ports.
fn desired_sets(
    inputs: &Inputs<'_>,
    family: AddressType,
    changes: &mut SliceChanges,
) -> BTreeMap<String, PortSet> {
    let has_named_targets = has_named_targets(inputs.service);
    let mut sets: Vec<PortSet> = Vec::new();
    let mut by_key: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_list: HashMap<usize, Option<usize>> = HashMap::new();
    let (mut ports_left, mut omitted) = (RESOLVED_PORTS_MAX, 0_usize);
    for pod in inputs.pods.iter().filter(|pod| is_candidate(pod)) {
        // As upstream, a Pod without a Node counts as one on an unknown Node.
        let zone = match (inputs.node_zones)(&pod.node_name) {
            Some(zone) => zone,
            None if inputs.service.spec.publish_not_ready_addresses => None,
            None => {
                changes.pods_without_node.push(pod.name().to_string());
                continue;
            }
        };
        let Some(mut endpoint) = endpoint_of(pod, inputs.service, family, zone.as_deref()) else {
            continue;
        };
        if !is_auto(inputs.service) {
            endpoint.hints = hints::hints_of(&endpoint, inputs.service);
        }
        let index = *by_list
            .entry(port_list(pod, has_named_targets))
            .or_insert_with(|| {
                let ports = ports_of(pod, inputs.service);
                let key = ports_key(&ports);
                if let Some(index) = by_key.get(&key) {
                    return Some(*index);
                }
                ports_left = ports_left.checked_sub(ports.len())?;
                by_key.insert(key, sets.len());
                sets.push(PortSet {
                    ports,
                    desired: BTreeMap::new(),
                });
                Some(sets.len() - 1)
            });
        match index.and_then(|index| sets.get_mut(index)) {
            Some(set) => _ = set.desired.insert(identity(&endpoint), endpoint),
            None => omitted += 1,
        }
    }
    if omitted > 0 {
        changes.events.push(omission_warning(omitted));
    }
    let mut sets: Vec<Option<PortSet>> = sets.into_iter().map(Some).collect();
    let by_key = by_key.into_iter();
    by_key
        .filter_map(|(key, index)| Some((key, sets.get_mut(index)?.take()?)))
        .collect()
}

fn omission_warning(pods: usize) -> EventText {
    let message = format!(
        "{pods} Pods are omitted: expected at most {RESOLVED_PORTS_MAX} ports that the Pods of the Service \
        resolve differently, found more"
    );
    EventText::warning("TooManyEndpointPorts", message)
}

#[cfg(test)]
mod tests;
