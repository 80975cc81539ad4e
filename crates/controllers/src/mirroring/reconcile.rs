//! What the slices of Endpoints should become: a pure function from the world to the writes.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use api::object::{
    AddressType, Endpoint, EndpointAddress, EndpointConditions, EndpointPort, EndpointSlice, Endpoints,
    Labels, ObjectMeta, OwnerReference, SERVICE_NAME_LABEL, Service, SubsetPort,
};

use super::{MANAGED_BY, SKIP_MIRROR_LABEL};
use crate::endpoints::LEADER_ANNOTATION;
use crate::endpoints::repack::repack;
use crate::endpointslice::slice::ports_key;
use crate::endpointslice::{MANAGED_BY_LABEL, SliceWrite, TRIGGER_TIME};
use crate::events::Finding;

/// Annotation with which kubectl remembers what was applied to the Endpoints; it says nothing about a
/// slice (EPM-04).
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Everything that decides about the mirrored slices of one name.
pub struct Inputs<'a> {
    /// The Endpoints, if there are any.
    pub endpoints: Option<&'a Endpoints>,
    /// The Service of the same name, if there is one.
    pub service: Option<&'a Service>,
    /// The slices labelled with the name and this controller's managed-by value.
    pub slices: &'a [&'a EndpointSlice],
    /// Most addresses of one subset that are mirrored (EPM-08).
    pub endpoints_per_subset_max: usize,
}

/// What is counted of a reconcile (EPM-13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Endpoints that come into slices.
    pub added: usize,
    /// Endpoints that stay in their slices and change.
    pub updated: usize,
    /// Endpoints that leave slices.
    pub removed: usize,
    /// Addresses that are not mirrored: too many, or no IP addresses.
    pub skipped: usize,
    /// Endpoints that are wanted.
    pub endpoints: usize,
    /// Slices that there are afterwards.
    pub slices: usize,
    /// Slices that are wanted.
    pub slices_desired: usize,
}

