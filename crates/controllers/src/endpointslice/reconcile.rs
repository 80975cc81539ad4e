//! What a Service's slices should become: a pure function from the world to the writes.
//!
//! Packing (EPS-12): an endpoint stays in the slice where it is; new ones fill slices that are being
//! written anyway, the fullest first; if what is left fits into one slice that is not, the best-fitting
//! one takes it; else new slices are made. Slices are never merged: a write saved is worth more to
//! thousands of watchers than a slice saved.

use std::collections::{BTreeMap, HashMap};

use api::object::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Labels, ObjectMeta, OwnerReference, Pod,
    SERVICE_NAME_LABEL, Service,
};

use super::endpoint::{endpoint_of, is_candidate, ports_of};
use super::{HEADLESS_LABEL, MANAGED_BY, MANAGED_BY_LABEL, TRIGGER_TIME};

/// Everything that decides about the slices of one Service.
pub struct Inputs<'a> {
    /// The Service; it has a selector and is not of type ExternalName.
    pub service: &'a Service,
    /// The Pods that its selector chooses.
    pub pods: &'a [&'a Pod],
    /// The zone of each known Node, by the Node's name.
    pub node_zones: &'a dyn Fn(&str) -> Option<Option<String>>,
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
    /// A slice to remove, by its name.
    Delete(String),
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The writes, in no order that matters.
    pub writes: Vec<SliceWrite>,
    /// Pods that were left out because their Node is not known (yet); look again later (EPS-08).
    pub pods_without_node: Vec<String>,
}

/// Computes the writes that bring the slices of a Service to what its Pods say.
pub fn reconcile(inputs: &Inputs<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let families = address_types(inputs.service);
    let mut plan = Writes::default();
    for slice in inputs.slices {
        if !is_owned(slice, inputs.service) || !families.contains(&slice.address_type) {
            plan.deletes.push((*slice).clone());
        }
    }
    for &family in &families {
        reconcile_family(inputs, family, &mut plan, &mut outcome.pods_without_node);
    }
    outcome.writes = plan.finish(inputs);
    outcome
}

/// The writes of all families, before deletions and creations are matched up.
#[derive(Default)]
struct Writes {
    creates: Vec<EndpointSlice>,
    updates: Vec<EndpointSlice>,
    deletes: Vec<EndpointSlice>,
}

impl Writes {
    /// A slice to delete is re-used for one to create, if type and owner allow it (EPS-13), and a
    /// Service that is being deleted gets no new slices (EPS-15).
    fn finish(mut self, inputs: &Inputs<'_>) -> Vec<SliceWrite> {
        if inputs.service.metadata.deletion_timestamp.is_some() {
            self.creates.clear();
        }
        let mut kept = Vec::new();
        for slice in self.deletes {
            let reusable = is_owned(&slice, inputs.service) && slice.metadata.deletion_timestamp.is_none();
            let place = self
                .creates
                .iter()
                .position(|c| reusable && c.address_type == slice.address_type);
            match place {
                Some(index) => {
                    let wanted = self.creates.swap_remove(index);
                    self.updates.push(EndpointSlice {
                        metadata: merged(&slice, &wanted),
                        ..wanted
                    });
                }
                None => kept.push(slice),
            }
        }
        let stamp = |mut slice: EndpointSlice| {
            match inputs.trigger_time {
                Some(time) => slice
                    .metadata
                    .annotations
                    .insert(TRIGGER_TIME.to_owned(), time.to_owned()),
                None => slice.metadata.annotations.remove(TRIGGER_TIME),
            };
            slice
        };
        let deletes = kept
            .into_iter()
            .map(|slice| SliceWrite::Delete(slice.metadata.name));
        let updates = self
            .updates
            .into_iter()
            .map(|slice| SliceWrite::Update(stamp(slice)));
        let creates = self
            .creates
            .into_iter()
            .map(|slice| SliceWrite::Create(stamp(slice)));
        // Endpoints appear before they vanish, so that no moment has fewer than there are.
        creates.chain(updates).chain(deletes).collect()
    }
}

/// Endpoints that serve the same ports share slices.
struct PortSet {
    ports: Vec<EndpointPort>,
    desired: BTreeMap<String, Endpoint>,
}

fn reconcile_family(inputs: &Inputs<'_>, family: AddressType, plan: &mut Writes, unplaced: &mut Vec<String>) {
    let mut sets = desired_sets(inputs, family, unplaced);
    let mut existing: HashMap<String, Vec<&EndpointSlice>> = HashMap::new();
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
            plan.deletes.extend(slices.iter().map(|slice| (*slice).clone()));
        }
    }
    for (key, set) in sets {
        let slices = existing.get(&key).map(Vec::as_slice).unwrap_or_default();
        pack(inputs, family, set, slices, plan);
    }
}

