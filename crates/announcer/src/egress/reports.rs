//! Faults to report in Events: those that last longer than a failover.

use std::collections::BTreeMap;
use std::time::Duration;

use api::object::ObjectKey;

use super::plan::EgressFault;
use crate::Time;

#[cfg(test)]
mod tests;

/// Time that a fault lasts before it is reported. A failover to another owner takes less.
const REPORT_AFTER: Duration = Duration::from_secs(5);

/// Faults of Services, and the reported ones.
#[derive(Debug, Default)]
pub(crate) struct EgressReports(BTreeMap<ObjectKey, LastingFault>);

#[derive(Debug)]
struct LastingFault {
    fault: EgressFault,
    since: Time,
    is_reported: bool,
}

impl EgressReports {
    /// Sets the present faults.
    pub(crate) fn set(&mut self, now: Time, faults: &BTreeMap<ObjectKey, EgressFault>) {
        self.0.retain(|key, _| faults.contains_key(key));
        for (key, fault) in faults {
            let is_known = self.0.get(key).is_some_and(|lasting| lasting.fault == *fault);
            if !is_known {
                let lasting = LastingFault {
                    fault: fault.clone(),
                    since: now,
                    is_reported: false,
                };
                self.0.insert(key.clone(), lasting);
            }
        }
    }

    /// Returns the faults that are due, each once.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<(ObjectKey, EgressFault)> {
        let mut due = Vec::new();
        for (key, lasting) in &mut self.0 {
            if !lasting.is_reported && now >= lasting.since + REPORT_AFTER {
                lasting.is_reported = true;
                due.push((key.clone(), lasting.fault.clone()));
            }
        }
        due
    }
}
