//! Which endpoint goes to which slice (EPS-12).
//!
//! An endpoint stays in the slice where it is; new ones fill slices that are being written anyway, the
//! fullest first; if what is left fits into one slice that is not, the best-fitting one takes it; else
//! new slices are made. Slices are never merged: a write saved is worth more to thousands of watchers
//! than a slice saved.

use std::collections::BTreeMap;

use api::object::{AddressType, Endpoint, EndpointPort, EndpointSlice, ObjectMeta};

use super::reconcile::Inputs;
use super::slice::{identity, labels_of, new_slice};
use super::writes::Writes;

/// Endpoints that serve the same ports share slices.
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
    plan: &mut Writes,
) {
    let PortSet { ports, mut desired } = set;
    let placeholder = desired.is_empty();
    let max = inputs.endpoints_per_slice_max.max(1);
    plan.counts.endpoints += desired.len();
    plan.counts.slices_desired += desired.len().div_ceil(max).max(1);
    let mut unchanged: Vec<EndpointSlice> = Vec::new();
    let mut changing: Vec<EndpointSlice> = Vec::new();
    for slice in slices {
        match keep_in_place(inputs, slice, &mut desired) {
            Kept::Same => unchanged.push((*slice).clone()),
            Kept::Changed(kept) => {
                plan.counts.removed += slice.endpoints.len() - kept.endpoints.len();
                changing.push(*kept);
            }
            Kept::Nothing => plan.delete(slice),
        }
    }
    if placeholder && unchanged.is_empty() && changing.is_empty() {
        plan.keep_placeholder(new_slice(inputs, family, Vec::new()), slices);
        return;
    }
    let mut rest: Vec<Endpoint> = desired.into_values().collect();
    plan.counts.added += rest.len();
    changing.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
    for slice in &mut changing {
        let room = max.saturating_sub(slice.endpoints.len()).min(rest.len());
        slice.endpoints.extend(rest.drain(..room));
    }
    // Whole slices first, so that only a remainder looks for room in a slice that would not be written.
    while rest.len() >= max {
        let full: Vec<Endpoint> = rest.drain(..max).collect();
        plan.creates.push(EndpointSlice {
            endpoints: full,
            ..new_slice(inputs, family, ports.clone())
        });
    }
    if !rest.is_empty() {
        let fits = |slice: &&mut EndpointSlice| slice.endpoints.len() + rest.len() <= max;
        match unchanged
            .iter_mut()
            .filter(fits)
            .max_by_key(|slice| slice.endpoints.len())
        {
            Some(slice) => {
                let mut slice = slice.clone();
                slice.endpoints.extend(rest);
                changing.push(slice);
            }
            None => plan.creates.push(EndpointSlice {
                endpoints: rest,
                ..new_slice(inputs, family, ports)
            }),
        }
    }
    plan.updates.extend(changing);
}

enum Kept {
    Same,
    Changed(Box<EndpointSlice>),
    Nothing,
}

/// Keeps in a slice the endpoints that are still wanted, as they are now, and takes them from `desired`.
fn keep_in_place(
    inputs: &Inputs<'_>,
    slice: &EndpointSlice,
    desired: &mut BTreeMap<String, Endpoint>,
) -> Kept {
    let mut endpoints = Vec::with_capacity(slice.endpoints.len());
    for endpoint in &slice.endpoints {
        // More than the maximum may be there if the maximum was lowered.
        if endpoints.len() >= inputs.endpoints_per_slice_max.max(1) {
            break;
        }
        if let Some(wanted) = desired.remove(&identity(endpoint)) {
            endpoints.push(wanted);
        }
    }
    if endpoints.is_empty() {
        return Kept::Nothing;
    }
    let metadata = ObjectMeta {
        labels: labels_of(inputs.service),
        ..slice.metadata.clone()
    };
    if endpoints == slice.endpoints && metadata.labels == slice.metadata.labels {
        return Kept::Same;
    }
    Kept::Changed(Box::new(EndpointSlice {
        metadata,
        endpoints,
        ..slice.clone()
    }))
}

#[cfg(test)]
mod tests;