fn desired_sets(
    inputs: &Inputs<'_>,
    family: AddressType,
    unplaced: &mut Vec<String>,
) -> BTreeMap<String, PortSet> {
    let mut sets: BTreeMap<String, PortSet> = BTreeMap::new();
    for pod in inputs.pods.iter().filter(|pod| is_candidate(pod)) {
        let zone = match (inputs.node_zones)(&pod.spec.node_name) {
            _ if pod.spec.node_name.is_empty() => None,
            Some(zone) => zone,
            None if inputs.service.spec.publish_not_ready_addresses => None,
            None => {
                unplaced.push(pod.metadata.name.clone());
                continue;
            }
        };
        let Some(endpoint) = endpoint_of(pod, inputs.service, family, zone.as_deref()) else {
            continue;
        };
        let ports = ports_of(pod, inputs.service);
        let set = sets.entry(ports_key(&ports)).or_insert_with(|| PortSet {
            ports,
            desired: BTreeMap::new(),
        });
        set.desired.insert(identity(&endpoint), endpoint);
    }
    sets
}

/// Distributes the endpoints of one port set over its slices.
fn pack(
    inputs: &Inputs<'_>,
    family: AddressType,
    set: PortSet,
    slices: &[&EndpointSlice],
    plan: &mut Writes,
) {
    let PortSet { ports, mut desired } = set;
    let placeholder = desired.is_empty();
    let mut unchanged: Vec<EndpointSlice> = Vec::new();
    let mut changing: Vec<EndpointSlice> = Vec::new();
    for slice in slices {
        match keep_in_place(inputs, slice, &mut desired) {
            Kept::Same => unchanged.push((*slice).clone()),
            Kept::Changed(slice) => changing.push(*slice),
            Kept::Nothing => plan.deletes.push((*slice).clone()),
        }
    }
    if placeholder && unchanged.is_empty() && changing.is_empty() {
        plan.keep_placeholder(new_slice(inputs, family, Vec::new()), slices);
        return;
    }
    let mut rest: Vec<Endpoint> = desired.into_values().collect();
    let max = inputs.endpoints_per_slice_max.max(1);
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

impl Writes {
    /// A family without endpoints keeps exactly one empty slice (EPS-10): the first of those that would
    /// go, or a new one.
    fn keep_placeholder(&mut self, wanted: EndpointSlice, slices: &[&EndpointSlice]) {
        let kept = slices.iter().find(|slice| {
            slice.ports.is_empty()
                && slice.endpoints.is_empty()
                && slice.metadata.labels == wanted.metadata.labels
        });
        match kept {
            Some(kept) => self
                .deletes
                .retain(|slice| slice.metadata.name != kept.metadata.name),
            None => self.creates.push(wanted),
        }
    }
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

fn new_slice(inputs: &Inputs<'_>, family: AddressType, ports: Vec<EndpointPort>) -> EndpointSlice {
    let service = &inputs.service.metadata;
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: format!("{}-", service.name),
            namespace: service.namespace.clone(),
            labels: labels_of(inputs.service),
            owner_references: vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Service".to_owned(),
                name: service.name.clone(),
                uid: service.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }],
            ..ObjectMeta::default()
        },
        address_type: family,
        endpoints: Vec::new(),
        ports,
    }
}

/// The metadata of a slice that takes over another content.
fn merged(old: &EndpointSlice, wanted: &EndpointSlice) -> ObjectMeta {
    ObjectMeta {
        labels: wanted.metadata.labels.clone(),
        ..old.metadata.clone()
    }
}

/// The Service's labels, except those that slices have a meaning of their own for, and ours (EPS-03).
fn labels_of(service: &Service) -> Labels {
    let reserved = [SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL];
    let mut labels = service.metadata.labels.clone();
    labels.retain(|key, _| !reserved.contains(&key.as_str()));
    labels.insert(SERVICE_NAME_LABEL.to_owned(), service.metadata.name.clone());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    if service.spec.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels
}

fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice
        .metadata
        .controller()
        .is_some_and(|owner| owner.kind == "Service" && owner.uid == service.metadata.uid)
}

/// The families in which a Service has slices (EPS-01).
fn address_types(service: &Service) -> Vec<AddressType> {
    let of = |family: &String| {
        if family == "IPv6" {
            AddressType::IPv6
        } else {
            AddressType::IPv4
        }
    };
    if !service.spec.ip_families.is_empty() {
        return service.spec.ip_families.iter().map(of).collect();
    }
    // Objects from before dual stack: the cluster IP tells.
    let is_v6 = service.spec.cluster_ip.contains(':');
    vec![if is_v6 {
        AddressType::IPv6
    } else {
        AddressType::IPv4
    }]
}

/// What makes an endpoint the same endpoint, whatever its conditions.
fn identity(endpoint: &Endpoint) -> String {
    let target = endpoint.target_ref.as_ref();
    format!(
        "{}|{}|{}",
        target.map_or("", |t| t.uid.as_str()),
        target.map_or("", |t| t.name.as_str()),
        endpoint.addresses.join(",")
    )
}

/// A port set as a map key, in one order whatever the ports' own (EPS-09).
fn ports_key(ports: &[EndpointPort]) -> String {
    let mut keys: Vec<String> = ports
        .iter()
        .map(|p| {
            let protocol = p.protocol.unwrap_or_default().as_str();
            let (name, app) = (
                p.name.as_deref().unwrap_or(""),
                p.app_protocol.as_deref().unwrap_or(""),
            );
            format!("{name}/{protocol}/{:?}/{app}", p.port)
        })
        .collect();
    keys.sort_unstable();
    keys.join(",")
}

#[cfg(test)]
mod tests;
