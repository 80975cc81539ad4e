//! Elements of the maps for each Service, and the edits between two states. A changed group of endpoints gets a new
//! generation. Its endpoints come first, then the change of its frontends, then the deletion of the former endpoints.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use api::object::ObjectKey;
use plan::{Plan, PortKey};

use super::frontends::{Group, KernelFeatures, groups};
use super::layout::{FRONTEND_BYTES, PackedGeneration, SOCKET_BYTES, frontend_bytes, socket_bytes};

/// State of the maps in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelState {
    /// Frontends with their values.
    pub frontends: HashMap<SocketAddr, (PackedGeneration, u32)>,
    /// Endpoints by key.
    pub endpoints: HashMap<[u8; 8], SocketAddr>,
    /// Numbers of the counters.
    pub counters: HashSet<u32>,
}

/// Changes of the maps. Writing them in the order of the fields leaves a valid state at each moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edit {
    /// Counters to add.
    pub added_counters: Vec<u32>,
    /// Endpoints to add.
    pub added_endpoints: Vec<([u8; 8], SocketAddr)>,
    /// Frontends to add or change.
    pub changed_frontends: HashMap<SocketAddr, (PackedGeneration, u32)>,
    /// Frontends to delete.
    pub deleted_frontends: HashSet<SocketAddr>,
    /// Endpoints to delete.
    pub deleted_endpoints: Vec<[u8; 8]>,
    /// Counters to delete.
    pub deleted_counters: Vec<u32>,
}

impl Edit {
    /// Returns the number of elements.
    pub(super) fn elements(&self) -> usize {
        self.added_endpoints.len()
            + self.changed_frontends.len()
            + self.deleted_frontends.len()
            + self.deleted_endpoints.len()
            + self.added_counters.len()
            + self.deleted_counters.len()
    }

    /// Returns keys and values of the added endpoints as bytes.
    pub(super) fn endpoint_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let mut keys = Vec::with_capacity(self.added_endpoints.len() * 8);
        let mut values = Vec::with_capacity(self.added_endpoints.len() * SOCKET_BYTES);
        for (key, endpoint) in &self.added_endpoints {
            keys.extend_from_slice(key);
            values.extend_from_slice(&socket_bytes(*endpoint));
        }
        (keys, values)
    }

    /// Returns keys and values of the changed frontends as bytes.
    pub(super) fn frontend_bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let mut keys = Vec::with_capacity(self.changed_frontends.len() * SOCKET_BYTES);
        let mut values = Vec::with_capacity(self.changed_frontends.len() * FRONTEND_BYTES);
        for (frontend, (packed, counter)) in &self.changed_frontends {
            keys.extend_from_slice(&socket_bytes(*frontend));
            values.extend_from_slice(&frontend_bytes(*packed, *counter));
        }
        (keys, values)
    }
}

/// A group with its elements.
#[derive(Clone, Debug)]
struct AppliedGroup {
    group: Group,
    packed: PackedGeneration,
    counter: u32,
}

impl AppliedGroup {
    fn endpoints(&self) -> impl Iterator<Item = ([u8; 8], SocketAddr)> {
        let endpoints = self.group.endpoints.iter().enumerate();
        endpoints.map(|(index, endpoint)| (self.packed.endpoint_key(index), *endpoint))
    }
}

/// Groups of all Services with their elements.
#[derive(Debug, Default)]
pub(super) struct Services {
    applied: HashMap<ObjectKey, Vec<AppliedGroup>>,
    /// Generations and counters in use are smaller.
    generation: u64,
    counter: u32,
    features: KernelFeatures,
}

impl Services {
    /// Creates an empty state.
    pub(super) fn new(features: KernelFeatures) -> Self {
        Self {
            features,
            ..Self::default()
        }
    }

    /// Returns the number of frontends.
    pub(super) fn frontends(&self) -> usize {
        let applied = self.applied.values().flatten();
        applied.map(|applied| applied.group.frontends.len()).sum()
    }

    /// Returns the Service port of each counter.
    pub(super) fn counters(&self) -> HashMap<u32, &PortKey> {
        let applied = self.applied.values().flatten();
        applied
            .map(|applied| (applied.counter, &applied.group.port))
            .collect()
    }

