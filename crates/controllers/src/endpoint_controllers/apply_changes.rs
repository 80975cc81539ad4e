//! Application of changes: the caches are updated, and the affected keys go to the queues.

use std::time::{Duration, Instant};

use api::object::{EndpointSlice, Endpoints, Node, ObjectKey, Pod, Service};
use client::Event;

use super::reconciler::EndpointReconciler;
use super::sync_key::{SyncKey, selects_pods};
use super::watches::{Change, EventAtRevision};
use crate::caches::drop_trigger_time;
use crate::endpoints::LEADER_ANNOTATION;
use crate::malformed_object::log_malformed;
use crate::selection::Controller;

/// The shortest delay before the controller reverts a change of a slice by another program. Two controllers with
/// different desired states therefore do not write without pause (EPS-21).
const FOREIGN_CHANGE_DELAY: Duration = Duration::from_secs(1);

impl EndpointReconciler {
    /// Applies a change to the caches and adds the affected work to the queues.
    pub(super) fn apply_change(&mut self, change: Change, now: Instant) {
        match change {
            Change::Service(arrival) => self.apply_service(arrival.event, now),
            Change::Pod(arrival) => self.apply_pod(arrival.event, now),
            Change::Node(arrival) => self.apply_node(arrival.event, now),
            Change::Slice(arrival) => self.apply_slice(arrival, now),
            Change::Mirrored(arrival) => self.apply_mirrored(arrival, now),
            Change::Endpoints(arrival) => self.apply_endpoints(arrival, now),
        }
    }

    fn apply_service(&mut self, event: Event<Service>, now: Instant) {
        let key = match event {
            Event::Applied(service) => {
                let key = service.metadata.key();
                if !self.caches.apply_service(service) {
                    return;
                }
                key
            }
            Event::Deleted(key) => {
                self.caches.remove_service(&key);
                key
            }
            Event::Synced => return,
            Event::Malformed { key, error } => return log_malformed::<Service>(&key, &error),
        };
        self.queues.add(SyncKey::Slices(key.clone()), now);
        self.queues.add(SyncKey::Endpoints(key.clone()), now);
        self.queues.add(SyncKey::Mirroring(key), now);
    }

    fn apply_pod(&mut self, event: Event<Pod>, now: Instant) {
        let affected = match event {
            Event::Applied(pod) => self.caches.apply_pod(&pod),
            Event::Deleted(key) => self.caches.remove_pod(&key),
            Event::Synced => return,
            Event::Malformed { key, error } => return log_malformed::<Pod>(&key, &error),
        };
        for service in affected {
            let slices = SyncKey::Slices(service.clone());
            self.queues.add_batched(slices, Duration::ZERO, now);
            let endpoints = SyncKey::Endpoints(service);
            self.queues.add_batched(endpoints, Duration::ZERO, now);
        }
    }

    fn apply_node(&mut self, event: Event<Node>, now: Instant) {
        let affected = match event {
            Event::Applied(node) => self.caches.apply_node(&node),
            Event::Deleted(key) => self.caches.remove_node(&key.name),
            Event::Synced => return,
            Event::Malformed { key, error } => return log_malformed::<Node>(&key, &error),
        };
        for service in affected {
            self.queues.add(SyncKey::Slices(service), now);
        }
    }

    fn apply_slice(&mut self, arrival: EventAtRevision<EndpointSlice>, now: Instant) {
        let slices = &mut self.caches.slices;
        let affected = match arrival.event {
            Event::Applied(mut slice) => {
                self.caches.pods.share_with_slice(&mut slice);
                drop_trigger_time(&mut slice.metadata);
                slices.apply(slice)
            }
            Event::Deleted(key) => slices.remove(&key).into_iter().collect(),
            Event::Synced => {
                self.initial_lists.slices = true;
                let lost = slices.complete_list(arrival.revision);
                self.refresh_in_progress(Controller::EndpointSlice);
                return self.add_all(lost, SyncKey::Slices, now);
            }
            Event::Malformed { key, error } => return log_malformed::<EndpointSlice>(&key, &error),
        };
        if self.initial_lists.slices {
            for service in affected {
                self.queues
                    .add_batched(SyncKey::Slices(service), FOREIGN_CHANGE_DELAY, now);
            }
        }
    }

