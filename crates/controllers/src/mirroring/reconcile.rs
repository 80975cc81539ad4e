//! The mirrored slices of Endpoints: a pure function of the caches.
//!
//! Endpoints are mirrored if their Service has no selector, and no label or annotation excludes them. Each set of ports
//! and IP family has one slice. An existing slice with the same ports is updated, and another one of the family is
//! reused before a slice is created. Addresses beyond the maximum and invalid ones are skipped and reported by an
//! Event.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use api::object::{
    AddressType, Endpoint, EndpointAddress, EndpointConditions, EndpointPort, EndpointSlice, Endpoints,
    Labels, ObjectMeta, OwnerReference, SERVICE_NAME_LABEL, Service, SubsetPort,
};
use reconcile::events::EventText;

use super::{MANAGED_BY, SKIP_MIRROR_LABEL};
use crate::endpoint_slice::slice::ports_key;
use crate::endpoint_slice::{MANAGED_BY_LABEL, SliceWrite, TRIGGER_TIME};
use crate::endpoints::LEADER_ANNOTATION;
use crate::endpoints::repack::repack;

/// Annotation of `kubectl apply`, which is not copied to slices (EPM-04).
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Inputs of [`reconcile()`].
pub(crate) struct Inputs<'a> {
    /// The Endpoints, if they exist.
    pub endpoints: Option<&'a Endpoints>,
    /// The Service of the same name, if it exists.
    pub service: Option<&'a Service>,
    /// The slices with the name and this controller's managed-by label.
    pub slices: &'a [&'a EndpointSlice],
    /// Upper bound of mirrored addresses in one subset (EPM-08).
    pub endpoints_per_subset_max: usize,
}

/// Counts for metrics (EPM-13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Endpoints that are added to slices.
    pub added: usize,
    /// Endpoints that change within their slices.
    pub updated: usize,
    /// Endpoints that are removed from slices.
    pub removed: usize,
    /// Addresses that are skipped: beyond the upper bound, or no valid IP address.
    pub skipped: usize,
    /// Desired endpoints.
    pub endpoints: usize,
    /// Slices after the writes.
    pub slices: usize,
    /// Desired slices.
    pub slices_desired: usize,
}

impl Counts {
    /// Returns true if nothing is mirrored and nothing was.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Counts the differences between the endpoints of a slice before and after a write.
    fn compare(&mut self, before: &[Endpoint], after: &[Endpoint]) {
        let by_address = |endpoint: &'_ Endpoint| endpoint.addresses.first().cloned();
        let known: HashMap<_, &Endpoint> = before
            .iter()
            .map(|endpoint| (by_address(endpoint), endpoint))
            .collect();
        let mut stays = 0;
        for endpoint in after {
            match known.get(&by_address(endpoint)) {
                None => self.added += 1,
                Some(before) => {
                    stays += 1;
                    self.updated += usize::from(*before != endpoint);
                }
            }
        }
        self.removed += before.len().saturating_sub(stays);
    }
}

/// The result of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SliceChanges {
    /// The writes, in an order that keeps every lasting endpoint visible.
    pub writes: Vec<SliceWrite>,
    /// Findings for Events on the Endpoints (EPM-08).
    pub events: Vec<EventText>,
    /// Counts for metrics.
    pub counts: Counts,
}

