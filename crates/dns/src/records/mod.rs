//! The records of the cluster zone: an index from names and addresses to the parts of answers.
//!
//! One writer applies objects as they come; any number of readers answer at the same time. A change
//! locks the one shard that it concerns, for as long as it takes to put a prepared value in its place.

mod addresses;
mod describe;
mod grammar;
mod locations;
mod metadata;
mod name_servers;
mod names;
mod pod;
mod pods;
mod resolve;
mod reverse;
mod saved;
mod select;
mod service;
mod whole;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use api::object::{EndpointSlice, ObjectKey, Pod, Service};

pub use metadata::Metadata;
pub use pods::{PodIdentity, PodNames};
pub use resolve::{Resolution, Scratch};
pub use saved::SavedError;
pub use whole::ZoneRecord;

use crate::wire::{Name, NameError};
use pods::Pods;
use reverse::Reverse;
use service::{Endpoint, Entry, Facts, ServiceKey, Slice};

/// Parts of the index that are locked apart, so that a change hardly ever meets a query.
const SHARDS: usize = 64;

/// What the index must be told besides objects.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The zone, `cluster.local` by default; in lower case.
    pub cluster_domain: Name,
    /// Seconds for which answers may be kept (DNS-24: 5 by default).
    pub ttl_seconds: u32,
    /// Addresses that the server is reached at, without loopback ones: the zone's name servers (DNS-18).
    pub own_addresses: Vec<IpAddr>,
    /// First serial number of the zone; it grows with every change.
    pub serial: u32,
    /// Which names of Pods are answered.
    pub pods: PodNames,
    /// Whether endpoints without a host name are named after their Pods, and not after their addresses
    /// (`endpoint_pod_names` of CoreDNS).
    pub endpoint_pod_names: bool,
    /// Whether only Services and Pods of namespaces that were applied are answered, because not all of them are
    /// told (`namespaces` and `namespace_labels` of CoreDNS, DNS-24).
    pub only_known_namespaces: bool,
    /// Whether a cluster IP is answered only while the Service has an endpoint (`ignore empty_service` of CoreDNS).
    pub ignore_empty_services: bool,
}

impl Settings {
    /// The settings of a zone without anything out of the ordinary.
    pub fn of(cluster_domain: Name) -> Self {
        Self {
            cluster_domain,
            ttl_seconds: 5,
            own_addresses: Vec::new(),
            serial: 1,
            pods: PodNames::default(),
            endpoint_pod_names: false,
            only_known_namespaces: false,
            ignore_empty_services: false,
        }
    }
}

/// The index.
#[derive(Debug)]
pub struct Index {
    settings: Settings,
    services: Box<[RwLock<HashMap<ServiceKey, Entry>>]>,
    hasher: RandomState,
    namespaces: RwLock<HashSet<Box<[u8]>>>,
    cluster_ips: Reverse,
    endpoints: Reverse,
    pods: Pods,
    /// The Service that each known slice is of. Also held by whoever changes anything.
    slices: Mutex<HashMap<ObjectKey, ServiceKey>>,
    serial: AtomicU32,
    synced: AtomicBool,
}

impl Index {
    /// An index without records, which fails every query until [`Index::set_synced`].
    pub fn new(settings: Settings) -> Self {
        let serial = AtomicU32::new(settings.serial);
        Self {
            settings,
            services: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            namespaces: RwLock::default(),
            cluster_ips: Reverse::new(),
            endpoints: Reverse::new(),
            pods: Pods::default(),
            slices: Mutex::default(),
            serial,
            synced: AtomicBool::new(false),
        }
    }

    /// Says that all objects of one moment have been applied. Before, nothing can be known not to exist,
    /// so queries for the zone fail (DNS-16).
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Whether [`Index::set_synced`] was called.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// The zone, in lower case.
    pub fn cluster_domain(&self) -> &Name {
        &self.settings.cluster_domain
    }

