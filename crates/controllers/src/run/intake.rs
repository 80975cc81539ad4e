//! What a change means: it goes into the caches, and the keys it concerns into the queues.

use std::time::{Duration, Instant};

use api::object::{EndpointSlice, Endpoints, Node, ObjectKey, Pod, Service};
use client::Event;

use super::core::Core;
use super::watches::{Arrival, Change};
use super::work::{Work, selects_pods};
use crate::endpoints::LEADER_ANNOTATION;
use crate::malformed;
use crate::selection::Controller;

/// What somebody else does to a slice is answered after this pause at the earliest, so that two who
/// disagree do not write without end (EPS-21).
const SLICE_CHANGE_PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Takes in a change.
    pub(super) fn take(&mut self, change: Change, now: Instant) {
        match change {
            Change::Service(arrival) => self.take_service(arrival.event, now),
            Change::Pod(arrival) => self.take_pod(arrival.event, now),
            Change::Node(arrival) => self.take_node(arrival.event, now),
            Change::Slice(arrival) => self.take_slice(arrival, now),
            Change::Mirrored(arrival) => self.take_mirrored(arrival, now),
            Change::Endpoints(arrival) => self.take_endpoints(arrival, now),
        }
    }

    fn take_service(&mut self, event: Event<Service>, now: Instant) {
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
            Event::Malformed { key, error } => return malformed::skip::<Service>(&key, &error),
        };
        self.lanes.add(Work::Slices(key.clone()), now);
        self.lanes.add(Work::Endpoints(key.clone()), now);
        self.lanes.add(Work::Mirroring(key), now);
    }

    fn take_pod(&mut self, event: Event<Pod>, now: Instant) {
        let concerned = match event {
            Event::Applied(pod) => self.world.apply_pod(&pod),
            Event::Deleted(key) => self.world.remove_pod(&key),
            Event::Synced => return,
            Event::Malformed { key, error } => return malformed::skip::<Pod>(&key, &error),
        };
        for service in concerned {
            let slices = Work::Slices(service.clone());
            self.lanes.add_batched(slices, Duration::ZERO, now);
            let endpoints = Work::Endpoints(service);
            self.lanes.add_batched(endpoints, Duration::ZERO, now);
        }
    }

    fn take_node(&mut self, event: Event<Node>, now: Instant) {
        let concerned = match event {
            Event::Applied(node) => self.world.apply_node(&node),
            Event::Deleted(key) => self.world.remove_node(&key.name),
            Event::Synced => return,
            Event::Malformed { key, error } => return malformed::skip::<Node>(&key, &error),
        };
        for service in concerned {
            self.lanes.add(Work::Slices(service), now);
        }
    }

    fn take_slice(&mut self, arrival: Arrival<EndpointSlice>, now: Instant) {
        let slices = &mut self.world.slices;
        let concerned = match arrival.event {
            Event::Applied(slice) => slices.apply(slice),
            Event::Deleted(key) => slices.remove(&key).into_iter().collect(),
            Event::Synced => {
                self.seen.slices = true;
                let lost = slices.listed(arrival.revision);
                self.doubt(Controller::EndpointSlice);
                return self.look_at_all(lost, Work::Slices, now);
            }
            Event::Malformed { key, error } => return malformed::skip::<EndpointSlice>(&key, &error),
        };
        if self.seen.slices {
            for service in concerned {
                self.lanes
                    .add_batched(Work::Slices(service), SLICE_CHANGE_PAUSE, now);
            }
        }
    }

    fn take_mirrored(&mut self, arrival: Arrival<EndpointSlice>, now: Instant) {
        let slices = &mut self.world.mirrored;
        let concerned = match arrival.event {
            Event::Applied(slice) => slices.apply(slice),
            Event::Deleted(key) => slices.remove(&key).into_iter().collect(),
            Event::Synced => {
                self.seen.mirrored = true;
                let lost = slices.listed(arrival.revision);
                // And slices of Endpoints that went while nobody looked.
                let all = lost.into_iter().chain(slices.services().cloned()).collect();
                self.doubt(Controller::EndpointSliceMirroring);
                return self.look_at_all(all, Work::Mirroring, now);
            }
            Event::Malformed { key, error } => return malformed::skip::<EndpointSlice>(&key, &error),
        };
        if self.seen.mirrored {
            for name in concerned {
                self.lanes
                    .add_batched(Work::Mirroring(name), SLICE_CHANGE_PAUSE, now);
            }
        }
    }

    fn take_endpoints(&mut self, arrival: Arrival<Endpoints>, now: Instant) {
        let key = match arrival.event {
            Event::Applied(endpoints) => {
                let key = endpoints.metadata.key();
                if !self.world.endpoints.apply(endpoints) {
                    return;
                }
                key
            }
            Event::Deleted(key) => {
                if !self.world.endpoints.remove(&key) {
                    return;
                }
                key
            }
            Event::Synced => return self.take_all_endpoints(arrival.revision, now),
            Event::Malformed { key, error } => return malformed::skip::<Endpoints>(&key, &error),
        };
        // Those without a Service are let be while this runs: their Service may be on its way.
        if self.world.services.get(&key).is_some_and(selects_pods) {
            self.lanes.add(Work::Endpoints(key.clone()), now);
        }
        let mirroring = Work::Mirroring(key);
        self.lanes.add_batched(mirroring, Duration::ZERO, now);
    }

    fn take_all_endpoints(&mut self, revision: u64, now: Instant) {
        let lost = self.world.endpoints.listed(revision);
        self.doubt(Controller::Endpoints);
        self.look_at_all(lost.clone(), Work::Endpoints, now);
        self.look_at_all(lost, Work::Mirroring, now);
        // Once, those are looked at whose Services may have gone while nobody looked (EPC-13).
        if !std::mem::replace(&mut self.seen.endpoints, true) {
            let all = self.world.endpoints.iter();
            let of_services = all.filter(|(_, e)| !e.metadata.annotations.contains_key(LEADER_ANNOTATION));
            let keys = of_services.map(|(key, _)| key.clone()).collect();
            self.look_at_all(keys, Work::Endpoints, now);
        }
    }

    /// A complete list may have come before the answers to writes that are under way: what is gone by it
    /// and comes back with an answer would stay for ever. So what is there is read once more for these.
    fn doubt(&mut self, controller: Controller) {
        self.doubtful.extend(self.lanes.under_way(controller));
    }

    fn look_at_all(&mut self, keys: Vec<ObjectKey>, work: fn(ObjectKey) -> Work, now: Instant) {
        for key in keys {
            self.lanes.add(work(key), now);
        }
    }
}
