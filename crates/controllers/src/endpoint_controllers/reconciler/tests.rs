use std::sync::Arc;
use std::time::{Duration, Instant};

use api::object::{EndpointSlice, Service};
use client::{ClientError, Event, Status};
use http::Method;
use serde_json::{Value, json};

use super::super::job::{FinishedJob, JobKind, JobResult};
use super::super::watches::{Change, EventAtRevision};
use super::{EndpointReconciler, Job, Options};
use crate::api_requests::ObjectList;
use crate::endpoint_slice::{Report, SliceWrite};
use crate::selection::Selection;

/// Returns the reconciler with the EndpointSlice controller only and a Service without Pods, and the time.
fn endpointslice_reconciler() -> (EndpointReconciler, Instant) {
    let options = Options {
        controllers: Selection::parse(&["endpointslice-controller"]).expect("a known controller"),
        ..Options::default()
    };
    let mut reconciler = EndpointReconciler::new(options, Arc::default());
    let now = Instant::now();
    reconciler.apply_change(Change::Slice(arrival(Event::Synced, 1)), now);
    reconciler.apply_change(Change::Service(arrival(Event::Applied(service()), 0)), now);
    (reconciler, now)
}

fn arrival<T>(event: Event<T>, revision: u64) -> EventAtRevision<T> {
    EventAtRevision { event, revision }
}

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid object")
}

fn service() -> Service {
    of(json!({"metadata": {"name": "s", "namespace": "n", "uid": "u"}, "spec": {"selector": {"a": "b"}}}))
}

/// Returns the slice that a job creates, as the server responds.
fn created(job: &Job, version: u64) -> EndpointSlice {
    let JobKind::WriteSlices { writes, .. } = &job.kind else {
        panic!("{job:?} writes no slices");
    };
    let [SliceWrite::Create(slice)] = writes.as_slice() else {
        panic!("{writes:?} creates no slice");
    };
    let mut slice = slice.clone();
    slice.metadata.name = format!("s-{version}");
    slice.metadata.uid = format!("uid-{version}");
    slice.metadata.resource_version = version.to_string();
    slice
}

fn only(mut jobs: Vec<Job>) -> Job {
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.remove(0)
}

fn written(slice: &EndpointSlice) -> JobResult {
    JobResult::SlicesWritten(Report {
        written: vec![slice.clone()],
        ..Report::default()
    })
}

fn failed_write() -> JobResult {
    let error = ClientError::Status {
        method: Method::POST,
        path: String::new(),
        status: Status {
            code: 500,
            ..Status::default()
        },
    };
    JobResult::SlicesWritten(Report {
        error: Some(error),
        ..Report::default()
    })
}

fn done(reconciler: &mut EndpointReconciler, job: Job, result: JobResult, now: Instant) {
    let work = job.work;
    reconciler.finish(FinishedJob { work, result }, now);
}

#[test]
fn key_has_one_job_at_a_time_and_its_result_is_applied_before_the_next() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    let mut changed = service();
    changed.metadata.labels.insert("new".into(), "label".into());
    reconciler.apply_change(Change::Service(arrival(Event::Applied(changed), 0)), now);
    assert!(reconciler.start_jobs(now).is_empty(), "the key is in progress");
    let slice = created(&job, 5);
    done(&mut reconciler, job, written(&slice), now);
    // The watch has not reported the slice; it is updated, not created again.
    let JobKind::WriteSlices { writes, .. } = only(reconciler.start_jobs(now)).kind else {
        panic!("no writes");
    };
    assert!(
        matches!(&writes[..], [SliceWrite::Update(update)] if update.metadata.name == "s-5"),
        "{writes:?}"
    );
}

