//! State machine of the certificate controller. Inputs are requests and time; outputs are approvals, signatures and
//! deletions.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::certificates::condition::{APPROVED, DENIED, FAILED};
use api::object::CertificateSigningRequest;
use client::{Event, WallClock};
use reconcile::queue::Queue;
use reconcile::{Action, Reconciler};

use super::{Authority, RecognizedRequest, Retention, Settings, recognize, retention};
use crate::malformed_object::log_malformed;

/// Longest interval between checks of a request, so that a clock jump delays its deletion by no more.
const RETENTION_CHECK_PERIOD: Duration = Duration::from_secs(3600);

/// The job of a reconciliation.
#[derive(Debug)]
pub(super) enum Job {
    /// Approves a recognized request if its sender has the permission.
    Decide(Box<CertificateSigningRequest>, RecognizedRequest),
    /// Signs an approved request.
    Sign(Box<CertificateSigningRequest>),
    /// Deletes an expired request.
    Remove(Box<CertificateSigningRequest>),
}

/// Sender and name of a request. The senders are tenants: many requests of one node do not delay those of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RequestKey {
    sender: String,
    name: String,
}

impl RequestKey {
    fn of(request: &CertificateSigningRequest) -> Self {
        Self {
            sender: request.spec.username.clone(),
            name: request.metadata.name.clone(),
        }
    }
}

/// The result of a job.
#[derive(Debug)]
pub(super) enum JobOutput {
    /// The request is written; the watch will deliver it.
    Done,
    /// No decision is possible yet; retry after this delay.
    Undecided(Duration),
}

/// Approves, signs and deletes certificate signing requests.
pub(super) struct CertificateController {
    settings: Settings,
    clock: WallClock,
    is_synced: bool,
    requests: HashMap<String, CertificateSigningRequest>,
}

impl CertificateController {
    pub(super) fn new(settings: Settings, clock: WallClock) -> Self {
        Self {
            settings,
            clock,
            is_synced: false,
            requests: HashMap::new(),
        }
    }
}

impl Reconciler for CertificateController {
    type Change = Event<CertificateSigningRequest>;
    type Key = RequestKey;
    type Job = Job;
    type Output = JobOutput;
    /// Maximum number of concurrent jobs: upstream's number of workers.
    const CONCURRENT_JOBS_MAX: usize = 5;
    /// Maximum number of concurrent jobs of one sender. A request for an address that its Node does not report is decided
    /// repeatedly.
    const TENANT_JOBS_MAX: usize = 3;

    fn tenant(key: &RequestKey) -> &str {
        &key.sender
    }

    fn apply_change(&mut self, change: Self::Change, queue: &mut Queue<RequestKey>, now: Instant) {
        match change {
            Event::Applied(request) => {
                queue.add(RequestKey::of(&request), now);
                self.requests.insert(request.metadata.name.clone(), request);
            }
            Event::Deleted(key) => {
                self.requests.remove(&*key.name);
            }
            Event::Synced => self.is_synced = true,
            Event::Malformed { key, error } => log_malformed::<CertificateSigningRequest>(&key, &error),
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn reconcile(&mut self, key: &RequestKey, _: Instant) -> Action<Job> {
        let Some(request) = self.requests.get(&key.name) else {
            return Action::Done;
        };
        if request.metadata.deletion_timestamp.is_some() {
            return Action::Done;
        }
        let left = retention(request, self.clock.now());
        if left == Retention::Expired && self.settings.cleans {
            return Action::Run(Job::Remove(Box::new(request.clone())));
        }
        let has = |kind| request.condition(kind).is_some();
        if !has(APPROVED) && !has(DENIED) {
            if self.settings.approves
                && let Some(recognized) = recognize(request)
            {
                return Action::Run(Job::Decide(Box::new(request.clone()), recognized));
            }
        } else if has(APPROVED) && !has(FAILED) && request.status.certificate.is_empty() {
            let is_ours = self.settings.authority.is_some() && Authority::signs(request);
            if is_ours {
                return Action::Run(Job::Sign(Box::new(request.clone())));
            }
        }
        match left {
            Retention::Remaining(left) => Action::RequeueAfter(
                Duration::try_from(left)
                    .unwrap_or_default()
                    .min(RETENTION_CHECK_PERIOD),
            ),
            Retention::Expired => Action::Done,
        }
    }

    fn on_success(
        &mut self,
        key: &RequestKey,
        output: JobOutput,
        queue: &mut Queue<RequestKey>,
        now: Instant,
    ) {
        if let JobOutput::Undecided(pause) = output {
            queue.add_at(key.clone(), now + pause);
        }
    }
}

#[cfg(test)]
mod tests;
