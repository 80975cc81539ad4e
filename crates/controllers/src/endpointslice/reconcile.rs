//! What a Service's slices should become: a pure function from the world to the writes.

use std::collections::BTreeMap;

use api::object::{AddressType, EndpointSlice, ObjectMeta, Service};

use super::endpoint::{endpoint_of, is_candidate, ports_of};
use super::hints;
use super::packing::{PortSet, pack};
use super::slice::{address_types, identity, is_owned, ports_key};
use super::topology::{self, ZoneCpus, is_auto};
use super::writes::Writes;
use crate::events::Finding;
use crate::world::PodFacts;

/// Everything that decides about the slices of one Service.
pub struct Inputs<'a> {
    /// The Service; it has a selector and is not of type ExternalName.
    pub service: &'a Service,
    /// The Pods that its selector chooses.
    pub pods: &'a [&'a PodFacts],
    /// The zone of each known Node, by the Node's name.
    pub node_zones: &'a dyn Fn(&str) -> Option<Option<String>>,
    /// The CPUs of the zones, for Services in topology mode Auto.
    pub zone_cpus: &'a ZoneCpus,
    /// The slices labelled with the Service's name and this controller's managed-by value.
    pub slices: &'a [&'a EndpointSlice],
    /// Most endpoints in one slice (EPS-11).
    pub endpoints_per_slice_max: usize,
    /// Time of the change that is being written, RFC 3339 (EPS-04).
    pub trigger_time: Option<&'a str>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceWrite {
    /// A new slice; the server makes its name from `generateName`.
    Create(EndpointSlice),
    /// Another content for a slice; carries the resourceVersion that it replaces.
    Update(EndpointSlice),
    /// A slice to remove, if nobody wrote it since.
    Delete(ObjectMeta),
}

/// What is counted of a reconcile (EPS-27).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Endpoints that come into slices.
    pub added: usize,
    /// Endpoints that leave slices.
    pub removed: usize,
    /// Endpoints that are wanted.
    pub endpoints: usize,
    /// Slices that there are afterwards.
    pub slices: usize,
    /// Slices that there would be if all were as full as may be.
    pub slices_desired: usize,
}

impl Counts {
    /// Adds what is counted of another Service.
    pub(crate) fn add(&mut self, other: &Self) {
        self.endpoints += other.endpoints;
        self.slices += other.slices;
        self.slices_desired += other.slices_desired;
    }

    /// Takes away what was added.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.endpoints -= other.endpoints;
        self.slices -= other.slices;
        self.slices_desired -= other.slices_desired;
    }
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The writes, in the order in which no endpoint that stays is missing for a moment.
    pub writes: Vec<SliceWrite>,
    /// Pods that were left out because their Node is not known (yet); look again later (EPS-08).
    pub pods_without_node: Vec<String>,
    /// What the owner of the Service should know (EPS-19).
    pub findings: Vec<Finding>,
    /// What is counted of it.
    pub counts: Counts,
}

/// Computes the writes that bring the slices of a Service to what its Pods say.
pub fn reconcile(inputs: &Inputs<'_>) -> Outcome {
    // What is in a slice that is being deleted is on its way out, and must get a place elsewhere.
    let is_live = |slice: &&EndpointSlice| slice.metadata.deletion_timestamp.is_none();
    let slices: Vec<&EndpointSlice> = inputs.slices.iter().copied().filter(is_live).collect();
    let inputs = &Inputs {
        slices: &slices,
        ..*inputs
    };
    let mut outcome = Outcome::default();
    let families = address_types(inputs.service);
    let mut plan = Writes::default();
    for slice in inputs.slices {
        if !is_owned(slice, inputs.service) || !families.contains(&slice.address_type) {
            plan.delete(slice);
        }
    }
    for &family in &families {
        reconcile_family(inputs, family, &mut plan, &mut outcome);
    }
    outcome.counts = plan.counts;
    outcome.writes = plan.finish(inputs);
    outcome.counts.slices = slices_after(inputs.slices.len(), &outcome.writes);
    outcome
}

fn reconcile_family(inputs: &Inputs<'_>, family: AddressType, plan: &mut Writes, outcome: &mut Outcome) {
    let mut sets = desired_sets(inputs, family, &mut outcome.pods_without_node);
    if is_auto(inputs.service) {
        let endpoints = sets.values_mut().flat_map(|set| set.desired.values_mut());
        let finding = topology::assign(endpoints, inputs.slices, family, inputs.zone_cpus);
        outcome.findings.push(finding);
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
            slices.iter().for_each(|slice| plan.delete(slice));
        }
    }
    for (key, set) in sets {
        let slices = existing.get(&key).map(Vec::as_slice).unwrap_or_default();
        pack(inputs, family, set, slices, plan);
    }
}

fn slices_after(before: usize, writes: &[SliceWrite]) -> usize {
    let count = |is_meant: fn(&SliceWrite) -> bool| writes.iter().filter(|write| is_meant(write)).count();
    let created = count(|write| matches!(write, SliceWrite::Create(_)));
    let deleted = count(|write| matches!(write, SliceWrite::Delete(_)));
    (before + created).saturating_sub(deleted)
}

fn desired_sets(
    inputs: &Inputs<'_>,
    family: AddressType,
    unplaced: &mut Vec<String>,
) -> BTreeMap<String, PortSet> {
    let mut sets: BTreeMap<String, PortSet> = BTreeMap::new();
    for pod in inputs.pods.iter().filter(|pod| is_candidate(pod)) {
        let zone = match (inputs.node_zones)(&pod.node_name) {
            _ if pod.node_name.is_empty() => None,
            Some(zone) => zone,
            None if inputs.service.spec.publish_not_ready_addresses => None,
            None => {
                unplaced.push(pod.name.to_string());
                continue;
            }
        };
        let Some(mut endpoint) = endpoint_of(pod, inputs.service, family, zone.as_deref()) else {
            continue;
        };
        if !is_auto(inputs.service) {
            endpoint.hints = hints::of(&endpoint, inputs.service);
        }
        let ports = ports_of(pod, inputs.service);
        let set = sets.entry(ports_key(&ports)).or_insert_with(|| PortSet {
            ports,
            desired: BTreeMap::new(),
        });
        set.desired.insert(identity(&endpoint), endpoint);
    }
    sets
}

#[cfg(test)]
mod tests;
