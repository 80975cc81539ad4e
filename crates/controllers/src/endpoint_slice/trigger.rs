//! Trigger times (EPS-25): the time of the change that causes a write, from which consumers measure latency.

use std::collections::HashMap;
use std::sync::Arc;

use api::object::{ObjectKey, Service, TargetRef};
use jiff::Timestamp;

use crate::caches::{PodFacts, Time};

/// The state of each Service at its last write.
#[derive(Debug, Default)]
pub struct TriggerTimes {
    services: HashMap<ObjectKey, ServiceState>,
}

/// A Pod with the last transition of its readiness.
type TimedPod = (Arc<TargetRef>, Time);

/// State of a Service and its Pods at the last sync.
#[derive(Debug)]
struct ServiceState {
    service_created: Option<Time>,
    /// Pods in the order of their names, with the last transition of their readiness.
    pods: Arc<[TimedPod]>,
    /// The earliest change without a successful write.
    unwritten: Option<Time>,
}

impl TriggerTimes {
    /// Returns the time of the earliest change since the last write: the creation of a new Service, or the
    /// readiness transition of a Pod. `pods` are sorted by name. Returns `None` if no change has a timestamp.
    pub fn advance(&mut self, service: &Service, pods: &[&PodFacts]) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp.as_ref();
        let created = created.and_then(|time| Time::parse(time));
        let timed = |pod: &&PodFacts| Some((Arc::clone(&pod.target), pod.ready_since?));
        let now = ServiceState {
            service_created: created,
            pods: pods.iter().filter_map(timed).collect(),
            unwritten: created,
        };
        let key = service.metadata.key();
        let Some(state) = self.services.get_mut(&key) else {
            self.services.insert(key, now);
            return created.map(Time::timestamp);
        };
        let before = |pod: &TargetRef| {
            let pods = &state.pods;
            let place = pods
                .binary_search_by(|(known, _)| known.name.cmp(&pod.name))
                .ok()?;
            pods.get(place).map(|(_, since)| *since)
        };
        let changed = now.pods.iter();
        let changed = changed.filter(|(pod, since)| before(pod).is_none_or(|before| before < *since));
        let earliest = changed.map(|(_, since)| *since).min();
        let is_other_service = state.service_created != created;
        let all = [earliest, created.filter(|_| is_other_service), state.unwritten];
        let unwritten = all.into_iter().flatten().min();
        *state = ServiceState { unwritten, ..now };
        unwritten.map(Time::timestamp)
    }

    /// Shares the Pods of a Service with another table in which they are the same.
    pub fn share_with(&mut self, other: &Self, service: &ObjectKey) {
        let (Some(own), Some(other)) = (self.services.get_mut(service), other.services.get(service)) else {
            return;
        };
        let is_same = |((pod, since), (other, other_since)): (&TimedPod, &TimedPod)| {
            Arc::ptr_eq(pod, other) && since == other_since
        };
        if own.pods.len() == other.pods.len() && own.pods.iter().zip(&*other.pods).all(is_same) {
            own.pods = Arc::clone(&other.pods);
        }
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