    /// Changes Services to their state in the plan.
    pub(super) fn change<'a>(
        &mut self,
        plan: &Plan,
        services: impl IntoIterator<Item = &'a ObjectKey>,
    ) -> Edit {
        let mut edit = Edit::default();
        for service in services {
            let former = self.applied.remove(service).unwrap_or_default();
            let applied = self.assign_elements(groups(plan, service, self.features), &former, &mut edit);
            // A Service has room for tens of thousands of ports.
            let left: HashSet<&SocketAddr> = applied.iter().flat_map(|now| &now.group.frontends).collect();
            let packed_generations: HashSet<PackedGeneration> =
                applied.iter().map(|now| now.packed).collect();
            let counters: HashSet<u32> = applied.iter().map(|now| now.counter).collect();
            for gone in &former {
                let frontends = gone.group.frontends.iter();
                edit.deleted_frontends
                    .extend(frontends.filter(|at| !left.contains(at)).copied());
                if !packed_generations.contains(&gone.packed) {
                    edit.deleted_endpoints
                        .extend(gone.endpoints().map(|(key, _)| key));
                }
                if !counters.contains(&gone.counter) {
                    edit.deleted_counters.push(gone.counter);
                }
            }
            if !applied.is_empty() {
                self.applied.insert(service.clone(), applied);
            }
        }
        // Another Service may have got the frontend.
        let Edit {
            changed_frontends,
            deleted_frontends,
            ..
        } = &mut edit;
        deleted_frontends.retain(|at| !changed_frontends.contains_key(at));
        edit
    }

    /// Compares the kernel with the plan. The kernel's elements stay where they are right, so open and new connections
    /// are not affected.
    pub(super) fn reconcile(&mut self, plan: &Plan, kernel: &KernelState) -> Edit {
        let frontends = kernel.frontends.values();
        let (generation, counter) = frontends
            .fold((self.generation, self.counter), |(generation, counter), now| {
                (generation.max(now.0.generation() + 1), counter.max(now.1 + 1))
            });
        let endpoint_generations = kernel
            .endpoints
            .keys()
            .map(|key| PackedGeneration(u64::from_ne_bytes(*key)).generation() + 1);
        self.generation = endpoint_generations.fold(generation.max(1), u64::max);
        self.counter = kernel
            .counters
            .iter()
            .map(|known| known + 1)
            .fold(counter, u32::max);
        self.applied.clear();
        let mut edit = Edit::default();
        let mut used = HashSet::new();
        for service in plan.services() {
            let groups = groups(plan, service, self.features);
            let found = groups.iter().filter_map(|group| {
                let (packed, counter) = found_in(kernel, group)?;
                // Refusals share one generation.
                let is_free = used.insert(counter);
                is_free.then(|| AppliedGroup {
                    group: Group {
                        frontends: Vec::new(),
                        ..group.clone()
                    },
                    packed,
                    counter,
                })
            });
            let found: Vec<AppliedGroup> = found.collect();
            let applied = self.assign_elements(groups, &found, &mut edit);
            if !applied.is_empty() {
                self.applied.insert(service.clone(), applied);
            }
        }
        edit.changed_frontends
            .retain(|at, value| kernel.frontends.get(at) != Some(value));
        self.add_leftovers(kernel, &mut edit);
        edit
    }

    /// Adds the entries that only the kernel has, or that it lacks.
    fn add_leftovers(&self, kernel: &KernelState, edit: &mut Edit) {
        let applied = || self.applied.values().flatten();
        let frontends: HashSet<SocketAddr> = applied()
            .flat_map(|applied| applied.group.frontends.iter().copied())
            .collect();
        let endpoints: HashSet<[u8; 8]> = applied()
            .flat_map(|applied| applied.endpoints().map(|(key, _)| key))
            .collect();
        let counters: HashSet<u32> = applied().map(|applied| applied.counter).collect();
        let gone = kernel.frontends.keys().filter(|at| !frontends.contains(at));
        edit.deleted_frontends.extend(gone.copied());
        let gone = kernel.endpoints.keys().filter(|key| !endpoints.contains(*key));
        edit.deleted_endpoints.extend(gone.copied());
        edit.deleted_counters
            .extend(kernel.counters.difference(&counters));
        edit.added_counters = counters.difference(&kernel.counters).copied().collect();
    }

    /// Gives groups their elements: those of a former state if the endpoints are the same, new ones otherwise.
    fn assign_elements(
        &mut self,
        groups: Vec<Group>,
        former: &[AppliedGroup],
        edit: &mut Edit,
    ) -> Vec<AppliedGroup> {
        let former: HashMap<_, &AppliedGroup> = former
            .iter()
            .map(|former| (former.group.identity(), former))
            .collect();
        let applied = groups.into_iter().map(|group| {
            let known = former.get(&group.identity()).copied();
            let packed = match known {
                _ if group.set.is_none() => PackedGeneration::REFUSE,
                Some(known) if known.group.endpoints == group.endpoints => known.packed,
                _ => {
                    self.generation = self.generation.max(1) + 1;
                    PackedGeneration::new(self.generation - 1, group.endpoints.len())
                }
            };
            let counter = known.map(|known| known.counter).unwrap_or_else(|| {
                self.counter = self.counter.wrapping_add(1);
                edit.added_counters.push(self.counter.wrapping_sub(1));
                self.counter.wrapping_sub(1)
            });
            let applied = AppliedGroup {
                group,
                packed,
                counter,
            };
            if known.is_none_or(|known| known.packed != packed) {
                edit.added_endpoints.extend(applied.endpoints());
            }
            let known = known.filter(|known| known.packed == packed);
            let known: HashSet<&SocketAddr> = known.iter().flat_map(|known| &known.group.frontends).collect();
            for at in &applied.group.frontends {
                if !known.contains(at) {
                    edit.changed_frontends.insert(*at, (packed, counter));
                }
            }
            applied
        });
        applied.collect()
    }
}

/// Returns the elements of a group if the kernel has them as they should be.
fn found_in(kernel: &KernelState, group: &Group) -> Option<(PackedGeneration, u32)> {
    let mut values = group.frontends.iter().map(|at| kernel.frontends.get(at).copied());
    let first = values.next()??;
    let (packed, _) = first;
    let has_endpoints = || {
        let mut endpoints = group.endpoints.iter().enumerate();
        endpoints.all(|(index, endpoint)| kernel.endpoints.get(&packed.endpoint_key(index)) == Some(endpoint))
    };
    let is_same = values.all(|value| value == Some(first))
        && packed.count() == group.endpoints.len()
        && (group.set.is_none() || packed.generation() > 0)
        && has_endpoints();
    is_same.then_some(first)
}

#[cfg(test)]
mod tests;
