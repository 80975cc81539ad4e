//! When the change happened that a write answers to (EPS-25): consumers measure latency from it.

use std::collections::HashMap;
use std::sync::Arc;

use api::object::{ObjectKey, Service};
use jiff::Timestamp;

use crate::world::PodFacts;

/// Remembers, for each Service, the state that was last written for.
#[derive(Debug, Default)]
pub struct TriggerTimes {
    services: HashMap<ObjectKey, Seen>,
}

#[derive(Debug)]
struct Seen {
    service_created: Option<Timestamp>,
    /// Names of Pods, in their order, and since when each was as ready as it is.
    pods: Box<[(Arc<str>, Timestamp)]>,
    /// The earliest change that no write has answered to, because it failed.
    owed: Option<Timestamp>,
}

impl TriggerTimes {
    /// The time of the earliest change since what was written last for this Service, whose Pods are sorted by name: its own
    /// creation at first sight, afterwards the transition of a Pod's readiness. `None` if no change has a
    /// time of its own.
    pub fn advance(&mut self, service: &Service, pods: &[&PodFacts]) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp.as_ref();
        let created: Option<Timestamp> = created.and_then(|time| time.parse().ok());
        let timed = |pod: &&PodFacts| Some((Arc::clone(&pod.name), pod.ready_since?));
        let now = Seen {
            service_created: created,
            pods: pods.iter().filter_map(timed).collect(),
            owed: created,
        };
        let key = service.metadata.key();
        let Some(seen) = self.services.get_mut(&key) else {
            self.services.insert(key, now);
            return created;
        };
        let before = |name: &Arc<str>| {
            let place = seen.pods.binary_search_by(|(known, _)| known.cmp(name)).ok()?;
            seen.pods.get(place).map(|(_, since)| *since)
        };
        let changed = now.pods.iter();
        let changed = changed.filter(|(name, since)| before(name).is_none_or(|before| before < *since));
        let earliest = changed.map(|(_, since)| *since).min();
        let is_other_service = seen.service_created != created;
        let all = [earliest, created.filter(|_| is_other_service), seen.owed];
        let owed = all.into_iter().flatten().min();
        *seen = Seen { owed, ..now };
        owed
    }

    /// All changes of a Service that were told of are written.
    pub fn written(&mut self, service: &ObjectKey) {
        if let Some(seen) = self.services.get_mut(service) {
            seen.owed = None;
        }
    }

    /// Forgets a Service that is gone.
    pub fn forget(&mut self, service: &ObjectKey) {
        self.services.remove(service);
    }
}

#[cfg(test)]
mod tests;
