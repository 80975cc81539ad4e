//! Egress of Services to report in Events: states that last longer than a failover.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use api::object::ObjectKey;
use client::events::EventText;

use super::plan::{EgressFault, ServiceEgress};
use crate::Time;

#[cfg(test)]
mod tests;

/// Time that a state lasts before it is reported. A failover to another owner takes less.
const REPORT_AFTER: Duration = Duration::from_secs(5);

/// Change of a Service's egress that has lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EgressReport {
    /// There is a fault.
    Fault(EgressFault),
    /// This node translates Pods of the Service to these addresses, without a fault.
    Applied(BTreeSet<IpAddr>),
    /// A reported fault has ended, and this node translates no Pods of the Service.
    Ended(EgressFault),
}

impl EgressReport {
    /// Returns true if each node has the report for the same reason, so that one of them records it.
    pub(crate) fn is_seen_by_all(&self) -> bool {
        match self {
            Self::Fault(fault) | Self::Ended(fault) => fault.is_seen_by_all(),
            Self::Applied(_) => false,
        }
    }

    /// Returns the Event of node `node`.
    pub(crate) fn event(&self, node: &str) -> EventText {
        match self {
            Self::Fault(fault) => EventText::warning(fault.reason(), format!("{fault} (node {node:?})")),
            Self::Applied(addresses) => {
                let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                let addresses = addresses.join(", ");
                let message = format!("node {node:?} translates packets of its Pods to {addresses}");
                EventText::normal("EgressApplied", message)
            }
            Self::Ended(fault) => {
                let message = format!("this fault of egress has ended: {fault} (node {node:?})");
                EventText::normal("EgressFaultEnded", message)
            }
        }
    }
}

/// Egress of Services, and the reported states.
#[derive(Debug, Default)]
pub(crate) struct EgressReports(BTreeMap<ObjectKey, LastingState>);

/// State of a Service, and the time of its last change.
#[derive(Debug)]
struct LastingState {
    state: ServiceEgress,
    since: Time,
    /// Last state that lasted.
    reported: Option<ServiceEgress>,
}

impl EgressReports {
    /// Sets the present states of all Services with egress.
    pub(crate) fn set(&mut self, now: Time, services: BTreeMap<ObjectKey, ServiceEgress>) {
        self.0.retain(|key, _| services.contains_key(key));
        for (key, state) in services {
            match self.0.get_mut(&key) {
                Some(lasting) if lasting.state == state => {}
                Some(lasting) => {
                    lasting.state = state;
                    lasting.since = now;
                }
                None => {
                    let lasting = LastingState {
                        state,
                        since: now,
                        reported: None,
                    };
                    self.0.insert(key, lasting);
                }
            }
        }
    }

    /// Returns the reports that are due, each once.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<(ObjectKey, EgressReport)> {
        let mut due = Vec::new();
        for (key, lasting) in &mut self.0 {
            let is_reported = lasting.reported.as_ref() == Some(&lasting.state);
            if is_reported || now < lasting.since + REPORT_AFTER {
                continue;
            }
            let before = lasting.reported.replace(lasting.state.clone());
            let report = match (&lasting.state, before) {
                (ServiceEgress::Fault(fault), _) => EgressReport::Fault(fault.clone()),
                (ServiceEgress::Applied(addresses), _) if !addresses.is_empty() => {
                    EgressReport::Applied(addresses.clone())
                }
                (ServiceEgress::Applied(_), Some(ServiceEgress::Fault(fault))) => EgressReport::Ended(fault),
                // No node translates, or another one, which reports it.
                (ServiceEgress::Applied(_), _) => continue,
            };
            due.push((key.clone(), report));
        }
        due
    }
}