#[test]
fn work_that_rewrote_a_large_object_is_held() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    let slice = created(&job, 5);
    reconciler.queues.count_rewritten(&job.work, 3 << 20, now);
    done(&mut reconciler, job, written(&slice), now);
    let mut changed = service();
    changed.metadata.labels.insert("new".into(), "label".into());
    reconciler.apply_change(Change::Service(arrival(Event::Applied(changed), 0)), now);
    assert!(reconciler.start_jobs(now).is_empty());
    let later = reconciler.next_wake().expect("an end of the pause");
    assert!(later > now + Duration::from_secs(1));
    let job = only(reconciler.start_jobs(later));
    assert!(matches!(job.kind, JobKind::WriteSlices { .. }), "{job:?}");
}

#[test]
fn failed_write_is_followed_by_a_read_before_the_next_write() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    let slice = created(&job, 5);
    done(&mut reconciler, job, failed_write(), now);
    assert!(reconciler.start_jobs(now).is_empty(), "the key is delayed");
    let later = reconciler.next_wake().expect("a retry is scheduled");
    let job = only(reconciler.start_jobs(later));
    assert!(matches!(job.kind, JobKind::ReadSlices), "{job:?}");
    // The write had succeeded; only its response was lost.
    let listed = ObjectList {
        items: vec![slice],
        revision: 6,
    };
    done(&mut reconciler, job, JobResult::SlicesRead(Ok(listed)), later);
    assert!(
        reconciler.start_jobs(later).is_empty(),
        "observed and desired state agree"
    );
}

#[test]
fn panic_of_a_job_releases_its_key() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    done(&mut reconciler, job, JobResult::Panicked, now);
    let later = reconciler.next_wake().expect("a retry is scheduled");
    assert!(later > now);
    assert!(matches!(
        only(reconciler.start_jobs(later)).kind,
        JobKind::ReadSlices
    ));
}

#[test]
fn complete_list_removes_a_slice_that_no_watch_reported() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    let slice = created(&job, 5);
    done(&mut reconciler, job, written(&slice), now);
    assert!(reconciler.start_jobs(now).is_empty());
    // The slice is deleted, and the watch breaks before it reports either.
    reconciler.apply_change(Change::Slice(arrival(Event::Synced, 9)), now);
    created(&only(reconciler.start_jobs(now)), 10);
}

#[test]
fn response_older_than_a_complete_list_requires_a_refresh() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    let slice = created(&job, 5);
    reconciler.apply_change(Change::Slice(arrival(Event::Synced, 9)), now);
    done(&mut reconciler, job, written(&slice), now);
    let job = only(reconciler.start_jobs(now));
    assert!(matches!(job.kind, JobKind::ReadSlices), "{job:?}");
    let listed = ObjectList {
        items: Vec::new(),
        revision: 10,
    };
    done(&mut reconciler, job, JobResult::SlicesRead(Ok(listed)), now);
    created(&only(reconciler.start_jobs(now)), 11);
}

#[test]
fn foreign_changes_of_a_slice_are_reverted_after_a_delay() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    let mut slice = created(&job, 5);
    done(&mut reconciler, job, written(&slice), now);
    slice.metadata.labels.insert("foreign".into(), "label".into());
    slice.metadata.resource_version = "6".to_owned();
    reconciler.apply_change(Change::Slice(arrival(Event::Applied(slice), 0)), now);
    assert!(reconciler.start_jobs(now).is_empty());
    assert_eq!(reconciler.next_wake(), Some(now + Duration::from_secs(1)));
}

#[test]
fn writes_in_a_terminating_namespace_are_not_retried() {
    let (mut reconciler, now) = endpointslice_reconciler();
    let job = only(reconciler.start_jobs(now));
    let cause = client::StatusCause {
        reason: "NamespaceTerminating".to_owned(),
    };
    let error = ClientError::Status {
        method: Method::POST,
        path: String::new(),
        status: Status {
            code: 403,
            details: client::StatusDetails {
                causes: [cause].into(),
            },
            ..Status::default()
        },
    };
    let report = Report {
        error: Some(error),
        ..Report::default()
    };
    done(&mut reconciler, job, JobResult::SlicesWritten(report), now);
    assert!(reconciler.start_jobs(now).is_empty() && reconciler.next_wake().is_none());
    assert!(reconciler.take_event_batches().is_empty(), "no Event is recorded");
}
