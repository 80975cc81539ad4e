//! State machine of the controller: the Service of each class with Ingresses, and the addresses in the status of
//! Ingresses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use api::object::{AddressPool, Ingress, IngressClass, LoadBalancerIngress, ObjectKey, Resource, Service};
use client::Event;
use reconcile::events::{CurrentEvents, EventText, ObjectReference};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};
use serde_json::{Value, json};

use super::class_service;

/// Change that a watch reports.
pub(super) enum Change {
    Class(Event<IngressClass>),
    Ingress(Event<Ingress>),
    /// Service in the namespace of the Services of classes.
    Service(Event<Service>),
    Pool(Event<AddressPool>),
}

/// Subject of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Service of a class.
    Class(Arc<str>),
    /// Status of an Ingress.
    Ingress(ObjectKey),
    /// Pool with the addresses of nodes.
    NodePool,
}

/// Write of the controller.
#[derive(Debug, PartialEq)]
pub(super) enum Job {
    /// Creates an object in a collection.
    Create { collection: String, object: Value },
    /// Applies a merge patch.
    Patch { path: String, patch: Value },
    /// Records Events.
    Report {
        regarding: ObjectReference,
        events: Vec<EventText>,
    },
}

/// Caches of the controller.
#[derive(Debug, Default)]
pub(super) struct IngressController {
    classes: BTreeMap<Arc<str>, IngressClass>,
    ingresses: BTreeMap<ObjectKey, Ingress>,
    services: BTreeMap<ObjectKey, Service>,
    /// Addresses that this controller wrote to the status of Ingresses. It removes them when the class is deleted.
    assigned: HashMap<ObjectKey, Vec<LoadBalancerIngress>>,
    events: CurrentEvents<Arc<str>>,
    /// Names of all pools.
    pools: BTreeSet<Arc<str>>,
    /// Creates a pool with the addresses of nodes for the first Service, if there is no pool.
    needs_node_pool: bool,
    synced: BTreeSet<&'static str>,
}

/// Kinds that are watched.
const KINDS: usize = 4;

impl IngressController {
    /// Creates a controller with empty caches. With `creates_node_pool`, Ingresses without any pool receive the
    /// addresses of nodes.
    pub(super) fn new(creates_node_pool: bool) -> Self {
        Self {
            needs_node_pool: creates_node_pool,
            ..Self::default()
        }
    }

    /// Adds a class and its Ingresses to the queue.
    fn enqueue_class(&self, class: &str, queue: &mut Queue<Subject>, now: Instant) {
        queue.add(Subject::Class(class.into()), now);
        queue.add(Subject::NodePool, now);
        for (key, ingress) in &self.ingresses {
            if ingress.class() == Some(class) {
                queue.add(Subject::Ingress(key.clone()), now);
            }
        }
    }

    /// Adds an Ingress and the Service of its class to the queue.
    fn enqueue_ingress(&self, key: &ObjectKey, queue: &mut Queue<Subject>, now: Instant) {
        let class = self.ingresses.get(key).and_then(Ingress::class);
        if let Some(class) = class {
            queue.add(Subject::Class(class.into()), now);
            queue.add(Subject::NodePool, now);
        }
        queue.add(Subject::Ingress(key.clone()), now);
    }

    fn add_synced(&mut self, kind: &'static str) {
        self.synced.insert(kind);
    }

    fn has_ingress_of(&self, class: &str) -> bool {
        let mut ingresses = self.ingresses.values();
        ingresses.any(|ingress| ingress.class() == Some(class))
    }

    /// Returns the class if Portolan serves it.
    fn own_class(&self, name: &str) -> Option<&IngressClass> {
        self.classes.get(name).filter(|class| class.is_own())
    }

