//! The next step of a Job: a pure function of the Job and its Pods.
//!
//! The order of steps is: owners of Pods, the status, the release of finished Pods from their finalizer, Pods. A
//! finished Pod stays until the status counts it, so that no result is lost. Failures delay the next Pod by a pause
//! that doubles. A suspended or ended Job deletes its active Pods. An ended Job is deleted after its time to live, if
//! it has one.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use api::object::{Job, ObjectMeta};
use api::tree::{items, text};
use jiff::{SignedDuration, Timestamp};
use reconcile::events::EventText;
use serde_json::{Value, json};

use super::conditions::{End, finished_at, is_condition_true, record_end, record_suspension};
use super::finished_pods::FinishedPods;
use super::pod_failure_policy::{Effect, effect_of};
use super::pods::{has_failed, index_of, is_indexed, pod_of};
use super::success_policy::met_rule;
use crate::replica_set::ReplicaPod;
use crate::workload::pods::{owned_pods, pod_owner_changes};
use crate::workload::{
    Decision, Inputs, PodChanges, Step, count, is_tracked, pods_at_once, status_patch, timestamp,
};

/// Upper bound of Pods that one job creates, as upstream.
const BURST: usize = 500;
/// Pause after the first failure; it doubles with each failure, as upstream.
const BACK_OFF_FIRST: Duration = Duration::from_secs(10);
/// Upper bound of the pause.
const BACK_OFF_MAX: Duration = Duration::from_secs(600);

/// Computes the next step of a Job.
pub(super) fn reconcile(inputs: &Inputs<'_, Job>) -> Decision {
    let job = inputs.workload;
    let Some(changes) = pod_owner_changes(inputs) else {
        return Decision::default();
    };
    if !changes.is_empty() {
        return Decision::step(Step::ChangeOwners(changes));
    }
    let pods = owned_pods(inputs);
    if job.metadata.deletion_timestamp.is_some() {
        return release(
            pods.iter()
                .filter(|pod| is_tracked(pod))
                .map(|pod| pod.metadata.clone())
                .collect(),
        );
    }
    if let Some(finished) = finished_at(job) {
        let tracked = pods.iter().filter(|pod| is_tracked(pod));
        let left: Vec<ObjectMeta> = tracked.map(|pod| pod.metadata.clone()).collect();
        return if left.is_empty() {
            expire(job, finished, inputs.now)
        } else {
            release(left)
        };
    }
    Progress::of(inputs, &pods).next()
}

fn release(pods: Vec<ObjectMeta>) -> Decision {
    if pods.is_empty() {
        return Decision::default();
    }
    Decision::step(Step::ReleasePods(pods))
}

/// Deletes a finished Job after its time to live.
fn expire(job: &Job, finished: Timestamp, now: Timestamp) -> Decision {
    let Some(seconds) = job.spec.ttl_seconds_after_finished else {
        return Decision::default();
    };
    match time_remaining(finished, seconds, now) {
        Some(pause) => Decision::wait(Some(pause)),
        None => Decision::step(Step::DeleteOwner),
    }
}

/// Returns the time until `seconds` after `since`; `None` if it has passed.
fn time_remaining(since: Timestamp, seconds: i64, now: Timestamp) -> Option<Duration> {
    let left = SignedDuration::from_secs(seconds).saturating_sub(now.duration_since(since));
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// The state of a Job that has not ended.
struct Progress<'a> {
    inputs: &'a Inputs<'a, Job>,
    pods: &'a [&'a ReplicaPod],
    active: Vec<&'a ReplicaPod>,
    terminating: usize,
    end: Option<End>,
    finished_pods: FinishedPods,
}

