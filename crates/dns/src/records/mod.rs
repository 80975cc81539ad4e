//! Records of the cluster zone: an index from names and addresses to the parts of answers.
//!
//! - `resolve`: from a query to the records of its answer; `grammar`: meaning of a name; `selection`: parts of a Service
//!   that a name denotes
//! - `addresses`, `srv`, `reverse`, `name_servers`: answers by type
//! - `service`, `pods`, `reverse_index`: data of the index
//! - `export`, `snapshot_format`, `describe`, `metadata`: other readers of the index
//!
//! One writer applies objects; any number of readers answer queries at the same time. A change locks one shard only
//! while it replaces one value.

mod addresses;
mod describe;
mod export;
mod grammar;
mod metadata;
mod name_servers;
mod pod_label;
mod pods;
mod resolve;
mod reverse;
mod reverse_index;
mod selection;
mod service;
mod snapshot_format;
mod srv;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use api::object::{EndpointSlice, ObjectKey, Pod, Service, ServiceImport};

pub use export::ZoneRecord;
pub use metadata::Metadata;
pub use pods::{PodIdentity, PodNames};
pub use resolve::{Resolution, Scratch};
pub use snapshot_format::IndexFormatError;

use crate::wire::{Name, NameError};
use pods::Pods;
use reverse_index::ReverseIndex;
use service::{Endpoint, ServiceData, ServiceEntry, ServiceKey, Slice};

/// Number of shards with a lock each, so that a change rarely blocks a query.
const SHARDS: usize = 64;

/// Kind of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneKind {
    /// Services of the cluster.
    #[default]
    Cluster,
    /// Services that the clusters of a set export (KEP-1645).
    ClusterSet,
}

/// Settings of an index.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kind of the zone.
    pub kind: ZoneKind,
    /// Domain of the zone in lower case, such as `cluster.local`.
    pub cluster_domain: Name,
    /// TTL of records in seconds (DNS-24: 5 by default).
    pub ttl_seconds: u32,
    /// Addresses of this server without loopback: the zone's name servers (DNS-18).
    pub own_addresses: Vec<IpAddr>,
    /// First serial number of the zone; each change increments it.
    pub serial: u32,
    /// Mode of Pod names.
    pub pods: PodNames,
    /// Names endpoints without a host name after their Pods instead of their addresses (`endpoint_pod_names` of
    /// CoreDNS).
    pub endpoint_pod_names: bool,
    /// Answers for Services and Pods of known namespaces only, because the watches do not deliver all namespaces
    /// (`namespaces` and `namespace_labels` of CoreDNS, DNS-24).
    pub only_known_namespaces: bool,
    /// Answers with a cluster IP only while the Service has an endpoint (`ignore empty_service` of CoreDNS).
    pub ignore_empty_services: bool,
}

