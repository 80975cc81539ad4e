//! The objects of a cluster. With their indexes, the check of one Service reads only the objects that concern it.

mod builder;
mod cluster_facts;
mod derived;
mod index;
mod networks;
mod observations;
mod templates;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::net::IpAddr;

pub use builder::WorldBuilder;
use cluster_facts::ClusterFacts;
use index::Index;
use networks::Networks;
use observations::Observations;
use serde::Deserialize;

use crate::facts::references::{Reference, references_of};
use crate::kind::Kind;
use crate::object::Object;
use crate::observation::NodeObservation;
use crate::views::{EndpointSlice, Endpoints, Event, Node, Pod, Route, Service, Workload};

/// Maximum number of Pods of a namespace that are read in a search: a search for a hint, not for a fact.
pub(crate) const COMPARED_PODS_MAX: usize = 2_000;

/// Objects of a cluster, or a part of them.
#[derive(Debug)]
pub struct World {
    objects: Vec<Object>,
    /// Number of objects of the input. The others are derived from them.
    given: usize,
    /// Kinds that the input contains. Other kinds are unknown, which is not the same as empty.
    present: BTreeSet<Kind>,
    /// Namespaces with objects.
    namespaces: BTreeSet<String>,
    by_kind: Index,
    by_namespace: Index,
    by_name: Index,
    /// Services by name, in all namespaces.
    services_by_name: Index,
    /// Services by the first label of their selector.
    services_by_selector: Index,
    services_by_address: Index,
    services_by_node_port: Index,
    pods_by_label: Index,
    slices_by_service: Index,
    workloads_by_label: Index,
    events_by_object: Index,
    routes_by_service: Index,
    nodes_by_address: Index,
    /// References of Pods to host names, with the position of the Pod.
    references: Vec<(usize, Reference)>,
    /// Positions in `references` by namespace and name of the Service.
    references_by_service: Index,
    observations: Observations,
    /// Pods by their addresses.
    pods_by_address: Index,
    /// Pods by the names of their nodes.
    pods_by_node: Index,
    networks: Networks,
    cluster_facts: OnceCell<ClusterFacts>,
    lookups: Cell<usize>,
}

impl World {
    /// Returns a builder without objects.
    pub fn builder() -> WorldBuilder {
        WorldBuilder::default()
    }

    pub(crate) fn new(objects: Vec<Object>, present: BTreeSet<Kind>, given: usize) -> Self {
        let mut world = Self {
            objects: Vec::new(),
            given,
            present,
            namespaces: BTreeSet::new(),
            by_kind: Index::default(),
            by_namespace: Index::default(),
            by_name: Index::default(),
            services_by_name: Index::default(),
            services_by_selector: Index::default(),
            services_by_address: Index::default(),
            services_by_node_port: Index::default(),
            pods_by_label: Index::default(),
            slices_by_service: Index::default(),
            workloads_by_label: Index::default(),
            events_by_object: Index::default(),
            routes_by_service: Index::default(),
            nodes_by_address: Index::default(),
            references: Vec::new(),
            references_by_service: Index::default(),
            observations: Observations::default(),
            pods_by_address: Index::default(),
            pods_by_node: Index::default(),
            networks: Networks::default(),
            cluster_facts: OnceCell::new(),
            lookups: Cell::new(0),
        };
        for (position, object) in objects.iter().enumerate() {
            world.index(position, object);
        }
        world.objects = objects;
        world.index_references();
        world.resolve_addresses();
        world
    }

    /// Finds the Services to which references by address lead. These Services have the address. At an address of a node,
    /// Services with the node port count, too.
    fn resolve_addresses(&mut self) {
        let mut found = Vec::new();
        for (index, (_, reference)) in self.references.iter().enumerate() {
            let Some(address) = reference.address else {
                continue;
            };
            let node_port = reference.port.filter(|_| self.node_at(address).is_some());
            let node_services = node_port
                .into_iter()
                .flat_map(|port| self.services_at_node_port(port));
            for service in self.services_at(address).chain(node_services) {
                found.push((service.namespace.clone(), service.name.clone(), index));
            }
        }
        for (namespace, name, index) in found {
            self.references_by_service.insert(&[&namespace, &name], index);
        }
    }