    /// Seconds for which answers may be kept.
    pub fn ttl_seconds(&self) -> u32 {
        self.settings.ttl_seconds
    }

    /// The zone's serial number.
    pub fn serial(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Applies a new or changed Pod.
    pub fn apply_pod(&self, pod: &Pod) -> Result<(), NameError> {
        self.pods.apply(pod)
    }

    /// Forgets a Pod.
    pub fn remove_pod(&self, key: &ObjectKey) {
        self.pods.remove(key);
    }

    /// Whether a Service is headless.
    pub(crate) fn is_headless(&self, service: &ObjectKey) -> bool {
        let Ok(key) = ServiceKey::new(service) else {
            return false;
        };
        self.with_entry(key.labels(), |entry| {
            let facts = entry.and_then(|entry| entry.service.as_ref());
            facts.is_some_and(|facts| matches!(facts.kind, service::FactsKind::Headless))
        })
    }

    /// The Pod that has an address, if Pods are known.
    pub fn pod_at(&self, address: IpAddr) -> Option<Arc<PodIdentity>> {
        self.pods.at(address)
    }

    /// Makes a namespace exist.
    pub fn apply_namespace(&self, name: &str) -> Result<(), NameError> {
        let label = namespace_label(name)?;
        let _writer = self.write();
        self.namespaces
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(label);
        Ok(())
    }

    /// Makes a namespace not exist.
    pub fn remove_namespace(&self, name: &str) {
        let Ok(label) = namespace_label(name) else { return };
        let _writer = self.write();
        self.namespaces
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&label);
    }

    /// Applies a new or changed Service. One whose name cannot stand in DNS is left out.
    pub fn apply_service(&self, service: &Service) -> Result<(), NameError> {
        let key = ServiceKey::new(&service.metadata.key())?;
        let _writer = self.write();
        self.put_service(&key, Some(Facts::read(service)));
        Ok(())
    }

    /// Forgets a Service.
    pub fn remove_service(&self, key: &ObjectKey) {
        let Ok(key) = ServiceKey::new(key) else { return };
        let _writer = self.write();
        self.put_service(&key, None);
    }

    /// Applies a new or changed slice. One that names no Service is left out.
    pub fn apply_slice(&self, slice: &EndpointSlice) -> Result<(), NameError> {
        let object = slice.metadata.key();
        let owner = slice
            .service_name()
            .map(|name| ServiceKey::new(&ObjectKey::new(&object.namespace, name)));
        let mut slices = self.write();
        let key = match owner {
            Some(Ok(key)) => key,
            other => {
                self.forget_slice(&mut slices, &object);
                return other.map_or(Ok(()), |key| key.map(|_| ()));
            }
        };
        if slices.get(&object).is_some_and(|before| *before != key) {
            self.forget_slice(&mut slices, &object);
        }
        self.put_slice(
            &key,
            &object.name,
            Some(Slice::read(slice, self.settings.endpoint_pod_names)),
        );
        slices.insert(object, key);
        Ok(())
    }

    /// Forgets a slice.
    pub fn remove_slice(&self, key: &ObjectKey) {
        let mut slices = self.write();
        self.forget_slice(&mut slices, key);
    }

    fn write(&self) -> MutexGuard<'_, HashMap<ObjectKey, ServiceKey>> {
        self.serial.fetch_add(1, Ordering::Relaxed);
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_slice(&self, slices: &mut HashMap<ObjectKey, ServiceKey>, object: &ObjectKey) {
        if let Some(key) = slices.remove(object) {
            self.put_slice(&key, &object.name, None);
        }
    }

