//! Counts of a Job's finished Pods.
//!
//! Three writes count a finished Pod once. The first adds its UID to `status.uncountedTerminatedPods`, the second
//! removes its finalizer, and the third moves the UID to the count. Each write can be repeated after a failure. An
//! index of an Indexed Job identifies its success, so the status lists the index at once instead of the UID.

use std::collections::BTreeSet;

use api::object::{Job, ObjectMeta};
use api::tree::{child, number, text, texts};
use serde_json::{Value, json};

use super::pod_failure_policy::ignores_failure;
use super::pods::{format_indexes, has_failed, index_of, is_indexed, parse_indexes};
use crate::replica_set::ReplicaPod;
use crate::workload::{count, is_tracked};

/// Upper bound of UIDs in the status, as upstream, so that the object stays small.
const UNCOUNTED_MAX: usize = 500;

/// Finished Pods of a Job: the counts of the status and the Pods that it does not count yet.
pub(super) struct FinishedPods {
    /// Counts of the status after the next write.
    succeeded: usize,
    failed: usize,
    /// UIDs in the status after the next write.
    uncounted_succeeded: BTreeSet<String>,
    uncounted_failed: BTreeSet<String>,
    /// Indexes of succeeded Pods.
    pub(super) indexes: BTreeSet<i64>,
    /// Pods with a finalizer that the stored status lists.
    pub(super) to_release: Vec<ObjectMeta>,
    /// Succeeded and failed Pods with those that the next write does not list yet.
    pub(super) total_succeeded: usize,
    pub(super) total_failed: usize,
}

/// UIDs in the stored status of Pods that are finished and not counted.
struct StoredUids<'a> {
    succeeded: BTreeSet<&'a str>,
    failed: BTreeSet<&'a str>,
}

impl<'a> StoredUids<'a> {
    fn of(job: &'a Job) -> Self {
        let stored = child(&job.status, "uncountedTerminatedPods");
        let uids = |field| texts(stored, field).into_iter().collect();
        Self {
            succeeded: uids("succeeded"),
            failed: uids("failed"),
        }
    }
}

impl FinishedPods {
    /// Counts the Pods of a Job. With `ends_all`, Pods that run count as failed, because the Job has ended.
    pub(super) fn of(job: &Job, pods: &[&ReplicaPod], ends_all: bool) -> Self {
        let stored = StoredUids::of(job);
        let tracked: Vec<&ReplicaPod> = pods.iter().copied().filter(|pod| is_tracked(pod)).collect();
        let tracked_uids: BTreeSet<&str> = tracked.iter().map(|pod| &*pod.metadata.uid).collect();
        // Pods without finalizer move from the lists to the counts.
        let moved = |uids: &BTreeSet<&str>| uids.iter().filter(|uid| !tracked_uids.contains(**uid)).count();
        let amount = |field| usize::try_from(number(&job.status, field)).unwrap_or(0);
        let completions = job.spec.completions.unwrap_or(0);
        let mut finished = Self {
            succeeded: amount("succeeded") + moved(&stored.succeeded),
            failed: amount("failed") + moved(&stored.failed),
            uncounted_succeeded: BTreeSet::new(),
            uncounted_failed: BTreeSet::new(),
            indexes: parse_indexes(text(&job.status, "completedIndexes"), completions),
            to_release: Vec::new(),
            total_succeeded: 0,
            total_failed: 0,
        };
        for pod in &tracked {
            finished.add(job, pod, &stored, ends_all);
        }
        if is_indexed(job) {
            // The completions of an elastic Job, and with them the indexes that count, may have changed.
            finished.succeeded = finished.indexes.len();
        }
        finished.total_succeeded += finished.succeeded + finished.uncounted_succeeded.len();
        finished.total_failed += finished.failed + finished.uncounted_failed.len();
        finished
    }

    /// Adds a Pod with a finalizer. The totals receive the Pods for which the lists have no room.
    fn add(&mut self, job: &Job, pod: &ReplicaPod, stored: &StoredUids<'_>, ends_all: bool) {
        let uid = &pod.metadata.uid;
        let (is_listed_success, is_listed_failure) =
            (stored.succeeded.contains(&**uid), stored.failed.contains(&**uid));
        let is_listed = is_listed_success || is_listed_failure;
        if is_listed {
            self.to_release.push(pod.metadata.clone());
        }
        let is_success = is_listed_success || (pod.status.phase == "Succeeded" && !is_listed_failure);
        let is_full = self.uncounted_succeeded.len() + self.uncounted_failed.len() >= UNCOUNTED_MAX;
        if is_success && is_indexed(job) {
            let completions = job.spec.completions.unwrap_or(0);
            let is_new = index_of(pod).is_some_and(|index| index < completions && self.indexes.insert(index));
            // The stored status has the index already, or the Job does not have it.
            if !is_new && !is_listed {
                self.to_release.push(pod.metadata.clone());
            }
        } else if is_success {
            if is_full {
                self.total_succeeded += 1;
            } else {
                self.uncounted_succeeded.insert(uid.clone());
            }
        } else if is_listed || has_failed(job, pod) || ends_all {
            if !is_listed && ignores_failure(job, pod) {
                self.to_release.push(pod.metadata.clone());
            } else if is_full {
                self.total_failed += 1;
            } else {
                self.uncounted_failed.insert(uid.clone());
            }
        }
    }

    /// Returns true if the next status counts all finished Pods.
    pub(super) fn is_complete(&self) -> bool {
        self.uncounted_succeeded.is_empty()
            && self.uncounted_failed.is_empty()
            && self.total_succeeded == self.succeeded
            && self.total_failed == self.failed
    }

    /// Adds the counts to a status.
    pub(super) fn write(&self, job: &Job, status: &mut Value) {
        status["succeeded"] = count(self.succeeded);
        status["failed"] = count(self.failed);
        let list = |uids: &BTreeSet<String>| {
            if uids.is_empty() { Value::Null } else { json!(uids) }
        };
        let mut uncounted = json!({});
        for (field, uids) in [
            ("succeeded", &self.uncounted_succeeded),
            ("failed", &self.uncounted_failed),
        ] {
            // A merge patch removes an absent list only if it is stored.
            let is_stored = child(&job.status, "uncountedTerminatedPods").get(field).is_some();
            if is_stored || !uids.is_empty() {
                uncounted[field] = list(uids);
            }
        }
        status["uncountedTerminatedPods"] = uncounted;
        if is_indexed(job) {
            let indexes = format_indexes(&self.indexes);
            status["completedIndexes"] = if indexes.is_empty() {
                Value::Null
            } else {
                json!(indexes)
            };
        }
    }
}
