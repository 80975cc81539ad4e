//! Pods by their addresses: for names of Pods that are verified (DNS-14), and to know in which namespace a
//! client is (DNS-25).

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use api::object::{ObjectKey, Pod};

use super::namespace_label;
use crate::wire::NameError;

/// Which names of Pods are answered (`pods` of CoreDNS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodNames {
    /// None.
    Disabled,
    /// All that spell an address and an existing namespace; no Pod is looked up.
    #[default]
    Insecure,
    /// Those of Pods that exist.
    Verified,
}

/// Which Pod it is that has an address.
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

    /// Its namespace as a label in wire form.
    pub fn namespace_label(&self) -> &[u8] {
        &self.namespace
    }

    /// Its namespace as text.
    pub fn namespace(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.namespace.get(1..).unwrap_or_default())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The Pods that have addresses of their own.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// While addresses move from Pod to Pod there may be several at one.
    by_address: RwLock<HashMap<IpAddr, Vec<Arc<PodIdentity>>>>,
    addresses: Mutex<HashMap<ObjectKey, Box<[IpAddr]>>>,
}

impl Pods {
    /// Takes note of a Pod. One that has ended, or shares its node's network, has no address of its own.
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

    /// Forgets a Pod.
    pub(super) fn remove(&self, key: &ObjectKey) {
        if let Ok(identity) = PodIdentity::new(key) {
            self.replace(key.clone(), &Arc::new(identity), Vec::new());
        }
    }

    /// The Pod that has an address.
    pub(super) fn at(&self, address: IpAddr) -> Option<Arc<PodIdentity>> {
        let by_address = self.by_address.read().unwrap_or_else(PoisonError::into_inner);
        by_address.get(&address)?.last().cloned()
    }

    /// Whether a Pod of a namespace (a label in wire form) has an address.
    pub(super) fn has(&self, address: IpAddr, namespace: &[u8]) -> bool {
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