    /// Adds an object to the indexes. `position` is its place in the list of all objects.
    fn index(&mut self, position: usize, object: &Object) {
        let (kind, namespace) = (object.kind.name(), object.namespace.as_str());
        if !namespace.is_empty() && !self.namespaces.contains(namespace) {
            self.namespaces.insert(namespace.to_owned());
        }
        if object.template().is_some_and(|template| !template.counts_as_pod) {
            return;
        }
        self.networks.insert(object);
        self.by_kind.insert(&[kind], position);
        self.by_namespace.insert(&[kind, namespace], position);
        self.by_name.insert(&[kind, namespace, &object.name], position);
        match object.kind {
            Kind::Service => self.index_service(position, Service(object)),
            Kind::Pod => {
                for (key, value) in object.labels() {
                    self.pods_by_label.insert(&[namespace, key, value], position);
                }
                self.pods_by_node.insert(&[Pod(object).node()], position);
                for address in Pod(object).ips() {
                    self.pods_by_address.insert(&[&address.to_string()], position);
                }
            }
            Kind::Node => {
                for address in Node(object).ips() {
                    self.nodes_by_address.insert(&[&address.to_string()], position);
                }
            }
            Kind::EndpointSlice => {
                if let Some(service) = EndpointSlice(object).service_name() {
                    self.slices_by_service.insert(&[namespace, service], position);
                }
            }
            kind if Route::KINDS.contains(&kind) => {
                for backend in Route(object).backends() {
                    self.routes_by_service
                        .insert(&[backend.namespace, backend.service], position);
                }
            }
            Kind::Event => {
                let (kind, namespace, name) = Event(object).regarding();
                self.events_by_object.insert(&[kind, namespace, name], position);
            }
            Kind::NodeObservation => {
                // An observation with invalid metadata has no name, so it is not an object.
                if let Ok(observation) = NodeObservation::deserialize(object.tree()) {
                    self.observations.push(observation);
                }
            }
            kind if Workload::KINDS.contains(&kind) => {
                for (key, value) in Workload(object).template_labels() {
                    self.workloads_by_label.insert(&[namespace, key, value], position);
                }
            }
            _ => {}
        }
    }

    /// Reads the references of Pods and templates. Their values can be in ConfigMaps.
    fn index_references(&mut self) {
        let objects = self.objects.iter().enumerate();
        let pods = objects.filter(|(_, object)| object.kind == Kind::Pod);
        let mut found = Vec::new();
        for (position, object) in pods {
            let config_map = |name: &str| self.object(Kind::ConfigMap, &object.namespace, name);
            let references = references_of(Pod(object), &config_map).into_iter();
            found.extend(references.map(|reference| (position, reference)));
        }
        for (position, reference) in found {
            if reference.address.is_none() {
                let key = [reference.namespace.as_str(), reference.service.as_str()];
                self.references_by_service.insert(&key, self.references.len());
            }
            self.references.push((position, reference));
        }
    }

    fn index_service(&mut self, position: usize, service: Service<'_>) {
        self.services_by_name.insert(&[&service.name], position);
        if let Some((key, value)) = service.selector().first() {
            self.services_by_selector
                .insert(&[&service.namespace, key, value], position);
        }
        let addresses = service.cluster_ips().into_iter();
        for address in addresses
            .chain(service.external_ips())
            .chain(service.ingress_ips())
        {
            self.services_by_address.insert(&[&address.to_string()], position);
        }
        let node_ports = service.ports().into_iter().filter_map(|port| port.node_port);
        for port in node_ports.chain(service.health_check_node_port()) {
            self.services_by_node_port.insert(&[&port.to_string()], position);
        }
    }

    /// Returns true if the input contains the kind. A rule that depends on an absent kind reports nothing.
    pub fn has(&self, kind: Kind) -> bool {
        self.present.contains(&kind)
    }

    /// Returns the trees of the objects of a kind: objects of the input, and objects that the controllers would derive
    /// from the input.
    pub fn trees(&self, kind: Kind) -> impl Iterator<Item = &serde_json::Value> {
        let positions = self.by_kind.get(&[kind.name()]).iter();
        positions.map(|position| self.objects[*position].tree())
    }

    /// Returns the number of objects of the input.
    pub fn len(&self) -> usize {
        self.given
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.given == 0
    }

    /// Returns true if all objects of the input are of this kind, besides observations of nodes.
    pub(crate) fn has_only_kind(&self, kind: Kind) -> bool {
        let mut others = self.present.iter().filter(|present| **present != kind);
        others.all(|present| *present == Kind::NodeObservation)
    }

