//! Caches of the edge server, and the edge's settings as a pure function of Services, EndpointSlices, Secrets and the
//! addresses of the node. Only the settings of changed Services are rebuilt.

mod awaited_secrets;
mod backend_budget;
mod build;
mod class_settings;
mod ingress;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{Condition, EndpointSlice, ObjectKey, Service};
use edge::settings::{ServiceName, Settings, Stickiness};

use self::ingress::IngressState;
use super::certificates::Certificates;
use super::secret::SecretError;
use super::{Addresses, AllowedBuckets};
use crate::annotations::value::SecretName;
use crate::annotations::{self, EdgeSpec};
use crate::assigner::{ASSIGNED_CONDITION, IngressMode, NODE_ADDRESSES_REASON};

#[cfg(test)]
mod tests;

/// Properties of the node that do not change while the process runs.
#[derive(Clone, Debug)]
pub(super) struct NodeProperties {
    /// Name of the Node.
    pub(super) name: Arc<str>,
    /// True if access logs can be written to a directory.
    pub(super) has_log_directory: bool,
    /// Buckets of access logs.
    pub(super) buckets: AllowedBuckets,
}

/// Addresses that this node owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnedAddresses {
    /// Listed addresses.
    Listed(Addresses),
    /// All addresses.
    All,
}

impl OwnedAddresses {
    fn contain(&self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Listed(addresses) => addresses.contains(&address),
        }
    }
}

/// Service of the edge.
#[derive(Debug)]
pub(super) struct ServedService {
    /// Service as read from the API server.
    pub(super) service: Service,
    /// Configuration that its annotations select.
    pub(super) spec: EdgeSpec,
    /// Addresses, on whichever node.
    addresses: Addresses,
    /// True if the addresses are those of nodes. They are not announced.
    is_of_nodes: bool,
}

impl ServedService {
    /// Returns true if sticky sessions use cookies.
    fn has_cookies(&self) -> bool {
        matches!(self.spec.policy.stickiness, Stickiness::Cookie { .. })
    }

    /// Returns the Secrets of its TLS listeners.
    fn secrets(&self) -> impl Iterator<Item = ObjectKey> + '_ {
        let own = self.service.metadata.namespace.as_str();
        let mut listeners = self.spec.listeners.iter();
        let has_tls = listeners.any(|listener| listener.frontend.has_tls());
        let names = self.spec.certificates.iter().filter(move |_| has_tls);
        names.map(move |SecretName { namespace, name }| {
            ObjectKey::new(namespace.as_deref().unwrap_or(own), name)
        })
    }
}

/// State of the Secret with the key of sticky-session cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CookieSecret {
    /// Not read yet.
    Unread,
    /// Not usable.
    Missing(SecretError),
    /// Read and usable.
    Present,
}

/// Caches and settings.
#[derive(Debug)]
pub(super) struct EdgeState {
    node: NodeProperties,
    owned: OwnedAddresses,
    /// Addresses of this Node.
    node_addresses: Addresses,
    services: HashMap<ObjectKey, ServedService>,
    /// EndpointSlices by Service.
    slices: HashMap<ObjectKey, HashMap<ObjectKey, EndpointSlice>>,
    /// Service of each EndpointSlice.
    slice_owners: HashMap<ObjectKey, ObjectKey>,
    /// Secrets with certificates.
    pub(super) certificates: Certificates,
    cookie_secret: CookieSecret,
    ingress: IngressState,
    /// Services to rebuild.
    changed: BTreeSet<ObjectKey>,
    settings: Settings,
    /// Problems by Service that the edge itself cannot detect.
    faults: HashMap<ObjectKey, Vec<String>>,
}

impl EdgeState {
    /// Creates a state with empty caches.
    pub(super) fn new(node: NodeProperties, owned: OwnedAddresses) -> Self {
        Self {
            node,
            owned,
            node_addresses: Addresses::new(),
            services: HashMap::new(),
            slices: HashMap::new(),
            slice_owners: HashMap::new(),
            certificates: Certificates::default(),
            cookie_secret: CookieSecret::Unread,
            ingress: IngressState::default(),
            changed: BTreeSet::new(),
            settings: Settings::new(),
            faults: HashMap::new(),
        }
    }

    /// Adds or replaces a Service.
    pub(super) fn apply_service(&mut self, service: Service) {
        let key = service.metadata.key();
        let addresses = edge_addresses(&service);
        let reading = annotations::read(&service);
        // The assigner withdraws the address of such a Service. Until then the edge serves no client.
        let is_enforced = reading.restrictions.reason_to_withhold(true).is_none();
        match reading.edge.filter(|_| is_enforced && !addresses.is_empty()) {
            None => self.remove_service(&key),
            Some(spec) => {
                let served = ServedService {
                    is_of_nodes: has_node_addresses(&service),
                    service,
                    spec,
                    addresses,
                };
                self.services.insert(key.clone(), served);
                self.changed.insert(key);
            }
        }
    }

