//! Counts of a Job's finished Pods.
//!
//! Three writes count a finished Pod once. The first adds its UID to `status.uncountedTerminatedPods`, the second
//! removes its finalizer, and the third moves the UID to the count. Each write can be repeated after a failure. An
//! index of an Indexed Job identifies its success, so the status lists the index at once instead of the UID.

use std::collections::BTreeSet;

use api::object::{Job, ObjectMeta};
use api::tree::{child, number, text, texts};
use serde_json::{Value, json};

use super::pod_failure_policy::ignores;
use super::pods::{format_indexes, has_failed, index_of, is_indexed, parse_indexes};
use crate::replicaset::ReplicaPod;
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

impl FinishedPods {
    /// Counts the Pods of a Job. With `ends_all`, Pods that run count as failed, because the Job has ended.
    pub(super) fn of(job: &Job, pods: &[&ReplicaPod], ends_all: bool) -> Self {
        let stored = child(&job.status, "uncountedTerminatedPods");
        let stored_uids = |field| -> BTreeSet<&str> { texts(stored, field).into_iter().collect() };
        let (succeeded, failed) = (stored_uids("succeeded"), stored_uids("failed"));
        let amount = |field| usize::try_from(number(&job.status, field)).unwrap_or(0);
        let completions = job.spec.completions.unwrap_or(0);
        let mut this = Self {
            succeeded: amount("succeeded"),
            failed: amount("failed"),
            uncounted_succeeded: BTreeSet::new(),
            uncounted_failed: BTreeSet::new(),
            indexes: parse_indexes(text(&job.status, "completedIndexes"), completions),
            to_release: Vec::new(),
            total_succeeded: 0,
            total_failed: 0,
        };
        let tracked = pods.iter().filter(|pod| is_tracked(pod));
        let tracked_uids: BTreeSet<&str> = tracked.clone().map(|pod| &*pod.metadata.uid).collect();
        // Pods without finalizer move from the lists to the counts.
        this.succeeded += succeeded
            .iter()
            .filter(|uid| !tracked_uids.contains(*uid))
            .count();
        this.failed += failed.iter().filter(|uid| !tracked_uids.contains(*uid)).count();
        let (mut more_succeeded, mut more_failed) = (0, 0);
        for pod in tracked {
            let uid = &pod.metadata.uid;
            let is_listed = succeeded.contains(&**uid) || failed.contains(&**uid);
            if is_listed {
                this.to_release.push(pod.metadata.clone());
            }
            let is_success =
                succeeded.contains(&**uid) || (pod.status.phase == "Succeeded" && !failed.contains(&**uid));
            let is_full = this.uncounted_succeeded.len() + this.uncounted_failed.len() >= UNCOUNTED_MAX;
            if is_success && is_indexed(job) {
                let is_new =
                    index_of(pod).is_some_and(|index| index < completions && this.indexes.insert(index));
                // The stored status has the index already, or the Job does not have it.
                if !is_new && !is_listed {
                    this.to_release.push(pod.metadata.clone());
                }
            } else if is_success {
                if is_full {
                    more_succeeded += 1;
                } else {
                    this.uncounted_succeeded.insert(uid.clone());
                }
            } else if is_listed || has_failed(job, pod) || ends_all {
                if !is_listed && ignores(job, pod) {
                    this.to_release.push(pod.metadata.clone());
                } else if is_full {
                    more_failed += 1;
                } else {
                    this.uncounted_failed.insert(uid.clone());
                }
            }
        }
        if is_indexed(job) {
            // The completions of an elastic Job, and with them the indexes that count, may have changed.
            this.succeeded = this.indexes.len();
        }
        this.total_succeeded = this.succeeded + this.uncounted_succeeded.len() + more_succeeded;
        this.total_failed = this.failed + this.uncounted_failed.len() + more_failed;
        this
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
