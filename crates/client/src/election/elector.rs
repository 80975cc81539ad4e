//! Rules of the election, without I/O: the next request, and the leader.
//!
//! The caller sends the requests and passes the responses with the time. Times in the Lease are those of the holder's
//! clock, which may differ. Another candidate's Lease is therefore free when it has not changed for its duration on the
//! local clock. Leadership counts from the time at which a renewal was sent, not from its response. After a failed
//! write the Lease is read first, because the write may have arrived.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Settings;
use crate::fence::Moment;

/// State machine of one candidate.
#[derive(Debug)]
pub struct Elector {
    settings: Settings,
    observed: Option<ObservedLease>,
    /// Time at which the last successful renewal was sent.
    renewed: Option<Moment>,
    /// True if the lease must be read before it is written: a write failed, so others may have written.
    reads_first: bool,
}

/// The lease as last observed.
#[derive(Debug)]
struct ObservedLease {
    lease: Value,
    /// Time of the first observation of this state on the local clock. The times in the lease are from the holder's
    /// clock and are never compared with a local one.
    since: Instant,
}

/// Request for the Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseRequest {
    /// Reads the lease.
    Read,
    /// Creates the lease.
    Create(Value),
    /// Replaces the lease, if it still has the resourceVersion of this value.
    Replace(Value),
}

/// Response to a [`LeaseRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseResponse {
    /// The lease, as read or written.
    Lease(Value),
    /// The lease does not exist.
    Missing,
    /// Any other result: conflict, failure, no response.
    Failed,
}

impl Elector {
    /// Creates a candidate that has not observed the lease yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            observed: None,
            renewed: None,
            reads_first: true,
        }
    }

    /// Returns the first request of an attempt to become or stay the leader.
    pub fn next_request(&self, now: &Moment, wall: Timestamp) -> LeaseRequest {
        match &self.observed {
            Some(observed) if !self.reads_first && self.is_leader(now) => {
                LeaseRequest::Replace(self.claim(&observed.lease, wall))
            }
            _ => LeaseRequest::Read,
        }
    }

    /// Processes the response to `request`, which was sent at `sent`. Returns the next request of this attempt, if
    /// there is one.
    pub fn process_response(
        &mut self,
        request: &LeaseRequest,
        sent: Moment,
        response: LeaseResponse,
        now: &Moment,
        wall: Timestamp,
    ) -> Option<LeaseRequest> {
        match (request, response) {
            (LeaseRequest::Read, LeaseResponse::Lease(lease)) => {
                self.reads_first = false;
                self.observe(lease, now);
                self.take_over(now, wall)
            }
            (LeaseRequest::Read, LeaseResponse::Missing) => {
                self.reads_first = false;
                Some(LeaseRequest::Create(self.claim(&json!({}), wall)))
            }
            (LeaseRequest::Create(_) | LeaseRequest::Replace(_), LeaseResponse::Lease(lease)) => {
                self.observe(lease, now);
                self.renewed = Some(sent);
                None
            }
            // A write may have arrived although its response did not; reading shows it.
            (_, LeaseResponse::Missing | LeaseResponse::Failed) => {
                self.reads_first = true;
                None
            }
        }
    }

    /// Returns the time at which the renewal was sent that the leadership rests on; `None` without leadership.
    pub fn leading_since(&self, now: &Moment) -> Option<Moment> {
        self.renewed.filter(|_| self.is_leader(now))
    }

    /// Returns the observed holder of the lease, or "".
    pub fn holder(&self) -> &str {
        self.observed
            .as_ref()
            .map_or("", |observed| holder(&observed.lease))
    }

    /// Returns a lease without a holder, which a leader writes at shutdown. Its duration is one second, as
    /// upstream's, so that the next leader does not wait.
    pub fn resignation(&mut self, now: &Moment, wall: Timestamp) -> Option<LeaseRequest> {
        let is_leader = self.is_leader(now);
        self.renewed = None;
        let observed = self.observed.as_ref().filter(|_| is_leader)?;
        let mut lease = observed.lease.clone();
        let time = micro_time(wall);
        let spec = &mut lease["spec"];
        spec["holderIdentity"] = "".into();
        spec["leaseDurationSeconds"] = 1.into();
        spec["acquireTime"] = time.clone();
        spec["renewTime"] = time;
        Some(LeaseRequest::Replace(lease))
    }

    fn is_leader(&self, now: &Moment) -> bool {
        let is_fresh = |sent: Moment| {
            now.monotonic().saturating_duration_since(sent.monotonic()) < self.settings.renew_deadline
        };
        self.renewed.is_some_and(is_fresh) && self.holder() == self.settings.identity
    }

    fn observe(&mut self, lease: Value, now: &Moment) {
        let same = |observed: &ObservedLease| observed.lease["spec"] == lease["spec"];
        let since = match &self.observed {
            Some(observed) if same(observed) => observed.since,
            _ => now.monotonic(),
        };
        if holder(&lease) != self.settings.identity {
            self.renewed = None;
        }
        self.observed = Some(ObservedLease { lease, since });
    }

    /// Returns a claim on the observed lease, if it is ours, free or expired.
    fn take_over(&self, now: &Moment, wall: Timestamp) -> Option<LeaseRequest> {
        let observed = self.observed.as_ref()?;
        let holder = holder(&observed.lease);
        let seconds = observed.lease["spec"]["leaseDurationSeconds"].as_u64();
        let duration = seconds.map_or(self.settings.lease_duration, Duration::from_secs);
        let is_free = holder.is_empty()
            || holder == self.settings.identity
            || now.monotonic().saturating_duration_since(observed.since) >= duration;
        is_free.then(|| LeaseRequest::Replace(self.claim(&observed.lease, wall)))
    }

    /// Returns the lease with this candidate as the holder.
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

/// Formats a time as in leases: RFC 3339 with microseconds.
fn micro_time(time: Timestamp) -> Value {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into()
}

#[cfg(test)]
mod tests;