    /// Removes a Service.
    pub(super) fn remove_service(&mut self, key: &ObjectKey) {
        if self.services.remove(key).is_some() {
            self.changed.insert(key.clone());
        }
    }

    /// Adds or replaces an EndpointSlice.
    pub(super) fn apply_slice(&mut self, slice: EndpointSlice) {
        let key = slice.metadata.key();
        let owner = slice
            .service_name()
            .map(|name| ObjectKey::new(&slice.metadata.namespace, name));
        if self.slice_owners.get(&key) != owner.as_ref() {
            self.remove_slice(&key);
        }
        let Some(owner) = owner else { return };
        self.slice_owners.insert(key.clone(), owner.clone());
        self.slices.entry(owner.clone()).or_default().insert(key, slice);
        self.mark_changed(owner);
    }

    /// Removes an EndpointSlice.
    pub(super) fn remove_slice(&mut self, key: &ObjectKey) {
        let Some(owner) = self.slice_owners.remove(key) else {
            return;
        };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(key);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
        self.mark_changed(owner);
    }

    /// Drops all EndpointSlices, after their watch ended.
    pub(super) fn clear_slices(&mut self) {
        self.slices.clear();
        self.slice_owners.clear();
    }

    /// Replaces the addresses of this node.
    pub(super) fn set_owned(&mut self, owned: OwnedAddresses) {
        if self.owned == owned {
            return;
        }
        let before = std::mem::replace(&mut self.owned, owned);
        let moved = self.services.iter().filter(|(_, served)| {
            let mut addresses = served.addresses.iter().filter(|_| !served.is_of_nodes);
            addresses.any(|address| before.contain(*address) != self.owned.contain(*address))
        });
        self.changed.extend(moved.map(|(key, _)| key.clone()));
    }

    /// Replaces the addresses of this Node.
    pub(super) fn set_node_addresses(&mut self, addresses: Addresses) {
        if self.node_addresses == addresses {
            return;
        }
        self.node_addresses = addresses;
        let affected = self.services.iter().filter(|(_, served)| served.is_of_nodes);
        self.changed.extend(affected.map(|(key, _)| key.clone()));
    }

    /// Returns the addresses of this node that are served and are not on its links.
    pub(super) fn added_addresses(&self) -> Addresses {
        let mut addresses = self.addresses();
        addresses.retain(|address| !self.node_addresses.contains(address));
        addresses
    }

    /// Marks the Services that refer to a changed Secret.
    pub(super) fn secret_changed(&mut self, secret: &ObjectKey) {
        let affected = self.services.iter().filter(|(key, served)| {
            served.secrets().any(|name| name == *secret)
                || self.ingress.secrets(key).any(|name| name == secret)
        });
        self.changed.extend(affected.map(|(key, _)| key.clone()));
    }

    /// Sets the state of the Secret of cookies.
    pub(super) fn set_cookie_secret(&mut self, cookie_secret: CookieSecret) {
        if self.cookie_secret == cookie_secret {
            return;
        }
        self.cookie_secret = cookie_secret;
        let affected = self.services.iter().filter(|(_, served)| served.has_cookies());
        self.changed.extend(affected.map(|(key, _)| key.clone()));
    }

    /// Returns true if the Secret of cookies was read, successfully or not.
    pub(super) fn has_read_cookie_secret(&self) -> bool {
        self.cookie_secret != CookieSecret::Unread
    }

    /// Returns true if a Service on this node uses cookies.
    pub(super) fn uses_cookies(&self) -> bool {
        let mut here = self.services.values().filter(|served| self.is_here(served));
        here.any(ServedService::has_cookies)
    }

    /// Returns true if there are Services of the edge, on this node or on others.
    pub(super) fn has_services(&self) -> bool {
        !self.services.is_empty()
    }

    /// Returns a Service of the edge.
    pub(super) fn service(&self, key: &ObjectKey) -> Option<&ServedService> {
        self.services.get(key)
    }

    /// Returns the addresses of this node that are served, as of the last [`EdgeState::rebuild`].
    pub(super) fn addresses(&self) -> Addresses {
        let all = self.settings.values().flat_map(|settings| &settings.addresses);
        all.copied().collect()
    }

    /// Returns the addresses of a Service that this node owns.
    pub(super) fn addresses_of(&self, served: &ServedService) -> Addresses {
        let all = served.addresses.iter().copied();
        all.filter(|address| self.owns(served, *address)).collect()
    }

    /// Returns the Secrets with certificates that Services on this node refer to, each with the namespace for which it
    /// is read. The Secret is read for its own namespace if an object of this namespace refers to it, otherwise for
    /// the namespace of a Service.
    pub(super) fn secrets(&self) -> BTreeMap<ObjectKey, Arc<str>> {
        let mut secrets = BTreeMap::new();
        let here = self.services.iter().filter(|(_, served)| self.is_here(served));
        for (key, served) in here {
            let ingress_secrets = self.ingress.secrets(key).cloned();
            let ingress_secrets = ingress_secrets.map(|secret| (Arc::clone(&secret.namespace), secret));
            let service_secrets = served
                .secrets()
                .map(|secret| (Arc::clone(&key.namespace), secret));
            for (reader, secret) in service_secrets.chain(ingress_secrets) {
                if reader == secret.namespace {
                    secrets.insert(secret, reader);
                } else {
                    secrets.entry(secret).or_insert(reader);
                }
            }
        }
        secrets
    }