impl Settings {
    /// Returns the default settings for a zone.
    pub fn of(cluster_domain: Name) -> Self {
        Self {
            kind: ZoneKind::Cluster,
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

/// An index of the records of a zone.
#[derive(Debug)]
pub struct Index {
    settings: Settings,
    services: Box<[RwLock<HashMap<ServiceKey, ServiceEntry>>]>,
    hasher: RandomState,
    namespaces: RwLock<HashSet<Box<[u8]>>>,
    cluster_ips: ReverseIndex,
    endpoints: ReverseIndex,
    pods: Pods,
    /// Service of each known slice. Writers hold this lock during a change.
    slices: Mutex<HashMap<ObjectKey, ServiceKey>>,
    serial: AtomicU32,
    synced: AtomicBool,
}

impl Index {
    /// Creates an empty index, which fails every query until [`Index::set_synced`].
    pub fn new(settings: Settings) -> Self {
        let serial = AtomicU32::new(settings.serial);
        Self {
            settings,
            services: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            namespaces: RwLock::default(),
            cluster_ips: ReverseIndex::new(),
            endpoints: ReverseIndex::new(),
            pods: Pods::default(),
            slices: Mutex::default(),
            serial,
            synced: AtomicBool::new(false),
        }
    }

    /// Records that the initial list of objects is complete. Before that, an absent name can exist, so queries for the
    /// zone fail (DNS-16).
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    /// Returns true after [`Index::set_synced`].
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns the domain of the cluster in lower case.
    pub fn cluster_domain(&self) -> &Name {
        &self.settings.cluster_domain
    }

    /// Returns the TTL of records in seconds.
    pub fn ttl_seconds(&self) -> u32 {
        self.settings.ttl_seconds
    }

    /// Returns the serial number of the zone.
    pub fn serial(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    /// Applies a new or changed Pod.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the namespace is not a valid label.
    pub fn apply_pod(&self, pod: &Pod) -> Result<(), NameError> {
        self.pods.apply(pod)
    }

    /// Removes a Pod.
    pub fn remove_pod(&self, key: &ObjectKey) {
        self.pods.remove(key);
    }

    /// Returns true if a Service is headless.
    pub(crate) fn is_headless(&self, service: &ObjectKey) -> bool {
        let Ok(key) = ServiceKey::new(service) else {
            return false;
        };
        self.with_entry(key.labels(), |entry| {
            let data = entry.and_then(|entry| entry.service.as_ref());
            data.is_some_and(|data| matches!(data.kind, service::ServiceKind::Headless))
        })
    }

    /// Returns the Pod with an address, if Pods are watched.
    pub fn pod_at(&self, address: IpAddr) -> Option<Arc<PodIdentity>> {
        self.pods.at(address)
    }

    /// Adds a namespace.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the name is not a valid label.
    pub fn apply_namespace(&self, name: &str) -> Result<(), NameError> {
        let label = namespace_label(name)?;
        let _writer = self.write();
        self.namespaces
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(label);
        Ok(())
    }

    /// Removes a namespace.
    pub fn remove_namespace(&self, name: &str) {
        let Ok(label) = namespace_label(name) else { return };
        let _writer = self.write();
        self.namespaces
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&label);
    }

    /// Applies a new or changed Service.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the name or namespace is not a valid label. The Service is then not in the index.
    pub fn apply_service(&self, service: &Service) -> Result<(), NameError> {
        let key = ServiceKey::new(&service.metadata.key())?;
        let _writer = self.write();
        self.put_service(&key, Some(ServiceData::from_service(service)));
        Ok(())
    }

    /// Applies a new or changed ServiceImport to the zone of a set.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the name or namespace is not a valid label. The import is then not in the index.
    pub fn apply_import(&self, import: &ServiceImport) -> Result<(), NameError> {
        let key = ServiceKey::new(&import.metadata.key())?;
        let _writer = self.write();
        self.put_service(&key, Some(ServiceData::from_import(import)));
        Ok(())
    }

    /// Removes a Service or ServiceImport.
    pub fn remove_service(&self, key: &ObjectKey) {
        let Ok(key) = ServiceKey::new(key) else { return };
        let _writer = self.write();
        self.put_service(&key, None);
    }

    /// Applies a new or changed slice. A slice without a Service is removed from the index.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the name of its Service is not a valid label.
    pub fn apply_slice(&self, slice: &EndpointSlice) -> Result<(), NameError> {
        let object = slice.metadata.key();
        let owner = service::owner_of(slice, self.settings.kind)
            .map(|name| ServiceKey::new(&ObjectKey::new(&object.namespace, name)));
        let mut slices = self.write();
        let key = match owner {
            Some(Ok(key)) => key,
            other => {
                self.remove_slice_locked(&mut slices, &object);
                return other.map_or(Ok(()), |key| key.map(|_| ()));
            }
        };
        if slices.get(&object).is_some_and(|before| *before != key) {
            self.remove_slice_locked(&mut slices, &object);
        }
        self.put_slice(
            &key,
            &object.name,
            Some(Slice::from_object(slice, &self.settings)),
        );
        slices.insert(object, key);
        Ok(())
    }

    /// Removes a slice.
    pub fn remove_slice(&self, key: &ObjectKey) {
        let mut slices = self.write();
        self.remove_slice_locked(&mut slices, key);
    }

    fn write(&self) -> MutexGuard<'_, HashMap<ObjectKey, ServiceKey>> {
        self.serial.fetch_add(1, Ordering::Relaxed);
        self.slices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_slice_locked(&self, slices: &mut HashMap<ObjectKey, ServiceKey>, object: &ObjectKey) {
        if let Some(key) = slices.remove(object) {
            self.put_slice(&key, &object.name, None);
        }
    }

    /// Replaces a Service. New reverse entries are added before old ones are removed, so that no query sees
    /// neither.
    fn put_service(&self, key: &ServiceKey, data: Option<ServiceData>) {
        let addresses: Vec<IpAddr> = data.iter().flat_map(|data| data.cluster_ips()).copied().collect();
        for address in addresses {
            self.cluster_ips.add(address, key, None);
        }
        let publish = data.as_ref().is_some_and(|data| data.publish_not_ready);
        let not_ready = self.endpoints_changing_visibility(key, publish);
        let old = self.change(key, |entry| std::mem::replace(&mut entry.service, data));
        for address in old.iter().flat_map(|data| data.cluster_ips()) {
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

    /// Returns the endpoints that are not ready, if the Service changes `publishNotReadyAddresses`.
    fn endpoints_changing_visibility(
        &self,
        key: &ServiceKey,
        publish: bool,
    ) -> Vec<(IpAddr, Option<Arc<str>>)> {
        self.with_entry(key.labels(), |entry| {
            let entry = entry.filter(|entry| entry.publishes_not_ready() != publish);
            let endpoints = entry
                .iter()
                .flat_map(|entry| &entry.slices)
                .flat_map(Slice::endpoints);
            endpoints
                .filter(|endpoint| !endpoint.ready)
                .map(|endpoint| (endpoint.address, endpoint.hostname.clone()))
                .collect()
        })
    }

    /// Replaces or removes a slice by name.
    fn put_slice(&self, key: &ServiceKey, name: &str, slice: Option<Slice>) {
        let publish = self.with_entry(key.labels(), |entry| {
            entry.is_some_and(ServiceEntry::publishes_not_ready)
        });
        let published = |endpoint: &&Endpoint| endpoint.is_published(publish);
        for endpoint in slice.iter().flat_map(Slice::endpoints).filter(published) {
            self.endpoints
                .add(endpoint.address, key, endpoint.hostname.as_ref());
        }
        let old = self.change(key, |entry| {
            let position = entry.slices.iter().position(|known| *known.name == *name);
            match (
                position.and_then(|position| entry.slices.get_mut(position)),
                slice,
            ) {
                (Some(old), Some(slice)) => Some(std::mem::replace(old, slice)),
                (Some(_), None) => position.map(|position| entry.slices.swap_remove(position)),
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

    /// Changes an entry and removes it if it becomes empty. The caller drops the returned value outside of the
    /// lock.
    fn change<R>(&self, key: &ServiceKey, change: impl FnOnce(&mut ServiceEntry) -> Option<R>) -> Option<R> {
        let shard = self.shard(key.labels())?;
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.entry(key.clone()).or_default();
        let result = change(entry);
        if entry.is_empty() {
            shard.remove(key);
        }
        result
    }

    /// Calls `read` with the entry of a Service.
    fn with_entry<R>(&self, key: &[u8], read: impl FnOnce(Option<&ServiceEntry>) -> R) -> R {
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

    fn shard(&self, key: &[u8]) -> Option<&RwLock<HashMap<ServiceKey, ServiceEntry>>> {
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