/// Computes the writes that bring the mirrored slices to their desired state. Without Endpoints to mirror all
/// slices are deleted (EPM-10).
pub(crate) fn reconcile(inputs: &Inputs<'_>) -> SliceChanges {
    // Endpoints of a slice that is being deleted need another slice.
    let is_live = |slice: &&EndpointSlice| slice.metadata.deletion_timestamp.is_none();
    let slices: Vec<&EndpointSlice> = inputs.slices.iter().copied().filter(is_live).collect();
    let mut changes = SliceChanges::default();
    let desired = match inputs.endpoints {
        Some(endpoints) if is_mirrored(endpoints, inputs.service) => {
            let desired = desired_slices(endpoints, inputs.endpoints_per_subset_max, &mut changes);
            desired.into_values().collect()
        }
        _ => Vec::new(),
    };
    let counts = &mut changes.counts;
    counts.slices_desired = desired.len();
    counts.slices = desired.len();
    counts.endpoints = desired.iter().map(|slice| slice.endpoints.len()).sum();
    changes.writes = writes(desired, &slices, counts);
    let is_deleted = |endpoints: &Endpoints| endpoints.metadata.deletion_timestamp.is_some();
    if inputs.endpoints.is_some_and(is_deleted) {
        // Foreground deletion of the Endpoints waits for the slices; new slices would block it without end.
        changes
            .writes
            .retain(|write| !matches!(write, SliceWrite::Create(_)));
    }
    changes
}

/// Returns true if the Endpoints have no controller and belong to a Service without selector (EPM-01,
/// EPM-02).
fn is_mirrored(endpoints: &Endpoints, service: Option<&Service>) -> bool {
    service.is_some_and(|service| service.spec.selector.is_empty())
        && endpoints
            .metadata
            .labels
            .get(SKIP_MIRROR_LABEL)
            .map(String::as_str)
            != Some("true")
        && !endpoints.metadata.annotations.contains_key(LEADER_ANNOTATION)
}

/// One slice for each port set and family (EPM-09).
type BySet = BTreeMap<(String, AddressType), EndpointSlice>;

/// Returns the endpoints to mirror, with at most `max` addresses of each subset.
fn desired_slices(endpoints: &Endpoints, max: usize, changes: &mut SliceChanges) -> BySet {
    let mut desired = BySet::new();
    let mut skipped = 0;
    let mut invalid: Vec<String> = Vec::new();
    for subset in repack(endpoints.subsets.clone()) {
        let ports: Vec<EndpointPort> = subset.ports.into_iter().map(port_of).collect();
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        let not_ready = subset
            .not_ready_addresses
            .into_iter()
            .map(|address| (address, false));
        let key = ports_key(&ports);
        let mut mirrored = 0;
        for (address, ready) in ready.chain(not_ready) {
            let Ok(ip) = address.ip.parse::<IpAddr>() else {
                invalid.push(address.ip.to_string());
                continue;
            };
            if mirrored == max {
                skipped += 1;
                continue;
            }
            mirrored += 1;
            let family = family_of(ip);
            let slice = desired
                .entry((key.clone(), family))
                .or_insert_with(|| new_slice(endpoints, family, ports.clone()));
            slice.endpoints.push(endpoint_of(address, ready));
        }
    }
    changes.counts.skipped = skipped + invalid.len();
    let events = &mut changes.events;
    // One Event covers all invalid addresses.
    if let Some(first) = invalid.first() {
        events.push(EventText::warning(
            "InvalidIPAddress",
            format!(
                "addresses that are not IP addresses are not mirrored to EndpointSlices: {first:?}, {} in all",
                invalid.len()
            ),
        ));
    }
    if skipped > 0 {
        events.push(EventText::warning(
            "TooManyAddressesToMirror",
            format!(
                "at most {max} addresses of a subset are mirrored to EndpointSlices; {skipped} were skipped"
            ),
        ));
    }
    desired
}

