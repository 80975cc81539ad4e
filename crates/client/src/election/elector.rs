//! The rules of the election, without I/O: what to ask for next, and who leads.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Settings;
use crate::fence::Moment;

/// One who wants to lead.
#[derive(Debug)]
pub struct Elector {
    settings: Settings,
    observed: Option<Observed>,
    /// When the last renewal that succeeded was sent.
    renewed: Option<Moment>,
    /// Whether the lease is to be read before it is written: a write failed, so others may have written.
    reads_first: bool,
}

/// The lease as it was last seen.
#[derive(Debug)]
struct Observed {
    lease: Value,
    /// When it was first seen like this, on our own clock. The times in the lease are its holder's, and are
    /// compared with no clock of ours.
    since: Instant,
}

/// A request to make.
#[derive(Clone, Debug, PartialEq)]
pub enum Attempt {
    /// Read the lease.
    Read,
    /// Create it.
    Create(Value),
    /// Replace it, if it is still of the resourceVersion that this carries.
    Replace(Value),
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The lease, read or as it was written.
    Lease(Value),
    /// There is none.
    Missing,
    /// Anything else: a conflict, a failure, no answer.
    Failed,
}

impl Elector {
    /// A candidate that has seen nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            observed: None,
            renewed: None,
            reads_first: true,
        }
    }

    /// The first request of a try to become or stay the leader.
    pub fn first(&self, now: &Moment, wall: Timestamp) -> Attempt {
        match &self.observed {
            Some(observed) if !self.reads_first && self.leads(now) => {
                Attempt::Replace(self.claim(&observed.lease, wall))
            }
            _ => Attempt::Read,
        }
    }

    /// Takes in the answer to `attempt`, which was sent at `sent`; returns the next request of this try, if
    /// it takes one more.
    pub fn answered(
        &mut self,
        attempt: &Attempt,
        sent: Moment,
        answer: Answer,
        now: &Moment,
        wall: Timestamp,
    ) -> Option<Attempt> {
        match (attempt, answer) {
            (Attempt::Read, Answer::Lease(lease)) => {
                self.reads_first = false;
                self.observe(lease, now);
                self.bid(now, wall)
            }
            (Attempt::Read, Answer::Missing) => {
                self.reads_first = false;
                Some(Attempt::Create(self.claim(&json!({}), wall)))
            }
            (Attempt::Create(_) | Attempt::Replace(_), Answer::Lease(lease)) => {
                self.observe(lease, now);
                self.renewed = Some(sent);
                None
            }
            // A write may have arrived though its answer did not: that is known after reading.
            (_, Answer::Missing | Answer::Failed) => {
                self.reads_first = true;
                None
            }
        }
    }

    /// When the renewal was sent on which leading rests now; `None` if this candidate does not lead.
    pub fn leading_since(&self, now: &Moment) -> Option<Moment> {
        self.renewed.filter(|_| self.leads(now))
    }

    /// Who holds the lease as far as is known, or "".
    pub fn holder(&self) -> &str {
        self.observed
            .as_ref()
            .map_or("", |observed| holder(&observed.lease))
    }

    /// The lease with nobody in it, for one who ends and led; as short as upstream's, so that the next
    /// leader need not wait.
    pub fn resignation(&mut self, now: &Moment, wall: Timestamp) -> Option<Attempt> {
        let leads = self.leads(now);
        self.renewed = None;
        let observed = self.observed.as_ref().filter(|_| leads)?;
        let mut lease = observed.lease.clone();
        let time = micro_time(wall);
        let spec = &mut lease["spec"];
        spec["holderIdentity"] = "".into();
        spec["leaseDurationSeconds"] = 1.into();
        spec["acquireTime"] = time.clone();
        spec["renewTime"] = time;
        Some(Attempt::Replace(lease))
    }

    fn leads(&self, now: &Moment) -> bool {
        let is_fresh = |sent: Moment| {
            now.steady().saturating_duration_since(sent.steady()) < self.settings.renew_deadline
        };
        self.renewed.is_some_and(is_fresh) && self.holder() == self.settings.identity
    }

    fn observe(&mut self, lease: Value, now: &Moment) {
        let same = |observed: &Observed| observed.lease["spec"] == lease["spec"];
        let since = match &self.observed {
            Some(observed) if same(observed) => observed.since,
            _ => now.steady(),
        };
        if holder(&lease) != self.settings.identity {
            self.renewed = None;
        }
        self.observed = Some(Observed { lease, since });
    }

    /// A claim on the lease that was just read, if it is ours, nobody's, or was not renewed for as long as
    /// its holder said.
    fn bid(&self, now: &Moment, wall: Timestamp) -> Option<Attempt> {
        let observed = self.observed.as_ref()?;
        let holder = holder(&observed.lease);
        let seconds = observed.lease["spec"]["leaseDurationSeconds"].as_u64();
        let lasts = seconds.map_or(self.settings.lease_duration, Duration::from_secs);
        let is_free = holder.is_empty()
            || holder == self.settings.identity
            || now.steady().saturating_duration_since(observed.since) >= lasts;
        is_free.then(|| Attempt::Replace(self.claim(&observed.lease, wall)))
    }

    /// The lease with this candidate in it.
    fn claim(&self, before: &Value, wall: Timestamp) -> Value {
        let settings = &self.settings;
        let mut lease = before.clone();
        lease["apiVersion"] = "coordination.k8s.io/v1".into();
        lease["kind"] = "Lease".into();
        lease["metadata"]["name"] = settings.name.as_str().into();
        lease["metadata"]["namespace"] = settings.namespace.as_str().into();
        let is_mine = holder(before) == settings.identity;
        let time = micro_time(wall);
        let spec = &mut lease["spec"];
        if !is_mine {
            let transitions = spec["leaseTransitions"].as_u64();
            let is_first = before["spec"].is_null();
            spec["leaseTransitions"] = transitions
                .unwrap_or(0)
                .saturating_add(u64::from(!is_first))
                .into();
            spec["acquireTime"] = time.clone();
        }
        spec["holderIdentity"] = settings.identity.as_str().into();
        spec["leaseDurationSeconds"] = settings.lease_duration.as_secs().into();
        spec["renewTime"] = time;
        lease
    }
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// The time as leases state it: RFC 3339 with microseconds.
fn micro_time(time: Timestamp) -> Value {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into()
}

#[cfg(test)]
mod tests;
