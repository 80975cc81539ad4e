//! Application of job results: responses update the caches, and the work is done or retried.

use std::time::Instant;

use client::ClientError;
use reconcile::events::{EventText, ObjectReference};

use super::job::{FinishedJob, JobResult};
use super::reconciler::EndpointReconciler;
use super::sync_key::{SyncKey, Topic};
use crate::caches::drop_trigger_time;
use crate::endpoints;
use crate::metrics::SyncResult;

/// The error of a sync. The queue retries the work.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] ClientError),
    /// The sync panicked: a defect. A retry succeeds if the object that triggers it has changed.
    #[error("sync panicked; see the previous log line")]
    Panicked,
}

impl EndpointReconciler {
    /// Applies the result of a job.
    pub(super) fn finish(&mut self, finished: FinishedJob, now: Instant) {
        self.apply_result(finished.work, finished.result, now);
    }

    /// Applies the result of work: updates the caches, and queues the work again after a failure.
    pub(super) fn apply_result(&mut self, work: SyncKey, result: JobResult, now: Instant) {
        let key = work.object_key();
        let error = match result {
            JobResult::SlicesRead(Ok(listed)) => {
                let slices = match work {
                    SyncKey::Mirroring(_) => &mut self.caches.mirrored,
                    _ => &mut self.caches.slices,
                };
                slices.apply_list(key, listed.items, listed.revision);
                return self.resume(work, now);
            }
            JobResult::EndpointsRead(Ok(found), cached_uid) => {
                match found {
                    Some(endpoints) => {
                        self.caches.endpoints.apply_response(endpoints);
                    }
                    None => self.caches.endpoints.confirm_absence(key, cached_uid.as_deref()),
                }
                return self.resume(work, now);
            }
            JobResult::SlicesRead(Err(error)) | JobResult::EndpointsRead(Err(error), _) => Some(error),
            JobResult::SlicesWritten(mut report) => {
                let is_mirror = matches!(work, SyncKey::Mirroring(_));
                self.metrics.update(|values| {
                    let changes = if is_mirror {
                        &mut values.mirroring.changes
                    } else {
                        &mut values.slices.changes
                    };
                    changes.count(&report);
                });
                for slice in &mut report.written {
                    self.caches.pods.share_with_slice(slice);
                    if !is_mirror {
                        drop_trigger_time(&mut slice.metadata);
                    }
                }
                report.apply_to(if is_mirror {
                    &mut self.caches.mirrored
                } else {
                    &mut self.caches.slices
                })
            }
            JobResult::EndpointsWritten(Ok(written)) => {
                match written {
                    endpoints::WriteResult::Current(mut endpoints) => {
                        self.caches.pods.share_with_endpoints(&mut endpoints);
                        drop_trigger_time(&mut endpoints.metadata);
                        self.caches.endpoints.apply_response(endpoints);
                    }
                    endpoints::WriteResult::Deleted(meta) => self.caches.endpoints.confirm_deletion(&meta),
                }
                None
            }
            JobResult::EndpointsWritten(Err(error)) => Some(error),
            JobResult::Panicked => return self.record_result(&work, Some(SyncError::Panicked), now),
        };
        self.record_result(&work, error.map(SyncError::Request), now);
    }

    /// Continues a sync after its objects were read.
    fn resume(&mut self, work: SyncKey, now: Instant) {
        self.needs_refresh.remove(&work);
        self.sync(work, now);
    }

    /// Ends work with success, or schedules a retry.
    pub(super) fn record_result(&mut self, work: &SyncKey, error: Option<SyncError>, now: Instant) {
        let topic = Topic::Failure(work.clone());
        // A terminating namespace accepts no new objects and needs none (EPC-14).
        let is_terminating =
            |error: &SyncError| matches!(error, SyncError::Request(e) if e.is_namespace_terminating());
        let error = error.filter(|error| !is_terminating(error));
        if matches!(work, SyncKey::Slices(_)) {
            let result = error.as_ref().map_or(SyncResult::Success, |_| SyncResult::Error);
            self.metrics.update(|values| values.slices.count_sync(result));
        }
        let Some(error) = error else {
            self.events.replace(topic, Vec::new());
            match work {
                SyncKey::Slices(key) => self.slice_triggers.written(key),
                SyncKey::Endpoints(key) => self.endpoints_triggers.written(key),
                SyncKey::Mirroring(_) => {}
            }
            // A complete list in the meantime requires another sync.
            if self.needs_refresh.contains(work) {
                self.queues.add(work.clone(), now);
            }
            let duration = self.queues.done(work, now);
            if matches!(work, SyncKey::Mirroring(_)) {
                self.metrics
                    .update(|values| values.mirroring.observe_sync(duration));
            }
            return;
        };
        self.needs_refresh.insert(work.clone());
        let delay = self.queues.failed(work, now);
        tracing::warn!(?work, %error, ?delay, "sync failed; retrying");
        // A conflict is part of optimistic concurrency: no Event.
        if !matches!(&error, SyncError::Request(error) if error.is_conflict()) {
            let (regarding, reason) = self.failure_event(work);
            let events = reason.map(|reason| EventText::warning(reason, error.to_string()));
            self.report(topic, regarding, events.into_iter().collect());
        }
    }

    /// Returns the object and the reason of the Event about a failure (EPS-22, EPC-14).
    fn failure_event(&self, work: &SyncKey) -> (Option<ObjectReference>, Option<&'static str>) {
        let key = work.object_key();
        let service = || self.caches.service(key).map(ObjectReference::of);
        match work {
            SyncKey::Slices(_) => (service(), Some("FailedToUpdateEndpointSlices")),
            SyncKey::Endpoints(_) => match self.caches.endpoints.get(key) {
                Some(current) => (Some(ObjectReference::of(current)), Some("FailedToUpdateEndpoint")),
                None => (service(), Some("FailedToCreateEndpoint")),
            },
            SyncKey::Mirroring(_) => (None, None),
        }
    }
}
