//! The objects of a cluster, with indexes: the check of one Service reads the objects that concern it, not all.

mod builder;
mod derived;
mod index;
mod observations;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::IpAddr;

pub use builder::Builder;
use index::Index;
use observations::Observations;
use serde::Deserialize;

use crate::kind::Kind;
use crate::object::Object;
use crate::observation::NodeObservation;
use crate::references::{Reference, references_of};
use crate::views::{EndpointSlice, Endpoints, Event, Ingress, Node, Pod, Service, Workload};

/// Objects of a cluster, or a part of them.
#[derive(Debug)]
pub struct World {
    objects: Vec<Object>,
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
    ingresses_by_service: Index,
    /// References of Pods to host names, with the position of the Pod.
    references: Vec<(usize, Reference)>,
    /// Positions in `references` by namespace and name of the Service.
    references_by_service: Index,
    observations: Observations,
    /// Pods by their addresses.
    pods_by_address: Index,
    /// Pods by the names of their nodes.
    pods_by_node: Index,
    lookups: Cell<usize>,
}

impl World {
    /// Returns a builder without objects.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(objects: Vec<Object>, present: BTreeSet<Kind>) -> Self {
        let mut world = Self {
            objects: Vec::new(),
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
            ingresses_by_service: Index::default(),
            references: Vec::new(),
            references_by_service: Index::default(),
            observations: Observations::default(),
            pods_by_address: Index::default(),
            pods_by_node: Index::default(),
            lookups: Cell::new(0),
        };
        for (position, object) in objects.iter().enumerate() {
            world.index(position, object);
        }
        world.objects = objects;
        world
    }

    fn index(&mut self, position: usize, object: &Object) {
        let (kind, namespace) = (object.kind.name(), object.namespace.as_str());
        if !namespace.is_empty() && !self.namespaces.contains(namespace) {
            self.namespaces.insert(namespace.to_owned());
        }
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
                for reference in references_of(Pod(object)) {
                    let key = [reference.namespace.as_str(), reference.service.as_str()];
                    self.references_by_service.insert(&key, self.references.len());
                    self.references.push((position, reference));
                }
            }
            Kind::EndpointSlice => {
                if let Some(service) = EndpointSlice(object).service_name() {
                    self.slices_by_service.insert(&[namespace, service], position);
                }
            }
            Kind::Ingress => {
                for backend in Ingress(object).backends() {
                    self.ingresses_by_service
                        .insert(&[namespace, backend.service], position);
                }
            }
            Kind::Event => {
                let (kind, namespace, name) = Event(object).about();
                self.events_by_object.insert(&[kind, namespace, name], position);
            }
            Kind::NodeObservation => {
                // An observation with invalid metadata has no name, so it is no object.
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
        for port in service.ports().iter().filter_map(|port| port.node_port) {
            self.services_by_node_port.insert(&[&port.to_string()], position);
        }
    }

    /// Returns true if the input contains the kind. A rule that depends on an absent kind reports nothing.
    pub fn has(&self, kind: Kind) -> bool {
        self.present.contains(&kind)
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
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

    /// Returns the Ingresses with this Service as a backend.
    pub(crate) fn ingresses_of(&self, service: Service<'_>) -> impl Iterator<Item = Ingress<'_>> {
        let key = [service.namespace.as_str(), service.name.as_str()];
        self.read(self.ingresses_by_service.get(&key)).map(Ingress)
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

    /// Returns all references of Pods to host names.
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

    /// Returns the latest Event about an object with one of these reasons.
    pub(crate) fn latest_event<'w>(&'w self, object: &Object, reasons: &[&str]) -> Option<Event<'w>> {
        let key = [
            object.kind.name(),
            object.namespace.as_str(),
            object.name.as_str(),
        ];
        self.read(self.events_by_object.get(&key))
            .map(Event)
            .filter(|event| reasons.contains(&event.reason()))
            .max_by_key(|event| event.time())
    }
}

#[cfg(test)]
mod tests;