    fn apply_mirrored(&mut self, arrival: EventAtRevision<EndpointSlice>, now: Instant) {
        let slices = &mut self.caches.mirrored;
        let affected = match arrival.event {
            Event::Applied(slice) => slices.apply(slice),
            Event::Deleted(key) => slices.remove(&key).into_iter().collect(),
            Event::Synced => {
                self.initial_lists.mirrored = true;
                let lost = slices.complete_list(arrival.revision);
                // Endpoints may have been deleted while no watch was open.
                let all = lost.into_iter().chain(slices.services().cloned()).collect();
                self.refresh_in_progress(Controller::EndpointSliceMirroring);
                return self.add_all(all, SyncKey::Mirroring, now);
            }
            Event::Malformed { key, error } => return log_malformed::<EndpointSlice>(&key, &error),
        };
        if self.initial_lists.mirrored {
            for name in affected {
                self.queues
                    .add_batched(SyncKey::Mirroring(name), FOREIGN_CHANGE_DELAY, now);
            }
        }
    }

    fn apply_endpoints(&mut self, arrival: EventAtRevision<Endpoints>, now: Instant) {
        let key = match arrival.event {
            Event::Applied(mut endpoints) => {
                let key = endpoints.metadata.key();
                self.caches.pods.share_with_endpoints(&mut endpoints);
                drop_trigger_time(&mut endpoints.metadata);
                if !self.caches.endpoints.apply(endpoints) {
                    return;
                }
                key
            }
            Event::Deleted(key) => {
                if !self.caches.endpoints.remove(&key) {
                    return;
                }
                key
            }
            Event::Synced => return self.complete_endpoints_list(arrival.revision, now),
            Event::Malformed { key, error } => return log_malformed::<Endpoints>(&key, &error),
        };
        // Endpoints without a Service stay: the Service may be created in a moment.
        if self.caches.service(&key).is_some_and(selects_pods) {
            self.queues.add(SyncKey::Endpoints(key.clone()), now);
        }
        let mirroring = SyncKey::Mirroring(key);
        self.queues.add_batched(mirroring, Duration::ZERO, now);
    }

    fn complete_endpoints_list(&mut self, revision: u64, now: Instant) {
        let lost = self.caches.endpoints.complete_list(revision);
        self.refresh_in_progress(Controller::Endpoints);
        self.add_all(lost.clone(), SyncKey::Endpoints, now);
        self.add_all(lost, SyncKey::Mirroring, now);
        // Once per start: Services may have been deleted while no watch was open (EPC-13).
        if !std::mem::replace(&mut self.initial_lists.endpoints, true) {
            let all = self.caches.endpoints.iter();
            let service_endpoints =
                all.filter(|endpoints| !endpoints.metadata.annotations.contains_key(LEADER_ANNOTATION));
            let keys = service_endpoints
                .map(|endpoints| endpoints.metadata.key())
                .collect();
            self.add_all(keys, SyncKey::Endpoints, now);
        }
    }

    /// Requests a refresh of the work in progress. A complete list may be newer than the response to such a write.
    /// Otherwise an object that the list removes and the response restores would stay in the cache.
    fn refresh_in_progress(&mut self, controller: Controller) {
        self.needs_refresh.extend(self.queues.in_progress(controller));
    }

    fn add_all(&mut self, keys: Vec<ObjectKey>, work: fn(ObjectKey) -> SyncKey, now: Instant) {
        for key in keys {
            self.queues.add(work(key), now);
        }
    }
}