/// Matches desired and existing slices. A slice with the same ports and family is kept or updated. Otherwise any
/// slice of the family is reused. The remaining slices are deleted.
fn writes(desired: Vec<EndpointSlice>, slices: &[&EndpointSlice], counts: &mut Counts) -> Vec<SliceWrite> {
    let mut left: Vec<&EndpointSlice> = slices.to_vec();
    let mut missing = Vec::new();
    let (mut creates, mut updates) = (Vec::new(), Vec::new());
    for slice in desired {
        let key = ports_key(&slice.ports);
        let fits =
            |old: &&EndpointSlice| old.address_type == slice.address_type && ports_key(&old.ports) == key;
        match left.iter().position(fits) {
            Some(index) => {
                let old = left.swap_remove(index);
                counts.compare(&old.endpoints, &slice.endpoints);
                updates.extend(update_of(old, slice));
            }
            None => missing.push(slice),
        }
    }
    for slice in missing {
        match left.iter().position(|old| old.address_type == slice.address_type) {
            Some(index) => {
                let old = left.swap_remove(index);
                counts.compare(&old.endpoints, &slice.endpoints);
                updates.push(reuse(old, slice));
            }
            None => {
                counts.compare(&[], &slice.endpoints);
                creates.push(SliceWrite::Create(slice));
            }
        }
    }
    left.iter().for_each(|old| counts.compare(&old.endpoints, &[]));
    let deletes = left.iter().map(|old| SliceWrite::Delete(old.metadata.clone()));
    creates.into_iter().chain(updates).chain(deletes).collect()
}

/// Returns the write that updates an existing slice; `None` if it is current. As upstream, an updated slice
/// loses its `generateName`.
fn update_of(old: &EndpointSlice, desired: EndpointSlice) -> Option<SliceWrite> {
    let same = old.metadata.labels == desired.metadata.labels
        && old.metadata.annotations == desired.metadata.annotations
        && old.metadata.owner_references == desired.metadata.owner_references
        && ports_key(&old.ports) == ports_key(&desired.ports)
        && old.endpoints == desired.endpoints;
    let metadata = ObjectMeta {
        generate_name: String::new(),
        labels: desired.metadata.labels,
        annotations: desired.metadata.annotations,
        owner_references: desired.metadata.owner_references,
        ..old.metadata.clone()
    };
    let update = EndpointSlice { metadata, ..desired };
    (!same).then_some(SliceWrite::Update(update))
}

/// Returns the write that gives an existing slice other ports. As upstream, it has the `generateName` of a new slice.
fn reuse(old: &EndpointSlice, desired: EndpointSlice) -> SliceWrite {
    let metadata = ObjectMeta {
        name: old.metadata.name.clone(),
        uid: old.metadata.uid.clone(),
        resource_version: old.metadata.resource_version.clone(),
        ..desired.metadata
    };
    SliceWrite::Update(EndpointSlice { metadata, ..desired })
}

/// Returns an empty slice owned by the Endpoints (EPM-03 to EPM-05).
fn new_slice(endpoints: &Endpoints, address_type: AddressType, ports: Vec<EndpointPort>) -> EndpointSlice {
    let owner = &endpoints.metadata;
    let mut labels = owner.labels.clone();
    labels.insert(SERVICE_NAME_LABEL.to_owned(), owner.name.clone());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    let mut annotations: Labels = owner.annotations.clone();
    annotations.retain(|key, _| key != TRIGGER_TIME && key != LAST_APPLIED);
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: format!("{}-", owner.name),
            namespace: owner.namespace.clone(),
            labels,
            annotations,
            owner_references: vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Endpoints".to_owned(),
                name: owner.name.clone(),
                uid: owner.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }],
            ..ObjectMeta::default()
        },
        address_type,
        endpoints: Vec::new(),
        ports,
    }
}

/// Returns an address as an endpoint; only its readiness is known (EPM-06).
fn endpoint_of(address: EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip],
        conditions: EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        },
        hostname: (!address.hostname.is_empty()).then(|| address.hostname.into()),
        node_name: address.node_name,
        target_ref: address.target_ref,
        ..Endpoint::default()
    }
}

/// Returns the family of an address (EPM-07).
fn family_of(ip: IpAddr) -> AddressType {
    match ip {
        IpAddr::V4(_) => AddressType::IPv4,
        IpAddr::V6(_) => AddressType::IPv6,
    }
}

fn port_of(port: SubsetPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name),
        protocol: Some(port.protocol),
        port: Some(port.port),
        app_protocol: port.app_protocol,
    }
}

#[cfg(test)]
mod tests;
