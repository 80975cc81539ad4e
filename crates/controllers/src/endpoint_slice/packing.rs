//! Distribution of endpoints over slices (EPS-12).
//!
//! An endpoint stays in its slice. New endpoints fill slices with other changes, the fullest first. A remainder that
//! fits into one unchanged slice goes to the fullest such slice; otherwise new slices are created. Slices are not
//! merged: with thousands of watchers, a write costs more than an additional slice.

use std::collections::BTreeMap;

use api::object::{AddressType, Endpoint, EndpointPort, EndpointSlice, ObjectMeta};

use super::inputs::Inputs;
use super::slice::{identity, labels_of, new_slice};
use super::slice_reuse::Writes;

/// Endpoints with the same ports, which share slices.
pub(super) struct PortSet {
    pub(super) ports: Vec<EndpointPort>,
    pub(super) desired: BTreeMap<String, Endpoint>,
}

/// Distributes the endpoints of one port set over its slices.
pub(super) fn pack(
    inputs: &Inputs<'_>,
    family: AddressType,
    set: PortSet,
    slices: &[&EndpointSlice],
    writes: &mut Writes,
) {
    let PortSet { ports, mut desired } = set;
    let placeholder = desired.is_empty();
    let max = inputs.endpoints_per_slice_max.max(1);
    writes.counts.endpoints += desired.len();
    writes.counts.slices_desired += desired.len().div_ceil(max).max(1);
    let mut unchanged: Vec<EndpointSlice> = Vec::new();
    let mut changing: Vec<EndpointSlice> = Vec::new();
    for slice in slices {
        match keep_in_place(inputs, slice, &mut desired) {
            KeptSlice::Unchanged => unchanged.push((*slice).clone()),
            KeptSlice::Changed(kept) => {
                writes.counts.removed += slice.endpoints.len() - kept.endpoints.len();
                changing.push(*kept);
            }
            KeptSlice::Nothing => writes.delete(slice),
        }
    }
    if placeholder && unchanged.is_empty() && changing.is_empty() {
        writes.keep_placeholder(new_slice(inputs, family, Vec::new()), slices);
        return;
    }
    let mut rest: Vec<Endpoint> = desired.into_values().collect();
    writes.counts.added += rest.len();
    changing.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
    for slice in &mut changing {
        let room = max.saturating_sub(slice.endpoints.len()).min(rest.len());
        slice.endpoints.extend(rest.drain(..room));
    }
    // Full slices first, so that only a remainder can change a slice that would otherwise stay.
    while rest.len() >= max {
        let full: Vec<Endpoint> = rest.drain(..max).collect();
        writes.creates.push(EndpointSlice {
            endpoints: full,
            ..new_slice(inputs, family, ports.clone())
        });
    }
    if !rest.is_empty() {
        match fullest_below(&unchanged, max.saturating_sub(rest.len())) {
            Some(slice) => {
                let mut slice = slice.clone();
                slice.endpoints.extend(rest);
                changing.push(slice);
            }
            None => writes.creates.push(EndpointSlice {
                endpoints: rest,
                ..new_slice(inputs, family, ports)
            }),
        }
    }
    writes.updates.extend(changing);
}

/// Returns the slice with the most endpoints, of those with at most `endpoints_max`.
fn fullest_below(slices: &[EndpointSlice], endpoints_max: usize) -> Option<&EndpointSlice> {
    let below = slices
        .iter()
        .filter(|slice| slice.endpoints.len() <= endpoints_max);
    below.max_by_key(|slice| slice.endpoints.len())
}

/// Result for an existing slice.
enum KeptSlice {
    Unchanged,
    Changed(Box<EndpointSlice>),
    Nothing,
}

/// Updates the endpoints of a slice that are still desired, and removes them from `desired`.
fn keep_in_place(
    inputs: &Inputs<'_>,
    slice: &EndpointSlice,
    desired: &mut BTreeMap<String, Endpoint>,
) -> KeptSlice {
    let mut endpoints = Vec::with_capacity(slice.endpoints.len());
    for endpoint in &slice.endpoints {
        // A slice may exceed the maximum after the maximum was lowered.
        if endpoints.len() >= inputs.endpoints_per_slice_max.max(1) {
            break;
        }
        if let Some(desired) = desired.remove(&identity(endpoint)) {
            endpoints.push(desired);
        }
    }
    if endpoints.is_empty() {
        return KeptSlice::Nothing;
    }
    let metadata = ObjectMeta {
        labels: labels_of(inputs.service),
        ..slice.metadata.clone()
    };
    if endpoints == slice.endpoints && metadata.labels == slice.metadata.labels {
        return KeptSlice::Unchanged;
    }
    KeptSlice::Changed(Box::new(EndpointSlice {
        metadata,
        endpoints,
        ..slice.clone()
    }))
}

#[cfg(test)]
mod tests;