impl<'a> Progress<'a> {
    fn of(inputs: &'a Inputs<'a, Job>, pods: &'a [&'a ReplicaPod]) -> Self {
        let job = inputs.workload;
        let active: Vec<&ReplicaPod> = pods.iter().copied().filter(|pod| pod.is_active()).collect();
        let finished_pods = FinishedPods::of(job, pods, false);
        let end = End::recorded(job).or_else(|| end_of(inputs, pods, &finished_pods, &active));
        let is_failure = end.as_ref().is_some_and(|end| !end.is_success());
        Self {
            inputs,
            pods,
            terminating: pods.iter().filter(|pod| pod.is_terminating()).count(),
            active,
            // Pods that the end of the Job deletes count as failed, unless the Job succeeded.
            finished_pods: if is_failure {
                FinishedPods::of(job, pods, true)
            } else {
                finished_pods
            },
            end,
        }
    }

    fn next(&self) -> Decision {
        let job = self.inputs.workload;
        let (status, events) = self.status();
        if let Some(patch) = status_patch(job, &job.status, &status) {
            return Decision::step(Step::UpdateStatus(patch, events));
        }
        if !self.finished_pods.to_release.is_empty() {
            return release(self.finished_pods.to_release.clone());
        }
        let (changes, pause) = self.pod_changes();
        // Pods that a Job deletes before its end do not count as failed.
        let step = if self.end.is_none() && !changes.delete.is_empty() {
            Some(Step::WithdrawPods(changes.delete))
        } else {
            changes.into_step()
        };
        match step {
            Some(step) => Decision::step(step),
            None => Decision::wait(pause.into_iter().chain(self.deadline()).min()),
        }
    }

    /// Returns the status of the Job, and the Events about its changes.
    fn status(&self) -> (Value, Vec<EventText>) {
        let (job, now) = (self.inputs.workload, self.inputs.now);
        let mut conditions = items(&job.status, "conditions").to_vec();
        let mut events = Vec::new();
        let is_final = self.active.is_empty() && self.terminating == 0 && self.finished_pods.is_complete();
        if let Some(end) = &self.end {
            record_end(&mut conditions, end, is_final, now);
            if is_final {
                events.push(if end.is_success() {
                    EventText::normal("Completed", "Job completed".to_owned())
                } else {
                    EventText::warning(end.reason(), end.message().to_owned())
                });
            }
        } else {
            let was_suspended = is_condition_true(&conditions, "Suspended");
            record_suspension(&mut conditions, job.spec.suspend, now);
            match (was_suspended, job.spec.suspend) {
                (false, true) => events.push(EventText::normal("Suspended", "Job suspended".to_owned())),
                (true, false) => events.push(EventText::normal("Resumed", "Job resumed".to_owned())),
                _ => {}
            }
        }
        let start = match text(&job.status, "startTime") {
            _ if job.spec.suspend && self.end.is_none() => Value::Null,
            "" => json!(timestamp(now)),
            time => json!(time),
        };
        let ready = self.active.iter().filter(|pod| pod.is_ready()).count();
        let mut status = json!({
            "active": count(self.active.len()),
            "ready": ready,
            "terminating": self.terminating,
            "startTime": start,
            "conditions": if conditions.is_empty() { Value::Null } else { json!(conditions) },
        });
        if is_final && self.end.as_ref().is_some_and(End::is_success) {
            status["completionTime"] = json!(timestamp(now));
        }
        self.finished_pods.write(job, &mut status);
        (status, events)
    }

    /// Returns the Pods to create or delete, and the pause before a failed Pod is replaced.
    fn pod_changes(&self) -> (PodChanges, Option<Duration>) {
        let job = self.inputs.workload;
        let mut changes = PodChanges::default();
        if self.end.is_some() || job.spec.suspend {
            changes.delete = self.active.iter().map(|pod| pod.metadata.clone()).collect();
            return (changes, None);
        }
        let desired = self.desired_active();
        let misplaced = self.misplaced();
        let excess = self.active.len().saturating_sub(desired).max(misplaced.len());
        if excess > 0 {
            // Pods without the finalizer are withdrawn already. The youngest Pods have run for the shortest time.
            let mut ranked = self.active.clone();
            ranked.sort_by_key(|pod| {
                (
                    !misplaced.contains(&*pod.metadata.uid),
                    is_tracked(pod),
                    pod.is_ready(),
                    Reverse(pod.created()),
                )
            });
            let excess = ranked.iter().take(excess);
            changes.delete = excess.map(|pod| pod.metadata.clone()).collect();
            return (changes, None);
        }
        let held = if job.spec.pod_replacement_policy == "Failed" {
            self.terminating
        } else {
            0
        };
        let missing = desired.saturating_sub(self.active.len() + held);
        if missing == 0 {
            return (changes, None);
        }
        if let Some(pause) = self.back_off() {
            return (changes, Some(pause));
        }
        let missing = missing.min(pods_at_once(BURST, &job.spec.template));
        changes.create = if is_indexed(job) {
            let indexes = self.free_indexes(missing);
            indexes
                .into_iter()
                .map(|index| pod_of(job, Some(index)))
                .collect()
        } else {
            vec![pod_of(job, None); missing]
        };
        (changes, None)
    }

    /// Returns the number of Pods that are to run now.
    fn desired_active(&self) -> usize {
        let spec = &self.inputs.workload.spec;
        let parallelism = usize::try_from(spec.parallelism).unwrap_or(0);
        match spec.completions {
            Some(completions) => {
                let left = usize::try_from(completions)
                    .unwrap_or(0)
                    .saturating_sub(self.finished_pods.total_succeeded);
                parallelism.min(left)
            }
            // The first success of a work queue ends the creation of Pods.
            None if self.finished_pods.total_succeeded > 0 => self.active.len().min(parallelism),
            None => parallelism,
        }
    }

    /// Returns the UIDs of the active Pods of an Indexed Job that have no index of the Job, or that of another Pod.
    fn misplaced(&self) -> BTreeSet<&'a str> {
        let job = self.inputs.workload;
        if !is_indexed(job) {
            return BTreeSet::new();
        }
        let completions = job.spec.completions.unwrap_or(0);
        let mut pods = self.active.clone();
        // The first Pod of an index stays, because it has run for the longest time.
        pods.sort_by_key(|pod| (!is_tracked(pod), !pod.is_ready(), pod.created()));
        let mut indexes = BTreeSet::new();
        pods.retain(|pod| {
            let is_placed = index_of(pod).is_some_and(|index| index < completions && indexes.insert(index));
            !is_placed
        });
        pods.into_iter().map(|pod| &*pod.metadata.uid).collect()
    }

    fn free_indexes(&self, number: usize) -> Vec<i64> {
        let job = self.inputs.workload;
        let completions = job.spec.completions.unwrap_or(0);
        let waits_for_end = job.spec.pod_replacement_policy == "Failed";
        let is_running = |pod: &&&ReplicaPod| pod.is_active() || (waits_for_end && pod.is_terminating());
        let running = self.pods.iter().filter(is_running);
        let running: BTreeSet<i64> = running.filter_map(|pod| index_of(pod)).collect();
        let is_free = |index: &i64| !running.contains(index) && !self.finished_pods.indexes.contains(index);
        (0..completions).filter(is_free).take(number).collect()
    }

    /// Returns the pause before the next Pod is created; it grows with the failures since the last success. As
    /// upstream, Pods that `podFailurePolicy` ignores count, too: only the pause bounds the rate of their replacements.
    fn back_off(&self) -> Option<Duration> {
        let ended = |phase: &'static str| self.pods.iter().filter(move |pod| pod.status.phase == phase);
        let last_success = ended("Succeeded").filter_map(|pod| end_time(pod)).max();
        let failures: Vec<Timestamp> = ended("Failed")
            .filter_map(|pod| end_time(pod))
            .filter(|time| last_success.is_none_or(|success| *time > success))
            .collect();
        let last = *failures.iter().max()?;
        let doublings = u32::try_from(failures.len() - 1)
            .unwrap_or(u32::MAX)
            .min(u32::from(u8::MAX));
        let pause = BACK_OFF_FIRST
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(BACK_OFF_MAX);
        time_remaining(
            last,
            i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
            self.inputs.now,
        )
    }

    /// Returns the time until the deadline of the Job.
    fn deadline(&self) -> Option<Duration> {
        let job = self.inputs.workload;
        let seconds = job.spec.active_deadline_seconds.filter(|_| self.end.is_none())?;
        let start = text(&job.status, "startTime").parse().ok()?;
        time_remaining(start, seconds, self.inputs.now)
    }
}

