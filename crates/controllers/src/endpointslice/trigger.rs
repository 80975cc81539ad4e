//! When the change happened that a write answers to (EPS-25): consumers measure latency from it.

use std::collections::HashMap;

use api::object::{ObjectKey, Pod, Service};

/// Remembers, for each Service, the state that was last written for.
#[derive(Default)]
pub struct TriggerTimes {
    services: HashMap<ObjectKey, Seen>,
}

#[derive(Default)]
struct Seen {
    service_created: String,
    pods: HashMap<String, String>,
}

impl TriggerTimes {
    /// The time of the earliest change since the last call for this Service: its own creation at first
    /// sight, afterwards the transition of a Pod's readiness. `None` if no change has a time of its own.
    pub fn advance(&mut self, service: &Service, pods: &[&Pod]) -> Option<String> {
        let created = service.metadata.creation_timestamp.clone().unwrap_or_default();
        let current: HashMap<String, String> = pods
            .iter()
            .filter_map(|pod| Some((pod.metadata.name.clone(), ready_since(pod)?)))
            .collect();
        let key = service.metadata.key();
        let Some(seen) = self.services.get_mut(&key) else {
            self.services.insert(
                key,
                Seen {
                    service_created: created.clone(),
                    pods: current,
                },
            );
            return (!created.is_empty()).then_some(created);
        };
        let changed = current
            .iter()
            .filter(|(name, time)| seen.pods.get(*name).is_none_or(|before| before < *time))
            .map(|(_, time)| time.clone());
        // RFC 3339 times in UTC sort as text.
        let mut earliest = changed.min();
        if seen.service_created != created && earliest.as_ref().is_none_or(|time| created < *time) {
            earliest = Some(created.clone());
        }
        *seen = Seen {
            service_created: created,
            pods: current,
        };
        earliest.filter(|time| !time.is_empty())
    }

    /// Forgets a Service that is gone.
    pub fn forget(&mut self, service: &ObjectKey) {
        self.services.remove(service);
    }
}

fn ready_since(pod: &Pod) -> Option<String> {
    pod.status
        .conditions
        .iter()
        .find(|c| c.kind == "Ready")?
        .last_transition_time
        .clone()
}
