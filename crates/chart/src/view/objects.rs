//! Objects of the cluster, with the indexes that rows need.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{EndpointSlice, Node, ObjectKey, Pod, Service};

/// Parts of a Pod that the map shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlace {
    /// Node, or "".
    pub node: Arc<str>,
    /// Addresses; none if the Pod shares those of its node.
    pub addresses: Vec<IpAddr>,
}

impl PodPlace {
    /// Returns the place of a Pod. A finished Pod has no addresses: others may use them.
    pub fn of(pod: &Pod) -> Self {
        let listed = pod.status.pod_ips.iter().map(|entry| entry.ip.as_str());
        let texts = listed.chain([pod.status.pod_ip.as_str()]);
        let mut addresses: Vec<IpAddr> = texts.filter_map(|text| text.parse().ok()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        if pod.spec.host_network || pod.is_finished() {
            addresses.clear();
        }
        Self {
            node: pod.spec.node_name.as_str().into(),
            addresses,
        }
    }
}

/// Objects of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    services: BTreeMap<ObjectKey, Arc<Service>>,
    slices: BTreeMap<ObjectKey, Arc<EndpointSlice>>,
    /// Names of the slices of a Service. All are in its namespace.
    slices_by_service: BTreeMap<ObjectKey, BTreeSet<Arc<str>>>,
    nodes: BTreeMap<Arc<str>, Arc<Node>>,
    pods: BTreeMap<ObjectKey, PodPlace>,
}

impl Objects {
    /// Adds or replaces a Service.
    pub fn put_service(&mut self, service: Service) -> ObjectKey {
        let key = service.metadata.key();
        self.services.insert(key.clone(), Arc::new(service));
        key
    }

    /// Removes a Service, and keeps its slices. An unknown key changes nothing.
    pub fn remove_service(&mut self, key: &ObjectKey) {
        self.services.remove(key);
    }

    /// Adds or replaces a slice. Returns the Services that it concerns, now or before.
    pub fn put_slice(&mut self, slice: EndpointSlice) -> BTreeSet<ObjectKey> {
        let key = slice.metadata.key();
        let mut concerned: BTreeSet<ObjectKey> = self.remove_slice(&key).into_iter().collect();
        if let Some(name) = slice.service_name() {
            let service = ObjectKey {
                namespace: key.namespace.clone(),
                name: name.into(),
            };
            let names = self.slices_by_service.entry(service.clone()).or_default();
            names.insert(key.name.clone());
            concerned.insert(service);
        }
        self.slices.insert(key, Arc::new(slice));
        concerned
    }

    /// Removes a slice. Returns the Service that it concerned.
    pub fn remove_slice(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        let removed = self.slices.remove(key)?;
        let service = ObjectKey {
            namespace: key.namespace.clone(),
            name: removed.service_name()?.into(),
        };
        if let Some(names) = self.slices_by_service.get_mut(&service) {
            names.remove(&key.name);
            if names.is_empty() {
                self.slices_by_service.remove(&service);
            }
        }
        Some(service)
    }

    /// Adds or replaces a Node.
    pub fn put_node(&mut self, node: Node) {
        let name: Arc<str> = node.metadata.name.as_str().into();
        self.nodes.insert(name, Arc::new(node));
    }

    /// Removes a Node, and keeps its Pods. An unknown name changes nothing.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Adds or replaces a Pod.
    pub fn put_pod(&mut self, key: ObjectKey, place: PodPlace) {
        self.pods.insert(key, place);
    }

    /// Removes a Pod. An unknown key changes nothing.
    pub fn remove_pod(&mut self, key: &ObjectKey) {
        self.pods.remove(key);
    }

    /// Returns a Service; `None` if the caches do not have it.
    pub fn service(&self, key: &ObjectKey) -> Option<&Arc<Service>> {
        self.services.get(key)
    }

    /// Returns the slices of a Service, by name.
    pub fn slices_of<'o>(&'o self, service: &'o ObjectKey) -> impl Iterator<Item = &'o EndpointSlice> {
        let names = self.slices_by_service.get(service).into_iter().flatten();
        names.filter_map(|name| {
            let key = ObjectKey {
                namespace: service.namespace.clone(),
                name: name.clone(),
            };
            self.slices.get(&key).map(|slice| &**slice)
        })
    }

    /// Returns a Node; `None` if the caches do not have it.
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(name)
    }

    /// Returns the names of all Nodes, in order.
    pub fn node_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// Returns the zone of a Node, or "".
    pub fn zone(&self, node: &str) -> &str {
        let node = self.nodes.get(node);
        node.and_then(|node| node.zone()).unwrap_or_default()
    }

    /// Returns all Pods with their places.
    pub fn pods(&self) -> impl Iterator<Item = (&ObjectKey, &PodPlace)> {
        self.pods.iter()
    }
}
