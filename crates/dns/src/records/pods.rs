//! Pods by address, for verified Pod names (DNS-14) and for the namespace of a client (DNS-25).

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use api::object::{ObjectKey, Pod};

use super::namespace_label;
use crate::wire::NameError;

/// Mode of Pod names (`pods` of CoreDNS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodNames {
    /// No Pod names.
    Disabled,
    /// Every address in an existing namespace, also without a Pod at the address.
    #[default]
    Insecure,
    /// Addresses of existing Pods.
    Verified,
}

/// Namespace and name of a Pod.
#[derive(Debug, PartialEq, Eq)]
pub struct PodIdentity {
    namespace: Box<[u8]>,
    name: Box<str>,
}

impl PodIdentity {
    fn new(key: &ObjectKey) -> Result<Self, NameError> {
        Ok(Self {
            namespace: namespace_label(&key.namespace)?,
            name: (*key.name).into(),
        })
    }

    /// Returns the namespace as a label in wire form.
    pub fn namespace_label(&self) -> &[u8] {
        &self.namespace
    }

    /// Returns the namespace as text.
    pub fn namespace(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.namespace.get(1..).unwrap_or_default())
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Pods with addresses of their own.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Several Pods may share an address while it moves from one to another.
    by_address: RwLock<HashMap<IpAddr, Vec<Arc<PodIdentity>>>>,
    addresses: Mutex<HashMap<ObjectKey, Box<[IpAddr]>>>,
}

impl Pods {
    /// Applies a Pod. A finished Pod or one on the host network has no address of its own.
    pub(super) fn apply(&self, pod: &Pod) -> Result<(), NameError> {
        let key = pod.metadata.key();
        let identity = Arc::new(PodIdentity::new(&key)?);
        let has_own = !pod.is_finished() && !pod.spec.host_network;
        let single = std::slice::from_ref(&pod.status.pod_ip);
        let texts = pod.status.pod_ips.iter().map(|ip| &ip.ip).chain(single);
        let mut addresses: Vec<IpAddr> = texts
            .filter(|_| has_own)
            .filter_map(|text| text.parse().ok())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        self.replace(key, &identity, addresses);
        Ok(())
    }

    /// Removes a Pod.
    pub(super) fn remove(&self, key: &ObjectKey) {
        if let Ok(identity) = PodIdentity::new(key) {
            self.replace(key.clone(), &Arc::new(identity), Vec::new());
        }
    }

    /// Returns the Pod with an address.
    pub(super) fn at(&self, address: IpAddr) -> Option<Arc<PodIdentity>> {
        let by_address = self.by_address.read().unwrap_or_else(PoisonError::into_inner);
        by_address.get(&address)?.last().cloned()
    }

    /// Returns true if a Pod of a namespace (a label in wire form) has an address.
    pub(super) fn contains(&self, address: IpAddr, namespace: &[u8]) -> bool {
        let by_address = self.by_address.read().unwrap_or_else(PoisonError::into_inner);
        let pods = by_address.get(&address);
        pods.is_some_and(|pods| pods.iter().any(|pod| *pod.namespace == *namespace))
    }

    fn replace(&self, key: ObjectKey, identity: &Arc<PodIdentity>, new: Vec<IpAddr>) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let old = if new.is_empty() {
            addresses.remove(&key)
        } else {
            addresses.insert(key, new.clone().into())
        };
        let mut by_address = self.by_address.write().unwrap_or_else(PoisonError::into_inner);
        for address in new {
            by_address.entry(address).or_default().push(identity.clone());
        }
        for address in old.into_iter().flatten() {
            let Some(pods) = by_address.get_mut(&address) else {
                continue;
            };
            if let Some(at) = pods.iter().position(|known| known == identity) {
                pods.remove(at);
            }
            if pods.is_empty() {
                by_address.remove(&address);
            }
        }
    }
}
