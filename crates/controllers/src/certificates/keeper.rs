//! Requests and the time in; decisions, signatures and removals out.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use api::certificates::condition::{APPROVED, DENIED, FAILED};
use api::object::CertificateSigningRequest;
use client::{Event, WallClock};

use super::{Authority, Lapse, Recognised, Settings, lapse, recognise};
use crate::keeper::{Keeper, Look};
use crate::malformed;
use crate::queue::Queue;

/// A clock that jumps must not keep what is over for longer than this.
const LAPSE_PERIOD_MAX: Duration = Duration::from_secs(3600);

/// What is to be done about a request.
#[derive(Debug)]
pub(super) enum Job {
    /// It may be approved.
    Decide(Box<CertificateSigningRequest>, Recognised),
    /// It is approved.
    Sign(Box<CertificateSigningRequest>),
    /// It is over.
    Remove(Box<CertificateSigningRequest>),
}

/// What came of a job.
#[derive(Debug)]
pub(super) enum Answer {
    /// What changed is on its way.
    Done,
    /// Nothing could be decided yet; it is to be looked at again after a pause.
    Undecided(Duration),
}

/// The state of the controller.
pub(super) struct Requests {
    settings: Settings,
    clock: WallClock,
    is_synced: bool,
    requests: HashMap<String, CertificateSigningRequest>,
}

impl Requests {
    pub(super) fn new(settings: Settings, clock: WallClock) -> Self {
        Self {
            settings,
            clock,
            is_synced: false,
            requests: HashMap::new(),
        }
    }
}

impl Keeper for Requests {
    type Change = Event<CertificateSigningRequest>;
    type Key = String;
    type Job = Job;
    type Answer = Answer;
    /// As many as upstream's workers.
    const JOBS_MAX: usize = 5;

    fn take(&mut self, change: Self::Change, queue: &mut Queue<String>, now: Instant) {
        match change {
            Event::Applied(request) => {
                queue.add(request.metadata.name.clone(), now);
                self.requests.insert(request.metadata.name.clone(), request);
            }
            Event::Deleted(key) => {
                self.requests.remove(&*key.name);
            }
            Event::Synced => self.is_synced = true,
            Event::Malformed { key, error } => malformed::skip::<CertificateSigningRequest>(&key, &error),
        }
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }

    fn look(&mut self, name: &String, _: Instant) -> Look<Job> {
        let Some(request) = self.requests.get(name) else {
            return Look::Fine;
        };
        if request.metadata.deletion_timestamp.is_some() {
            return Look::Fine;
        }
        let left = lapse(request, self.clock.now());
        if left == Lapse::Over && self.settings.cleans {
            return Look::Do(Job::Remove(Box::new(request.clone())));
        }
        let has = |kind| request.condition(kind).is_some();
        if !has(APPROVED) && !has(DENIED) {
            if self.settings.approves
                && let Some(recognised) = recognise(request)
            {
                return Look::Do(Job::Decide(Box::new(request.clone()), recognised));
            }
        } else if has(APPROVED) && !has(FAILED) && request.status.certificate.is_empty() {
            let is_ours = self.settings.authority.is_some() && Authority::signs(request);
            if is_ours {
                return Look::Do(Job::Sign(Box::new(request.clone())));
            }
        }
        match left {
            Lapse::In(left) => {
                Look::Again(Duration::try_from(left).unwrap_or_default().min(LAPSE_PERIOD_MAX))
            }
            Lapse::Over => Look::Fine,
        }
    }

    fn answered(&mut self, name: &String, answer: Answer, queue: &mut Queue<String>, now: Instant) {
        if let Answer::Undecided(pause) = answer {
            queue.add_at(name.clone(), now + pause);
        }
    }
}