/// Returns the time at which a Pod ended: the last transition of its readiness, otherwise its creation.
fn end_time(pod: &ReplicaPod) -> Option<Timestamp> {
    let conditions = pod.status.conditions.iter();
    let times = conditions.filter_map(|condition| condition.last_transition_time.as_deref()?.parse().ok());
    times.max().or_else(|| pod.created())
}

/// Returns the reason that the Job ends now.
fn end_of(
    inputs: &Inputs<'_, Job>,
    pods: &[&ReplicaPod],
    finished_pods: &FinishedPods,
    active: &[&ReplicaPod],
) -> Option<End> {
    let job = inputs.workload;
    let mut failed = pods.iter().filter(|pod| has_failed(job, pod));
    let end_by_policy = failed.find_map(|pod| match effect_of(job, pod) {
        Effect::FailJob(message) => Some(End::PodFailurePolicy(message)),
        Effect::Count | Effect::Ignore => None,
    });
    if end_by_policy.is_some() {
        return end_by_policy;
    }
    let restarts: i64 = match text(&job.spec.template["spec"], "restartPolicy") {
        "OnFailure" => active.iter().map(|pod| pod.restarts_total()).sum(),
        _ => 0,
    };
    let failures = i64::try_from(finished_pods.total_failed).unwrap_or(i64::MAX);
    let is_over = failures > job.spec.backoff_limit || (restarts > 0 && restarts >= job.spec.backoff_limit);
    if is_over {
        return Some(End::BackoffLimitExceeded);
    }
    let start = text(&job.status, "startTime").parse::<Timestamp>().ok();
    if let (Some(seconds), Some(start), false) = (job.spec.active_deadline_seconds, start, job.spec.suspend)
        && time_remaining(start, seconds, inputs.now).is_none()
    {
        return Some(End::DeadlineExceeded);
    }
    if let Some(position) = met_rule(job, &finished_pods.indexes) {
        return Some(End::by_rule(position));
    }
    let is_complete = match job.spec.completions {
        Some(completions) => i64::try_from(finished_pods.total_succeeded).unwrap_or(i64::MAX) >= completions,
        None => finished_pods.total_succeeded > 0 && active.is_empty(),
    };
    is_complete.then_some(End::Complete)
}
