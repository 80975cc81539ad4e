//! What a change means: it goes into the caches, and the keys it concerns into the queue.

use api::object::{EndpointSlice, Endpoints, Node, ObjectKey, Pod, Service};
use client::Event;

use super::Loop;
use super::watches::Change;
use super::work::{Work, selects_pods};
use crate::endpoints::LEADER_ANNOTATION;
use crate::placement::needs_node;

impl Loop {
    /// Takes in a change.
    pub(super) fn take(&mut self, change: Change) {
        match change {
            Change::Service(event) => self.take_service(event),
            Change::Pod(event) => self.take_pod(event),
            Change::Node(event) => self.take_node(event),
            Change::Slice(event) => self.take_slice(event),
            Change::Mirrored(event) => self.take_mirrored(event),
            Change::Endpoints(event) => self.take_endpoints(event),
        }
    }

    fn take_service(&mut self, event: Event<Service>) {
        let key = match event {
            Event::Applied(service) => {
                let key = service.metadata.key();
                if !self.world.apply_service(service) {
                    return;
                }
                key
            }
            Event::Deleted(key) => {
                self.world.remove_service(&key);
                key
            }
            Event::Synced => return,
            Event::Malformed { key, error } => return report_malformed("Service", &key, &error),
        };
        self.look_at(Work::Slices(key.clone()));
        self.look_at(Work::Endpoints(key.clone()));
        self.look_at(Work::Mirroring(key));
    }

    fn take_pod(&mut self, event: Event<Pod>) {
        let concerned = match event {
            Event::Applied(pod) => {
                if needs_node(&pod) {
                    self.look_at(Work::Placement(pod.metadata.key()));
                }
                self.world.apply_pod(pod)
            }
            Event::Deleted(key) => self.world.remove_pod(&key),
            Event::Synced => return,
            Event::Malformed { key, error } => return report_malformed("Pod", &key, &error),
        };
        for service in concerned {
            self.look_at(Work::Slices(service.clone()));
            self.look_at(Work::Endpoints(service));
        }
    }

    fn take_node(&mut self, event: Event<Node>) {
        let concerned = match event {
            Event::Applied(node) => self.world.apply_node(&node),
            Event::Deleted(key) => self.world.remove_node(&key.name),
            Event::Synced => return,
            Event::Malformed { key, error } => return report_malformed("Node", &key, &error),
        };
        self.look_at_all(concerned, Work::Slices);
    }

    fn take_slice(&mut self, event: Event<EndpointSlice>) {
        let concerned = match event {
            Event::Applied(slice) => self.world.slices.apply(slice),
            Event::Deleted(key) => self.world.slices.remove(&key).into_iter().collect(),
            // Slices of Services that went while nobody looked.
            Event::Synced => self.world.slices.services().cloned().collect(),
            Event::Malformed { key, error } => return report_malformed("EndpointSlice", &key, &error),
        };
        self.look_at_all(concerned, Work::Slices);
    }

    fn take_mirrored(&mut self, event: Event<EndpointSlice>) {
        let concerned = match event {
            Event::Applied(slice) => self.world.mirrored.apply(slice),
            Event::Deleted(key) => self.world.mirrored.remove(&key).into_iter().collect(),
            // Slices of Endpoints that went while nobody looked.
            Event::Synced => self.world.mirrored.services().cloned().collect(),
            Event::Malformed { key, error } => return report_malformed("EndpointSlice", &key, &error),
        };
        self.look_at_all(concerned, Work::Mirroring);
    }

    fn take_endpoints(&mut self, event: Event<Endpoints>) {
        let key = match event {
            Event::Applied(endpoints) => {
                let key = endpoints.metadata.key();
                if !self.world.endpoints.apply(endpoints) {
                    return;
                }
                key
            }
            Event::Deleted(key) => {
                self.world.endpoints.remove(&key);
                key
            }
            Event::Synced => return self.look_at_leftovers(),
            Event::Malformed { key, error } => return report_malformed("Endpoints", &key, &error),
        };
        // Those without a Service are let be while this runs: their Service may be on its way.
        if self.world.services.get(&key).is_some_and(selects_pods) {
            self.look_at(Work::Endpoints(key.clone()));
        }
        self.look_at(Work::Mirroring(key));
    }

    /// Looks, once, at the Endpoints whose Services may have gone while nobody looked (EPC-13).
    fn look_at_leftovers(&mut self) {
        if std::mem::replace(&mut self.leftovers_seen, true) {
            return;
        }
        let all = self.world.endpoints.iter();
        let of_services = all.filter(|(_, e)| !e.metadata.annotations.contains_key(LEADER_ANNOTATION));
        let keys = of_services.map(|(key, _)| key.clone()).collect();
        self.look_at_all(keys, Work::Endpoints);
    }

    fn look_at_all(&mut self, keys: Vec<ObjectKey>, work: fn(ObjectKey) -> Work) {
        for key in keys {
            self.look_at(work(key));
        }
    }

    /// Queues work, if its controller runs.
    fn look_at(&mut self, work: Work) {
        if self.options.controllers.contains(work.controller()) {
            self.queue.add(work);
        }
    }
}

fn report_malformed(kind: &str, key: &ObjectKey, error: &str) {
    tracing::error!(kind, %key, error, "the object cannot be read and is skipped");
}