impl Counts {
    /// Whether there is nothing to mirror, and nothing was mirrored.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Counts what becomes of a slice's endpoints.
    fn compare(&mut self, before: &[Endpoint], after: &[Endpoint]) {
        let by_address = |endpoint: &'_ Endpoint| endpoint.addresses.first().cloned();
        let known: HashMap<_, &Endpoint> = before.iter().map(|e| (by_address(e), e)).collect();
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

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The writes, in the order in which no endpoint that stays is missing for a moment.
    pub writes: Vec<SliceWrite>,
    /// What the owner of the Endpoints should know (EPM-08).
    pub findings: Vec<Finding>,
    /// What is counted of it.
    pub counts: Counts,
}

/// Computes the writes that bring the mirrored slices to what the Endpoints say. Without Endpoints to
/// mirror, all slices go (EPM-10).
pub fn reconcile(inputs: &Inputs<'_>) -> Outcome {
    // What is in a slice that is being deleted is on its way out, and must get a place elsewhere.
    let is_live = |slice: &&EndpointSlice| slice.metadata.deletion_timestamp.is_none();
    let slices: Vec<&EndpointSlice> = inputs.slices.iter().copied().filter(is_live).collect();
    let mut outcome = Outcome::default();
    let wanted = match inputs.endpoints {
        Some(endpoints) if is_mirrored(endpoints, inputs.service) => {
            let wanted = wanted_slices(endpoints, inputs.endpoints_per_subset_max, &mut outcome);
            wanted.into_values().collect()
        }
        _ => Vec::new(),
    };
    let counts = &mut outcome.counts;
    counts.slices_desired = wanted.len();
    counts.slices = wanted.len();
    counts.endpoints = wanted.iter().map(|slice| slice.endpoints.len()).sum();
    outcome.writes = writes(wanted, &slices, counts);
    let is_deleted = |endpoints: &Endpoints| endpoints.metadata.deletion_timestamp.is_some();
    if inputs.endpoints.is_some_and(is_deleted) {
        // The deletion may wait until the slices are gone; new ones would make it wait for ever.
        outcome
            .writes
            .retain(|write| !matches!(write, SliceWrite::Create(_)));
    }
    outcome
}

/// Whether these Endpoints are somebody's own, for a Service that asks for them (EPM-01, EPM-02).
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

/// One slice for each port set and family (EPM-09), with a place for every existing one to match.
type BySet = BTreeMap<(String, AddressType), EndpointSlice>;

fn wanted_slices(endpoints: &Endpoints, max: usize, outcome: &mut Outcome) -> BySet {
    let mut wanted = BySet::new();
    let mut skipped = 0;
    let mut invalid: Vec<String> = Vec::new();
    for subset in repack(endpoints.subsets.clone()) {
        let ports: Vec<EndpointPort> = subset.ports.into_iter().map(port_of).collect();
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        let not_ready = subset
            .not_ready_addresses
            .into_iter()
            .map(|address| (address, false));
        let mut mirrored = 0;
        for (address, ready) in ready.chain(not_ready) {
            let Ok(ip) = address.ip.parse::<IpAddr>() else {
                invalid.push(address.ip);
                continue;
            };
            if mirrored == max {
                skipped += 1;
                continue;
            }
            mirrored += 1;
            let family = family_of(ip);
            let slice = wanted
                .entry((ports_key(&ports), family))
                .or_insert_with(|| new_slice(endpoints, family, ports.clone()));
            slice.endpoints.push(endpoint_of(address, ready));
        }
    }
    outcome.counts.skipped = skipped + invalid.len();
    let findings = &mut outcome.findings;
    // One Event for all of them, however many somebody wrote.
    if let Some(first) = invalid.first() {
        findings.push(Finding::warning(
            "InvalidIPAddress",
            format!(
                "addresses that are no IP addresses are not mirrored to EndpointSlices: {first:?}, {} in all",
                invalid.len()
            ),
        ));
    }
    if skipped > 0 {
        findings.push(Finding::warning(
            "TooManyAddressesToMirror",
            format!(
                "at most {max} addresses of a subset are mirrored to EndpointSlices; {skipped} were skipped"
            ),
        ));
    }
    wanted
}

/// Matches what is wanted with what is there: a slice of the same ports and family is kept or updated,
/// any other of the family is re-used, and what is then left over goes.
fn writes(wanted: Vec<EndpointSlice>, slices: &[&EndpointSlice], counts: &mut Counts) -> Vec<SliceWrite> {
    let mut left: Vec<&EndpointSlice> = slices.to_vec();
    let mut missing = Vec::new();
    let (mut creates, mut updates) = (Vec::new(), Vec::new());
    for slice in wanted {
        let key = ports_key(&slice.ports);
        let fits =
            |old: &&EndpointSlice| old.address_type == slice.address_type && ports_key(&old.ports) == key;
        match left.iter().position(fits) {
            Some(place) => {
                let old = left.swap_remove(place);
                counts.compare(&old.endpoints, &slice.endpoints);
                updates.extend(update_of(old, slice));
            }
            None => missing.push(slice),
        }
    }
    for slice in missing {
        match left.iter().position(|old| old.address_type == slice.address_type) {
            Some(place) => {
                let old = left.swap_remove(place);
                counts.compare(&old.endpoints, &slice.endpoints);
                updates.extend(update_of(old, slice));
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

/// The write that makes an existing slice say what is wanted, or none if it does. As upstream has it, a
/// slice that was updated forgets the prefix of its name.
fn update_of(old: &EndpointSlice, wanted: EndpointSlice) -> Option<SliceWrite> {
    let same = old.metadata.labels == wanted.metadata.labels
        && old.metadata.annotations == wanted.metadata.annotations
        && old.metadata.owner_references == wanted.metadata.owner_references
        && ports_key(&old.ports) == ports_key(&wanted.ports)
        && old.endpoints == wanted.endpoints;
    let metadata = ObjectMeta {
        generate_name: String::new(),
        labels: wanted.metadata.labels,
        annotations: wanted.metadata.annotations,
        owner_references: wanted.metadata.owner_references,
        ..old.metadata.clone()
    };
    let update = EndpointSlice { metadata, ..wanted };
    (!same).then_some(SliceWrite::Update(update))
}

/// An empty slice that belongs to the Endpoints (EPM-03 to EPM-05).
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

/// One address as an endpoint; only its readiness is known (EPM-06).
fn endpoint_of(address: EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.into()],
        conditions: EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        },
        hostname: (!address.hostname.is_empty()).then_some(address.hostname),
        node_name: address.node_name.map(Into::into),
        target_ref: address.target_ref,
        ..Endpoint::default()
    }
}

/// The slices of which family an address goes to (EPM-07).
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
