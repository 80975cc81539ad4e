//! Findings that last. A finding of one examination may be a state between two writes, such as during a rollout.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use explain::{Code, Finding, ServiceFindings, Severity};

/// Successive examinations with a finding until an Event reports it.
const EXAMINATIONS_MIN: u32 = 2;
/// Time after which an Event reports a finding again. API servers keep Events for an hour.
const REPETITION: Duration = Duration::from_secs(3_600);
/// Maximum number of Events of one examination. The others follow after the next ones.
const EVENTS_MAX: usize = 500;

/// Namespace and name of the Service, code, and field of the finding.
type Key = (String, String, Code, String);

/// Findings of the latest examination.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<Key, LastingFinding>);

/// Finding of successive examinations.
#[derive(Clone, Copy, Debug, Default)]
struct LastingFinding {
    examinations: u32,
    reported: Option<Instant>,
}

/// Finding that an Event is to report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DueFinding<'a> {
    /// The Service.
    pub service: &'a ServiceFindings,
    /// Its finding.
    pub finding: &'a Finding,
}

impl History {
    /// Replaces the findings by those of an examination. Returns the errors and warnings that Events are to report now.
    pub(super) fn observe<'a>(
        &mut self,
        services: &'a [ServiceFindings],
        now: Instant,
    ) -> Vec<DueFinding<'a>> {
        let mut earlier = std::mem::take(&mut self.0);
        let mut due = Vec::new();
        let all = services.iter().flat_map(|service| {
            service
                .findings
                .iter()
                .map(move |finding| DueFinding { service, finding })
        });
        for candidate in all.filter(|candidate| candidate.finding.severity != Severity::Info) {
            let DueFinding { service, finding } = candidate;
            let (namespace, name) = (service.namespace.clone(), service.name.clone());
            let key = (namespace, name, finding.code, finding.field.clone());
            let mut lasting = earlier.remove(&key).unwrap_or_default();
            lasting.examinations = lasting.examinations.saturating_add(1);
            let is_due = lasting
                .reported
                .is_none_or(|at| now.saturating_duration_since(at) >= REPETITION);
            if is_due && lasting.examinations >= EXAMINATIONS_MIN && due.len() < EVENTS_MAX {
                lasting.reported = Some(now);
                due.push(candidate);
            }
            self.0.insert(key, lasting);
        }
        due
    }
}

#[cfg(test)]
mod tests;