    fn reconcile_class(&mut self, name: &Arc<str>) -> Action<Job> {
        let Some(class) = self.own_class(name) else {
            self.events.replace(Arc::clone(name), Vec::new());
            return Action::Done;
        };
        let Some(key) = class_service::key(name) else {
            let message = format!(
                "expected a class whose name has at most 55 characters and no dot, found {name:?}; use another name"
            );
            return self.report(name, EventText::warning("InvalidName", message));
        };
        match self.services.get(&key) {
            // A class without Ingresses needs no address.
            None if !self.has_ingress_of(name) => Action::Done,
            None => Action::Run(Job::Create {
                collection: Service::collection(Some(&key.namespace)),
                object: class_service::object(class, &key),
            }),
            Some(service) if class_service::is_owned(service, class) => {
                self.events.replace(Arc::clone(name), Vec::new());
                Action::Done
            }
            Some(_) => {
                let message = format!(
                    "Service {key} does not belong to this class and stays as it is; delete it, or use another name for the \
                     class"
                );
                self.report(name, EventText::warning("ServiceConflict", message))
            }
        }
    }

    /// Creates the pool of node addresses once: a user may delete it.
    fn reconcile_node_pool(&mut self) -> Action<Job> {
        if !self.needs_node_pool {
            return Action::Done;
        }
        let mut classes = self.classes.keys();
        if !classes.any(|name| self.own_class(name).is_some() && self.has_ingress_of(name)) {
            return Action::Done;
        }
        if !self.pools.is_empty() {
            self.needs_node_pool = false;
            return Action::Done;
        }
        Action::Run(Job::Create {
            collection: AddressPool::collection(None),
            object: class_service::node_pool(),
        })
    }

    /// Records an Event about a class, unless it is recorded already.
    fn report(&mut self, name: &Arc<str>, event: EventText) -> Action<Job> {
        let events = self.events.replace(Arc::clone(name), vec![event]);
        match self.classes.get(name) {
            Some(class) if !events.is_empty() => Action::Run(Job::Report {
                regarding: ObjectReference::of(class),
                events,
            }),
            _ => Action::Done,
        }
    }

    fn reconcile_ingress(&mut self, key: &ObjectKey) -> Action<Job> {
        let Some(ingress) = self.ingresses.get(key) else {
            self.assigned.remove(key);
            return Action::Done;
        };
        let current = addresses_in(&ingress.status.load_balancer.ingress);
        let class = ingress.class().and_then(|name| self.own_class(name));
        let desired = match class {
            Some(class) => self.addresses_of(class),
            // Another controller may have written other addresses.
            None if self.assigned.get(key) == Some(&current) => Vec::new(),
            None => return Action::Done,
        };
        let is_own = class.is_some();
        let uid = ingress.metadata.uid.clone();
        if is_own && !desired.is_empty() {
            self.assigned.insert(key.clone(), desired.clone());
        } else if current.is_empty() {
            self.assigned.remove(key);
        }
        if current == desired {
            return Action::Done;
        }
        let collection = Ingress::collection(Some(&key.namespace));
        let entries: Vec<Value> = desired.iter().map(entry).collect();
        Action::Run(Job::Patch {
            path: format!("{collection}/{}/status", key.name),
            patch: json!({
                "metadata": {"uid": uid},
                "status": {"loadBalancer": {"ingress": entries}},
            }),
        })
    }

    /// Returns the addresses of a class: those of its Service.
    fn addresses_of(&self, class: &IngressClass) -> Vec<LoadBalancerIngress> {
        let key = class_service::key(&class.metadata.name);
        let service = key.and_then(|key| self.services.get(&key));
        let service = service.filter(|service| class_service::is_owned(service, class));
        service.map_or_else(Vec::new, |service| {
            addresses_in(&service.status.load_balancer.ingress)
        })
    }
}

/// Returns address and name of each entry. Ingresses have no `ipMode`.
fn addresses_in(entries: &[LoadBalancerIngress]) -> Vec<LoadBalancerIngress> {
    let addresses = entries.iter().map(|entry| LoadBalancerIngress {
        ip: entry.ip.clone(),
        hostname: entry.hostname.clone(),
        ..LoadBalancerIngress::default()
    });
    addresses.collect()
}