    /// Puts a Service in the place of what was there. New names of addresses are added before old ones
    /// are removed, so that no query falls between.
    fn put_service(&self, key: &ServiceKey, facts: Option<Facts>) {
        let addresses: Vec<IpAddr> = facts
            .iter()
            .flat_map(|facts| facts.cluster_ips())
            .copied()
            .collect();
        for address in addresses {
            self.cluster_ips.add(address, key, None);
        }
        let publish = facts.as_ref().is_some_and(|facts| facts.publish_not_ready);
        let not_ready = self.not_ready_if_changed(key, publish);
        let old = self.change(key, |entry| std::mem::replace(&mut entry.service, facts));
        for address in old.iter().flat_map(|facts| facts.cluster_ips()) {
            self.cluster_ips.remove(*address, key, None);
        }
        for (address, hostname) in not_ready {
            if publish {
                self.endpoints.add(address, key, hostname.as_ref());
            } else {
                self.endpoints.remove(address, key, hostname.as_ref());
            }
        }
    }

    /// The endpoints that are not ready, if the Service changes its mind about publishing them.
    fn not_ready_if_changed(&self, key: &ServiceKey, publish: bool) -> Vec<(IpAddr, Option<Arc<str>>)> {
        self.with_entry(key.labels(), |entry| {
            let entry = entry.filter(|entry| entry.publishes_not_ready() != publish);
            let endpoints = entry
                .iter()
                .flat_map(|entry| &entry.slices)
                .flat_map(Slice::endpoints);
            endpoints
                .filter(|endpoint| !endpoint.ready)
                .map(|e| (e.address, e.hostname.clone()))
                .collect()
        })
    }

    /// Puts a slice in the place of the one of this name, or takes it away.
    fn put_slice(&self, key: &ServiceKey, name: &str, slice: Option<Slice>) {
        let publish = self.with_entry(key.labels(), |entry| {
            entry.is_some_and(Entry::publishes_not_ready)
        });
        let published = |endpoint: &&Endpoint| endpoint.is_published(publish);
        for endpoint in slice.iter().flat_map(Slice::endpoints).filter(published) {
            self.endpoints
                .add(endpoint.address, key, endpoint.hostname.as_ref());
        }
        let old = self.change(key, |entry| {
            let at = entry.slices.iter().position(|known| *known.name == *name);
            match (at.and_then(|at| entry.slices.get_mut(at)), slice) {
                (Some(place), Some(slice)) => Some(std::mem::replace(place, slice)),
                (Some(_), None) => at.map(|at| entry.slices.swap_remove(at)),
                (None, Some(slice)) => {
                    entry.slices.reserve_exact(1);
                    entry.slices.push(slice);
                    None
                }
                (None, None) => None,
            }
        });
        for endpoint in old.iter().flat_map(Slice::endpoints).filter(published) {
            self.endpoints
                .remove(endpoint.address, key, endpoint.hostname.as_ref());
        }
    }

    /// Changes an entry; one that has become empty is dropped. What `change` returns is freed by the
    /// caller, outside of the lock.
    fn change<R>(&self, key: &ServiceKey, change: impl FnOnce(&mut Entry) -> Option<R>) -> Option<R> {
        let shard = self.shard(key.labels())?;
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.entry(key.clone()).or_default();
        let result = change(entry);
        if entry.is_empty() {
            shard.remove(key);
        }
        result
    }

    /// Calls `read` with what is known of a Service.
    fn with_entry<R>(&self, key: &[u8], read: impl FnOnce(Option<&Entry>) -> R) -> R {
        let Some(shard) = self.shard(key) else {
            return read(None);
        };
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        read(shard.get(key))
    }

    fn has_namespace(&self, label: &[u8]) -> bool {
        self.namespaces
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(label)
    }

    fn shard(&self, key: &[u8]) -> Option<&RwLock<HashMap<ServiceKey, Entry>>> {
        let hash = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        self.services.get(hash)
    }
}

fn namespace_label(name: &str) -> Result<Box<[u8]>, NameError> {
    let mut label = Name::ROOT;
    label.push_label(name.as_bytes())?;
    Ok(label
        .to_lower()
        .as_wire()
        .strip_suffix(&[0])
        .unwrap_or_default()
        .into())
}

#[cfg(test)]
mod tests;
