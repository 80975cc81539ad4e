//! Faults of Services. A new fault is logged and recorded as an Event once; the status lists all faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::object::ObjectKey;

use crate::reports::events::Events;

/// Maximum number of Events per sync. It bounds the writes at a start with thousands of faulty objects. Further faults
/// are in the log and in the status.
const EVENTS_PER_STEP_MAX: usize = 64;

/// A fault of a Service for Events and the status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceFault {
    /// Reason of the Event.
    pub(crate) reason: &'static str,
    /// Message of the Event.
    pub(crate) message: String,
}

/// Current faults by Service.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    services: Mutex<BTreeMap<ObjectKey, BTreeSet<ServiceFault>>>,
}

impl Faults {
    /// Replaces the faults of Services, which have these UIDs. New ones are logged and recorded as Events.
    pub(crate) fn set<'a>(
        &self,
        services: impl IntoIterator<Item = (ObjectKey, &'a str, BTreeSet<ServiceFault>)>,
        events: &Events,
    ) {
        let mut sent = 0;
        for (service, uid, faults) in services {
            let mut known = self.services();
            let before = if faults.is_empty() {
                known.remove(&service)
            } else {
                known.insert(service.clone(), faults.clone())
            };
            drop(known);
            let before = before.unwrap_or_default();
            for ServiceFault { reason, message } in faults.difference(&before) {
                tracing::warn!(%service, reason, fault = message, "fault of a Service");
                if sent < EVENTS_PER_STEP_MAX {
                    events.record_service_warning(&service, uid, reason, message.clone());
                    sent += 1;
                }
            }
        }
    }

    /// Returns the number of Services with faults.
    pub(crate) fn count(&self) -> usize {
        self.services().len()
    }

    /// Returns the messages of at most `services_max` Services, by name.
    pub(crate) fn list(&self, services_max: usize) -> BTreeMap<String, Vec<String>> {
        let services = self.services();
        let first = services.iter().take(services_max);
        first
            .map(|(service, faults)| {
                let messages = faults.iter().map(|fault| fault.message.clone());
                (service.to_string(), messages.collect())
            })
            .collect()
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, BTreeSet<ServiceFault>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
