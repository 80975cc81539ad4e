//! Pods by their addresses: for names of Pods that are verified (DNS-14), and to know in which namespace a
//! client is (DNS-25).

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

/// The Pods that have addresses of their own.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Namespaces by address, as labels in wire form. While addresses move from Pod to Pod there may be several.
    namespaces: RwLock<HashMap<IpAddr, Vec<Arc<[u8]>>>>,
    addresses: Mutex<HashMap<ObjectKey, Box<[IpAddr]>>>,
}

impl Pods {
    /// Takes note of a Pod. One that has ended, or shares its node's network, has no address of its own.
    pub(super) fn apply(&self, pod: &Pod) -> Result<(), NameError> {
        let label: Arc<[u8]> = Arc::from(namespace_label(&pod.metadata.namespace)?);
        let has_own = !pod.is_finished() && !pod.spec.host_network;
        let single = std::slice::from_ref(&pod.status.pod_ip);
        let texts = pod.status.pod_ips.iter().map(|ip| &ip.ip).chain(single);
        let mut addresses: Vec<IpAddr> = texts
            .filter(|_| has_own)
            .filter_map(|text| text.parse().ok())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        self.replace(pod.metadata.key(), &label, addresses);
        Ok(())
    }

    /// Forgets a Pod.
    pub(super) fn remove(&self, key: &ObjectKey) {
        if let Ok(label) = namespace_label(&key.namespace) {
            self.replace(key.clone(), &Arc::from(label), Vec::new());
        }
    }

    /// The namespace of the Pod that has an address.
    pub(super) fn namespace_of(&self, address: IpAddr) -> Option<Arc<[u8]>> {
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        namespaces.get(&address)?.last().cloned()
    }

    /// Whether a Pod of a namespace (a label in wire form) has an address.
    pub(super) fn has(&self, address: IpAddr, namespace: &[u8]) -> bool {
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        let of_address = namespaces.get(&address);
        of_address.is_some_and(|labels| labels.iter().any(|label| **label == *namespace))
    }

    fn replace(&self, key: ObjectKey, label: &Arc<[u8]>, new: Vec<IpAddr>) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let old = if new.is_empty() {
            addresses.remove(&key)
        } else {
            addresses.insert(key, new.clone().into())
        };
        let mut namespaces = self.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        for address in new {
            namespaces.entry(address).or_default().push(label.clone());
        }
        for address in old.into_iter().flatten() {
            let Some(labels) = namespaces.get_mut(&address) else {
                continue;
            };
            if let Some(at) = labels.iter().position(|known| known == label) {
                labels.remove(at);
            }
            if labels.is_empty() {
                namespaces.remove(&address);
            }
        }
    }
}