fn entry(address: &LoadBalancerIngress) -> Value {
    let mut entry = json!({});
    for (field, value) in [("ip", &address.ip), ("hostname", &address.hostname)] {
        if !value.is_empty() {
            entry[field] = json!(value);
        }
    }
    entry
}

impl Reconciler for IngressController {
    type Change = Change;
    type Key = Subject;
    type Job = Job;
    type Output = ();
    const CONCURRENT_JOBS_MAX: usize = 8;

    fn tenant(subject: &Subject) -> &str {
        match subject {
            Subject::Ingress(key) => &key.namespace,
            Subject::Class(_) | Subject::NodePool => "",
        }
    }

    /// Updates the caches by an event, and queues the classes that depend on it.
    fn apply_change(&mut self, change: Change, queue: &mut Queue<Subject>, now: Instant) {
        match change {
            Change::Class(Event::Applied(class)) => {
                let name: Arc<str> = class.metadata.name.as_str().into();
                self.classes.insert(Arc::clone(&name), class);
                self.enqueue_class(&name, queue, now);
            }
            Change::Class(Event::Deleted(key)) => {
                self.classes.remove(&*key.name);
                self.enqueue_class(&key.name, queue, now);
            }
            Change::Ingress(Event::Applied(ingress)) => {
                let key = ingress.metadata.key();
                self.ingresses.insert(key.clone(), ingress);
                self.enqueue_ingress(&key, queue, now);
            }
            Change::Ingress(Event::Deleted(key)) => {
                self.ingresses.remove(&key);
                queue.add(Subject::Ingress(key), now);
            }
            Change::Service(Event::Applied(service)) => {
                let key = service.metadata.key();
                if let Some(class) = class_service::class_of(&key) {
                    self.services.insert(key.clone(), service);
                    self.enqueue_class(class, queue, now);
                }
            }
            Change::Service(Event::Deleted(key)) => {
                self.services.remove(&key);
                if let Some(class) = class_service::class_of(&key) {
                    self.enqueue_class(class, queue, now);
                }
            }
            Change::Pool(Event::Applied(pool)) => {
                self.pools.insert(pool.metadata.name.as_str().into());
            }
            Change::Pool(Event::Deleted(key)) => {
                self.pools.remove(&key.name);
            }
            Change::Class(Event::Synced) => self.add_synced(IngressClass::KIND),
            Change::Ingress(Event::Synced) => self.add_synced(Ingress::KIND),
            Change::Service(Event::Synced) => self.add_synced(Service::KIND),
            Change::Pool(Event::Synced) => self.add_synced(AddressPool::KIND),
            Change::Class(Event::Malformed { key, error }) => log_malformed("IngressClass", &key, &error),
            Change::Ingress(Event::Malformed { key, error }) => log_malformed("Ingress", &key, &error),
            Change::Service(Event::Malformed { key, error }) => log_malformed("Service", &key, &error),
            // A malformed pool is a pool, too.
            Change::Pool(Event::Malformed { key, .. }) => {
                self.pools.insert(key.name);
            }
        }
    }

    fn is_synced(&self) -> bool {
        self.synced.len() == KINDS
    }

    fn reconcile(&mut self, key: &Subject, _now: Instant) -> Action<Job> {
        match key {
            Subject::Class(name) => self.reconcile_class(name),
            Subject::Ingress(key) => self.reconcile_ingress(key),
            Subject::NodePool => self.reconcile_node_pool(),
        }
    }

    /// The watch reports the written object. The pool is created once.
    fn on_success(&mut self, key: &Subject, _output: (), _queue: &mut Queue<Subject>, _now: Instant) {
        if *key == Subject::NodePool {
            self.needs_node_pool = false;
        }
    }
}

fn log_malformed(kind: &'static str, key: &ObjectKey, error: &str) {
    tracing::error!(kind, object = %key, error, "malformed object ignored");
}

#[cfg(test)]
mod tests;
