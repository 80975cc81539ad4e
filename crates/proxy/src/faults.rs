//! What is wrong with Services, told once to who reads Events, and on demand to who asks for the status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::object::ObjectKey;

use crate::events::Events;

/// Events sent in one step: a start with thousands of bad objects must not flood the API. The rest is in the log
/// and the status.
const EVENTS_PER_STEP_MAX: usize = 64;

/// Something about a Service that people should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    /// The reason of the Event.
    pub(crate) reason: &'static str,
    /// In words.
    pub(crate) message: String,
}

/// All complaints in force, by Service.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    services: Mutex<BTreeMap<ObjectKey, BTreeSet<Complaint>>>,
}

impl Faults {
    /// Says what is wrong with Services by now; what is new of that is logged, and sent as Events.
    pub(crate) fn set(
        &self,
        services: impl IntoIterator<Item = (ObjectKey, BTreeSet<Complaint>)>,
        events: &Events,
    ) {
        let mut sent = 0;
        for (service, complaints) in services {
            let mut known = self.services();
            let before = if complaints.is_empty() {
                known.remove(&service)
            } else {
                known.insert(service.clone(), complaints.clone())
            };
            drop(known);
            let before = before.unwrap_or_default();
            for Complaint { reason, message } in complaints.difference(&before) {
                tracing::warn!(%service, reason, "{message}");
                if sent < EVENTS_PER_STEP_MAX {
                    events.warn_about_service(&service, reason, message.clone());
                    sent += 1;
                }
            }
        }
    }

    /// How many Services have something wrong.
    pub(crate) fn count(&self) -> usize {
        self.services().len()
    }

    /// The complaints of up to so many Services, by their names.
    pub(crate) fn list(&self, services_max: usize) -> BTreeMap<String, Vec<String>> {
        let services = self.services();
        let first = services.iter().take(services_max);
        first
            .map(|(service, complaints)| {
                let messages = complaints.iter().map(|complaint| complaint.message.clone());
                (service.to_string(), messages.collect())
            })
            .collect()
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeSet<Complaint>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
