//! What came of jobs: answers go into the caches at once, and the key rests, is tried again, or is done.

use std::time::Instant;

use client::ClientError;

use super::core::Core;
use super::job::{Done, Outcome};
use super::work::{Topic, Work};
use crate::endpoints;
use crate::events::{Finding, Regarding};
use crate::metrics::Ending;

/// Why a key is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A request failed. Another try may succeed.
    #[error(transparent)]
    Request(#[from] ClientError),
    /// A defect. Another try succeeds if the object that brings it out has changed by then.
    #[error("this program failed on it; the line before this one in the log says where")]
    Panicked,
}

impl Core {
    /// Takes in the end of a job.
    pub(super) fn finish(&mut self, done: Done, now: Instant) {
        self.take_outcome(done.work, done.outcome, now);
    }

    pub(super) fn take_outcome(&mut self, work: Work, outcome: Outcome, now: Instant) {
        let key = work.key();
        let error = match outcome {
            Outcome::SlicesRead(Ok(listed)) => {
                let slices = match work {
                    Work::Mirroring(_) => &mut self.world.mirrored,
                    _ => &mut self.world.slices,
                };
                slices.answered_all(key, listed.items, listed.revision);
                return self.go_on(work, now);
            }
            Outcome::EndpointsRead(Ok(found), known) => {
                match found {
                    Some(endpoints) => {
                        self.world.endpoints.answered(endpoints);
                    }
                    None => self.world.endpoints.answered_none(key, known.as_deref()),
                }
                return self.go_on(work, now);
            }
            Outcome::SlicesRead(Err(error)) | Outcome::EndpointsRead(Err(error), _) => Some(error),
            Outcome::SlicesWritten(report) => {
                let is_mirror = matches!(work, Work::Mirroring(_));
                self.metrics.update(|values| match is_mirror {
                    true => values.mirroring.changes.count(&report),
                    false => values.slices.changes.count(&report),
                });
                report.take_into(match is_mirror {
                    true => &mut self.world.mirrored,
                    false => &mut self.world.slices,
                })
            }
            Outcome::EndpointsWritten(Ok(written)) => {
                match written {
                    endpoints::Written::Now(endpoints) => {
                        self.world.endpoints.answered(endpoints);
                    }
                    endpoints::Written::Gone(meta) => self.world.endpoints.deleted(&meta),
                }
                None
            }
            Outcome::EndpointsWritten(Err(error)) => Some(error),
            Outcome::Panicked => return self.settle(&work, Some(SyncError::Panicked), now),
        };
        self.settle(&work, error.map(SyncError::Request), now);
    }

    /// What is there is known again, and the look at the key goes on.
    fn go_on(&mut self, work: Work, now: Instant) {
        self.doubtful.remove(&work);
        self.sync(work, now);
    }

    /// The key is as it should be, or will be looked at again after a pause.
    pub(super) fn settle(&mut self, work: &Work, error: Option<SyncError>, now: Instant) {
        let topic = Topic::Failure(work.clone());
        // Where all is about to go nothing can be created, and need not be (EPC-14).
        let ends = |error: &SyncError| matches!(error, SyncError::Request(e) if e.is_namespace_terminating());
        let error = error.filter(|error| !ends(error));
        if matches!(work, Work::Slices(_)) {
            let ending = error.as_ref().map_or(Ending::Success, |_| Ending::Error);
            self.metrics.update(|values| values.slices.ended(ending));
        }
        let Some(error) = error else {
            self.told.news(topic, Vec::new());
            match work {
                Work::Slices(key) => self.slice_triggers.written(key),
                Work::Endpoints(key) => self.endpoints_triggers.written(key),
                Work::Mirroring(_) => {}
            }
            // Doubt that arose meanwhile asks for another look.
            if self.doubtful.contains(work) {
                self.lanes.add(work.clone(), now);
            }
            let took = self.lanes.done(work, now);
            if matches!(work, Work::Mirroring(_)) {
                self.metrics.update(|values| values.mirroring.took(took));
            }
            return;
        };
        self.doubtful.insert(work.clone());
        let pause = self.lanes.failed(work, now);
        tracing::warn!(?work, %error, ?pause, "will be tried again");
        // Losing a race is no failure that anybody needs to know of.
        if !matches!(&error, SyncError::Request(error) if error.is_conflict()) {
            let (regarding, reason) = self.affected(work);
            let findings = reason.map(|reason| Finding::warning(reason, error.to_string()));
            self.tell(topic, regarding, findings.into_iter().collect());
        }
    }

    /// The object on which a failure is told, and the reason's name (EPS-22, EPC-14).
    fn affected(&self, work: &Work) -> (Option<Regarding>, Option<&'static str>) {
        let key = work.key();
        let service = || self.world.services.get(key).map(Regarding::object);
        match work {
            Work::Slices(_) => (service(), Some("FailedToUpdateEndpointSlices")),
            Work::Endpoints(_) => match self.world.endpoints.get(key) {
                Some(current) => (Some(Regarding::object(current)), Some("FailedToUpdateEndpoint")),
                None => (service(), Some("FailedToCreateEndpoint")),
            },
            Work::Mirroring(_) => (None, None),
        }
    }
}
