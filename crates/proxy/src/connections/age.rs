//! Maximum age of TCP connections (annotation `service.portolan.dev/max-connection-age-seconds`).
//!
//! Connection tracking records when a connection started if `net.netfilter.nf_conntrack_timestamp` is 1. The setting is
//! written when the first Service has the annotation. Earlier connections have no start time; the time of that write
//! counts instead.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::{Duration, Instant, SystemTime};

use api::object::{ObjectKey, Protocol};
use netlink::conntrack::Flow;
use plan::{Changes, Plan, ServicePortPlan};

/// Period of checks: the maximum delay of a reset. A check lists all TCP connections of this node.
const CHECK_PERIOD: Duration = Duration::from_secs(5);
/// Largest share of the maximum age by which a connection ends earlier: one tenth. Connections that began at the same
/// time therefore do not end together.
const JITTER_DIVISOR: u64 = 10;
/// File of the kernel setting.
const TIMESTAMP_SETTING: &str = "/proc/sys/net/netfilter/nf_conntrack_timestamp";

/// Services whose connections have a maximum age.
#[derive(Debug, Default)]
pub(crate) struct ConnectionAges {
    services: BTreeSet<ObjectKey>,
    next: Option<Instant>,
    start_times: StartTimes,
}

/// State of the kernel's record of start times.
#[derive(Debug, Default)]
enum StartTimes {
    /// No Service has needed start times.
    #[default]
    Unused,
    /// Recorded since this time.
    RecordedSince(SystemTime),
    /// Not available, for this reason.
    Unavailable(String),
}

impl ConnectionAges {
    /// Records changes that were applied.
    pub(crate) fn record(&mut self, plan: &Plan, changes: &Changes, now: Instant) {
        if changes.needs_full_write {
            self.services.clear();
            self.services
                .extend(plan.services().filter(|service| has_age(plan, service)).cloned());
        } else {
            for service in &changes.services {
                if has_age(plan, service) {
                    self.services.insert(service.clone());
                } else {
                    self.services.remove(service);
                }
            }
        }
        if self.services.is_empty() {
            self.next = None;
        } else if self.next.is_none() {
            self.record_start_times();
            self.next = Some(now + CHECK_PERIOD);
        }
    }

    /// Enables start times of connections in the kernel. A failure ends no connection.
    pub(crate) fn record_start_times(&mut self) {
        if matches!(self.start_times, StartTimes::Unused) {
            self.start_times = match enable_timestamps() {
                Ok(()) => StartTimes::RecordedSince(SystemTime::now()),
                Err(error) => StartTimes::Unavailable(format!("{TIMESTAMP_SETTING}: {error}")),
            };
        }
    }

    /// Returns the reason why the kernel does not record start times.
    pub(crate) fn unavailable(&self) -> Option<&str> {
        match &self.start_times {
            StartTimes::Unavailable(reason) => Some(reason),
            StartTimes::Unused | StartTimes::RecordedSince(_) => None,
        }
    }

    /// Returns the time of the next check.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next.filter(|_| self.unavailable().is_none())
    }

    /// Sets the time of the next check.
    pub(crate) fn check_at(&mut self, at: Instant) {
        self.next = Some(at);
    }

    /// Returns the check if it is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<AgeCheck> {
        let StartTimes::RecordedSince(since) = self.start_times else {
            return None;
        };
        self.next.filter(|at| *at <= now)?;
        self.next = Some(now + CHECK_PERIOD);
        Some(AgeCheck {
            since,
            now: SystemTime::now(),
        })
    }
}

#[cfg(test)]
impl ConnectionAges {
    /// Creates the state of a node whose kernel does not record start times.
    pub(crate) fn without_start_times(reason: &str) -> Self {
        Self {
            start_times: StartTimes::Unavailable(reason.to_owned()),
            ..Self::default()
        }
    }
}

/// A check of all connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgeCheck {
    /// Begin of connections without a begin.
    since: SystemTime,
    now: SystemTime,
}

impl AgeCheck {
    /// Returns true if a connection through a Service is too old.
    pub(crate) fn ends(&self, plan: &Plan, flow: &Flow) -> bool {
        if flow.reply.source == flow.original.destination {
            return false;
        }
        let owner = plan.frontend_at(Protocol::Tcp, flow.original.destination);
        let Some(seconds) = owner.and_then(|(port, _)| port.connection_age_max_seconds) else {
            return false;
        };
        let start = flow.began_at_nanoseconds.map(Duration::from_nanos);
        let start = start.map_or(self.since, |start| SystemTime::UNIX_EPOCH + start);
        // A begin in the future follows from a clock that was set back.
        let age = self.now.duration_since(start).unwrap_or_default();
        age >= limit(Duration::from_secs(u64::from(seconds)), flow)
    }
}

/// Returns the age at which a connection ends: up to a tenth earlier than `max`, by a hash of its addresses.
fn limit(max: Duration, flow: &Flow) -> Duration {
    let mut hasher = DefaultHasher::new();
    (flow.original.source, flow.original.destination, flow.id).hash(&mut hasher);
    let span = u64::try_from(max.as_millis()).unwrap_or(u64::MAX) / JITTER_DIVISOR;
    max.saturating_sub(Duration::from_millis(hasher.finish() % (span + 1)))
}

fn has_age(plan: &Plan, service: &ObjectKey) -> bool {
    let has_age = |port: &ServicePortPlan| port.connection_age_max_seconds.is_some();
    plan.ports_of(service).any(has_age)
}

/// Enables timestamps of connections, unless they are enabled.
fn enable_timestamps() -> io::Result<()> {
    if fs::read_to_string(TIMESTAMP_SETTING)?.trim() == "1" {
        return Ok(());
    }
    fs::write(TIMESTAMP_SETTING, "1")
}

#[cfg(test)]
mod tests;
