//! Trigger times (EPS-25): the time of the change that causes a write, from which consumers measure latency.

use std::collections::HashMap;
use std::sync::Arc;

use api::object::{ObjectKey, Service};
use jiff::Timestamp;

use crate::caches::PodFacts;

/// The state of each Service at its last write.
#[derive(Debug, Default)]
pub struct TriggerTimes {
    services: HashMap<ObjectKey, ServiceState>,
}

#[derive(Debug)]
struct ServiceState {
    service_created: Option<Timestamp>,
    /// Names of Pods in their order, with the last transition of their readiness.
    pods: Box<[(Arc<str>, Timestamp)]>,
    /// The earliest change without a successful write.
    unwritten: Option<Timestamp>,
}

impl TriggerTimes {
    /// Returns the time of the earliest change since the last write: the creation of a new Service, or the
    /// readiness transition of a Pod. `pods` are sorted by name. Returns `None` if no change has a timestamp.
    pub fn advance(&mut self, service: &Service, pods: &[&PodFacts]) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp.as_ref();
        let created: Option<Timestamp> = created.and_then(|time| time.parse().ok());
        let timed = |pod: &&PodFacts| Some((Arc::clone(pod.name()), pod.ready_since?));
        let now = ServiceState {
            service_created: created,
            pods: pods.iter().filter_map(timed).collect(),
            unwritten: created,
        };
        let key = service.metadata.key();
        let Some(state) = self.services.get_mut(&key) else {
            self.services.insert(key, now);
            return created;
        };
        let before = |name: &Arc<str>| {
            let place = state.pods.binary_search_by(|(known, _)| known.cmp(name)).ok()?;
            state.pods.get(place).map(|(_, since)| *since)
        };
        let changed = now.pods.iter();
        let changed = changed.filter(|(name, since)| before(name).is_none_or(|before| before < *since));
        let earliest = changed.map(|(_, since)| *since).min();
        let is_other_service = state.service_created != created;
        let all = [earliest, created.filter(|_| is_other_service), state.unwritten];
        let unwritten = all.into_iter().flatten().min();
        *state = ServiceState { unwritten, ..now };
        unwritten
    }

    /// Records that all changes of a Service are written.
    pub fn written(&mut self, service: &ObjectKey) {
        if let Some(state) = self.services.get_mut(service) {
            state.unwritten = None;
        }
    }

    /// Removes a deleted Service.
    pub fn remove(&mut self, service: &ObjectKey) {
        self.services.remove(service);
    }
}

#[cfg(test)]
mod tests;