    /// Rebuilds the settings of changed Services and returns their keys. A Service whose Secrets are unread stays
    /// pending. Otherwise its certificate would be missing, and the edge could not decode the cookies of its clients.
    /// A class waits for a limited number of Secrets ([`awaited_secrets`]).
    pub(super) fn rebuild(&mut self) -> BTreeSet<ObjectKey> {
        for key in &self.changed {
            self.ingress.await_secrets(key, &self.certificates);
        }
        let (mut complete, pending) = std::mem::take(&mut self.changed)
            .into_iter()
            .partition::<BTreeSet<ObjectKey>, _>(|key| self.has_secrets(key));
        self.changed = pending;
        for key in &complete {
            self.ingress.end_wait(key);
            let name = ServiceName {
                namespace: Arc::clone(&key.namespace),
                name: Arc::clone(&key.name),
            };
            match self.services.get(key).filter(|served| self.is_here(served)) {
                None => {
                    self.settings.remove(&name);
                    self.faults.remove(key);
                    self.finish_class(key, None);
                }
                Some(served) => {
                    let class_build = self.build_class(key, served);
                    let built = class_build.is_none().then(|| self.build(key, served));
                    let Some((settings, faults)) = self.finish_class(key, class_build).or(built) else {
                        continue;
                    };
                    if self.ingress.has_unread_secrets(key, &self.certificates) {
                        self.changed.insert(key.clone());
                    }
                    self.faults.insert(key.clone(), faults);
                    if self.settings.get(&name).is_none_or(|before| **before != settings) {
                        self.settings.insert(name, Arc::new(settings));
                    }
                }
            }
        }
        for target in std::mem::take(&mut self.ingress.changed_targets) {
            for class in self.ingress.classes_with_target(&target) {
                self.rebuild_target(&class, &target);
                complete.insert(class);
            }
        }
        complete
    }

    /// Returns true if Services wait for their Secrets or Ingresses, as of the last [`EdgeState::rebuild`].
    pub(super) fn has_pending(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns the settings of the edge, as of the last [`EdgeState::rebuild`].
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Problems of a Service, as of the last [`EdgeState::rebuild`], for Events.
    pub(super) fn faults(&self, key: &ObjectKey) -> &[String] {
        self.faults.get(key).map_or(&[], Vec::as_slice)
    }

    fn mark_changed(&mut self, service: ObjectKey) {
        if self.ingress.has_routes_to(&service) {
            self.ingress.changed_targets.insert(service.clone());
        }
        if self.services.contains_key(&service) {
            self.changed.insert(service);
        }
    }

    fn is_here(&self, served: &ServedService) -> bool {
        served.addresses.iter().any(|address| self.owns(served, *address))
    }

    /// Returns true if this node has the address of a Service.
    fn owns(&self, served: &ServedService, address: IpAddr) -> bool {
        if served.is_of_nodes {
            self.node_addresses.contains(&address)
        } else {
            self.owned.contain(address)
        }
    }

    /// Returns true if a Service on this node waits for no Secret.
    fn has_secrets(&self, key: &ObjectKey) -> bool {
        let served = self.services.get(key).filter(|served| self.is_here(served));
        served.is_none_or(|served| {
            let has_certificates = served.secrets().all(|secret| self.certificates.is_read(&secret))
                && !self.ingress.awaits_secrets(key);
            !self.ingress.awaits(served)
                && has_certificates
                && (self.has_read_cookie_secret() || !served.has_cookies())
        })
    }
}

/// Returns true if the assigned addresses are those of nodes.
fn has_node_addresses(service: &Service) -> bool {
    let mut conditions = service.status.conditions.iter();
    conditions
        .any(|condition| condition.kind == ASSIGNED_CONDITION && condition.reason == NODE_ADDRESSES_REASON)
}

/// Returns the addresses of a Service that the edge serves: assigned by the assigner, with mode Proxy.
fn edge_addresses(service: &Service) -> Addresses {
    let is_assigned =
        |condition: &Condition| condition.kind == ASSIGNED_CONDITION && condition.status == "True";
    let is_served = service.spec.kind == "LoadBalancer" && service.status.conditions.iter().any(is_assigned);
    if !is_served || service.metadata.deletion_timestamp.is_some() {
        return Addresses::new();
    }
    let ingress = service.status.load_balancer.ingress.iter();
    let proxied = ingress.filter(|ingress| IngressMode::of(ingress) == IngressMode::Proxy);
    proxied.filter_map(|ingress| ingress.ip.parse().ok()).collect()
}