    /// Returns true if the input has workloads and neither Pods nor endpoints.
    pub(crate) fn is_manifest(&self) -> bool {
        let kinds = [Kind::Pod, Kind::EndpointSlice, Kind::Endpoints];
        !kinds.into_iter().any(|kind| self.has(kind)) && self.all(Kind::Pod).next().is_some()
    }

    /// Returns facts of the cluster that no single object states.
    pub(crate) fn cluster_facts(&self) -> &ClusterFacts {
        self.cluster_facts.get_or_init(|| ClusterFacts::of(self))
    }

    /// Returns the names of all Nodes, sorted.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes().map(|node| node.0.name.as_str())
    }

    /// Returns the number of objects that the rules have read so far, with repetitions.
    pub fn lookups(&self) -> usize {
        self.lookups.get()
    }

    /// Returns the namespaces that have objects, sorted.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(String::as_str)
    }

    fn read<'w>(&'w self, positions: &'w [usize]) -> impl Iterator<Item = &'w Object> {
        positions.iter().map(|position| {
            self.lookups.set(self.lookups.get() + 1);
            &self.objects[*position]
        })
    }

    /// Returns the objects of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.read(self.by_kind.get(&[kind.name()]))
    }

    /// Returns the objects of a kind in a namespace.
    pub(crate) fn in_namespace(&self, kind: Kind, namespace: &str) -> impl Iterator<Item = &Object> {
        self.read(self.by_namespace.get(&[kind.name(), namespace]))
    }

    /// Returns an object. The namespace of cluster-scoped objects is "".
    pub(crate) fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.read(self.by_name.get(&[kind.name(), namespace, name]))
            .next()
    }

    /// Returns all Services, ordered by namespace and name.
    pub(crate) fn services(&self) -> impl Iterator<Item = Service<'_>> {
        self.all(Kind::Service).map(Service)
    }

    /// Returns a Service.
    pub(crate) fn service(&self, namespace: &str, name: &str) -> Option<Service<'_>> {
        self.object(Kind::Service, namespace, name).map(Service)
    }

    /// Returns the Services with a name, in all namespaces.
    pub(crate) fn services_named(&self, name: &str) -> impl Iterator<Item = Service<'_>> {
        self.read(self.services_by_name.get(&[name])).map(Service)
    }

    /// Returns the Services whose selector matches a Pod.
    pub(crate) fn services_selecting<'w>(&'w self, pod: Pod<'w>) -> Vec<Service<'w>> {
        let labels = pod.0.labels();
        let candidates = labels.flat_map(|(key, value)| {
            self.read(self.services_by_selector.get(&[&pod.0.namespace, key, value]))
        });
        candidates
            .map(Service)
            .filter(|service| service.selects(|key| pod.0.label(key)))
            .collect()
    }

    /// Returns the Services with a cluster IP, external IP or load balancer IP.
    pub(crate) fn services_at(&self, address: IpAddr) -> impl Iterator<Item = Service<'_>> {
        self.read(self.services_by_address.get(&[&address.to_string()]))
            .map(Service)
    }

    /// Returns the Services with a node port of this number, of any protocol.
    pub(crate) fn services_at_node_port(&self, port: u16) -> impl Iterator<Item = Service<'_>> {
        self.read(self.services_by_node_port.get(&[&port.to_string()]))
            .map(Service)
    }

    /// Returns the Pods of a namespace with all of these labels; none without labels.
    pub(crate) fn pods_with<'w>(&'w self, namespace: &str, labels: &[(&str, &str)]) -> Vec<Pod<'w>> {
        let pods = self.with_labels(&self.pods_by_label, namespace, labels);
        pods.filter(|pod| labels.iter().all(|(key, value)| pod.label(key) == Some(value)))
            .map(Pod)
            .collect()
    }

    /// Returns the workloads of a namespace whose Pods have all of these labels; none without labels.
    pub(crate) fn workloads_with<'w>(
        &'w self,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Vec<Workload<'w>> {
        let workloads = self.with_labels(&self.workloads_by_label, namespace, labels);
        let has = |workload: &Workload<'w>, (key, value): &(&str, &str)| {
            workload.template_labels().any(|label| label == (*key, *value))
        };
        workloads
            .map(Workload)
            .filter(|workload| labels.iter().all(|label| has(workload, label)))
            .collect()
    }

    /// Returns the objects of an index with the rarest of these labels.
    fn with_labels<'w>(
        &'w self,
        index: &'w Index,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> impl Iterator<Item = &'w Object> + use<'w> {
        let lists = labels
            .iter()
            .map(|(key, value)| index.get(&[namespace, key, value]));
        self.read(lists.min_by_key(|list| list.len()).unwrap_or_default())
    }

    /// Returns the Pods with an address. Pods in the network namespace of a node share its addresses.
    pub(crate) fn pods_at(&self, address: IpAddr) -> impl Iterator<Item = Pod<'_>> {
        self.read(self.pods_by_address.get(&[&address.to_string()]))
            .map(Pod)
    }

    /// Returns the Pods on a node.
    pub(crate) fn pods_on(&self, node: &str) -> impl Iterator<Item = Pod<'_>> {
        self.read(self.pods_by_node.get(&[node])).map(Pod)
    }

    /// Returns the EndpointSlices of a Service.
    pub(crate) fn slices_of(&self, service: Service<'_>) -> impl Iterator<Item = EndpointSlice<'_>> {
        let key = [service.namespace.as_str(), service.name.as_str()];
        self.read(self.slices_by_service.get(&key)).map(EndpointSlice)
    }

    /// Returns the Endpoints of a Service.
    pub(crate) fn endpoints_of(&self, service: Service<'_>) -> Option<Endpoints<'_>> {
        self.object(Kind::Endpoints, &service.namespace, &service.name)
            .map(Endpoints)
    }

    /// Returns the Ingresses, routes and other objects with this Service as a backend.
    pub(crate) fn routes_of(&self, service: Service<'_>) -> impl Iterator<Item = Route<'_>> {
        let key = [service.namespace.as_str(), service.name.as_str()];
        self.read(self.routes_by_service.get(&key)).map(Route)
    }

    /// Returns the Ingresses with this Service as a backend.
    pub(crate) fn ingresses_of(&self, service: Service<'_>) -> impl Iterator<Item = Route<'_>> {
        self.routes_of(service)
            .filter(|route| route.0.kind == Kind::Ingress)
    }

    /// Returns the Pods of a namespace that run, declare ports, and are selected by no Service.
    pub(crate) fn unselected_pods<'w>(&'w self, namespace: &str) -> impl Iterator<Item = Pod<'w>> {
        let pods = self.in_namespace(Kind::Pod, namespace).take(COMPARED_PODS_MAX);
        pods.map(Pod).filter(|pod| {
            pod.is_active() && !pod.ports().is_empty() && self.services_selecting(*pod).is_empty()
        })
    }

    /// Returns the references of Pods to a Service.
    pub(crate) fn references_to(&self, service: Service<'_>) -> impl Iterator<Item = (Pod<'_>, &Reference)> {
        let key = [service.namespace.as_str(), service.name.as_str()];
        self.references_by_service.get(&key).iter().map(|index| {
            self.lookups.set(self.lookups.get() + 1);
            let (position, reference) = &self.references[*index];
            (Pod(&self.objects[*position]), reference)
        })
    }

    /// Returns all references of Pods to hosts.
    pub(crate) fn references(&self) -> impl Iterator<Item = (Pod<'_>, &Reference)> {
        let references = self.references.iter();
        references.map(|(position, reference)| (Pod(&self.objects[*position]), reference))
    }

    /// Returns all Nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.all(Kind::Node).map(Node)
    }

    /// Returns a Node.
    pub(crate) fn node(&self, name: &str) -> Option<Node<'_>> {
        self.object(Kind::Node, "", name).map(Node)
    }

    /// Returns the observations of nodes.
    pub(crate) fn observations(&self) -> &Observations {
        &self.observations
    }

    /// Returns the Node with an address.
    pub(crate) fn node_at(&self, address: IpAddr) -> Option<Node<'_>> {
        self.read(self.nodes_by_address.get(&[&address.to_string()]))
            .next()
            .map(Node)
    }

    /// Returns the Events about an object.
    pub(crate) fn events_about<'w>(&'w self, object: &Object) -> impl Iterator<Item = Event<'w>> + use<'w> {
        let key = [
            object.kind.name(),
            object.namespace.as_str(),
            object.name.as_str(),
        ];
        self.read(self.events_by_object.get(&key)).map(Event)
    }

    /// Returns the latest Event about an object with one of these reasons.
    pub(crate) fn latest_event<'w>(&'w self, object: &Object, reasons: &[&str]) -> Option<Event<'w>> {
        self.events_about(object)
            .filter(|event| reasons.contains(&event.reason()))
            .max_by_key(|event| event.time())
    }
}

#[cfg(test)]
mod tests;
