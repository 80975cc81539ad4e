use std::sync::Arc;
use std::time::{Duration, Instant};

use api::object::{EndpointSlice, Service};
use client::{ClientError, Event, Status};
use http::Method;
use serde_json::{Value, json};

use super::super::job::{Action, Done, Outcome};
use super::super::watches::{Arrival, Change};
use super::{Core, Job, Options};
use crate::endpointslice::{Report, SliceWrite};
use crate::selection::Selection;
use crate::write::Listed;

/// A core of the EndpointSlice controller alone, with a Service without Pods, and the time.
fn core() -> (Core, Instant) {
    let options = Options {
        controllers: Selection::parse(&["endpointslice-controller"]).expect("a name"),
        ..Options::default()
    };
    let mut core = Core::new(options, Arc::default());
    let now = Instant::now();
    core.take(Change::Slice(arrival(Event::Synced, 1)), now);
    core.take(Change::Service(arrival(Event::Applied(service()), 0)), now);
    (core, now)
}

fn arrival<T>(event: Event<T>, revision: u64) -> Arrival<T> {
    Arrival { event, revision }
}

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn service() -> Service {
    of(json!({"metadata": {"name": "s", "namespace": "n", "uid": "u"}, "spec": {"selector": {"a": "b"}}}))
}

/// The slice that a job creates, as the server answers it.
fn created(job: &Job, version: u64) -> EndpointSlice {
    let Action::WriteSlices { writes, .. } = &job.action else {
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

fn written(slice: &EndpointSlice) -> Outcome {
    Outcome::SlicesWritten(Report {
        written: vec![slice.clone()],
        ..Report::default()
    })
}

fn refused() -> Outcome {
    let error = ClientError::Status {
        method: Method::POST,
        path: String::new(),
        status: Status {
            code: 500,
            ..Status::default()
        },
    };
    Outcome::SlicesWritten(Report {
        error: Some(error),
        ..Report::default()
    })
}

fn done(core: &mut Core, job: Job, outcome: Outcome, now: Instant) {
    let work = job.work;
    core.finish(Done { work, outcome }, now);
}

#[test]
fn a_key_has_one_job_at_a_time_and_its_answer_comes_before_its_next_look() {
    let (mut core, now) = core();
    let job = only(core.start(now));
    let mut changed = service();
    changed.metadata.labels.insert("new".into(), "label".into());
    core.take(Change::Service(arrival(Event::Applied(changed), 0)), now);
    assert!(core.start(now).is_empty(), "the key is busy");
    let slice = created(&job, 5);
    done(&mut core, job, written(&slice), now);
    // The watch has told nothing of the slice, and it is updated, not created again.
    let Action::WriteSlices { writes, .. } = only(core.start(now)).action else {
        panic!("no writes");
    };
    assert!(
        matches!(&writes[..], [SliceWrite::Update(update)] if update.metadata.name == "s-5"),
        "{writes:?}"
    );
}

#[test]
fn after_a_failure_what_is_there_is_read_before_anything_is_written() {
    let (mut core, now) = core();
    let job = only(core.start(now));
    let slice = created(&job, 5);
    done(&mut core, job, refused(), now);
    assert!(core.start(now).is_empty(), "the key rests");
    let later = core.next_wake().expect("another try");
    let job = only(core.start(later));
    assert!(matches!(job.action, Action::ReadSlices), "{job:?}");
    // The write had arrived, only its answer had not.
    let listed = Listed {
        items: vec![slice],
        revision: 6,
    };
    done(&mut core, job, Outcome::SlicesRead(Ok(listed)), later);
    assert!(core.start(later).is_empty(), "all is as it should be");
}

#[test]
fn a_panic_of_a_job_frees_its_key() {
    let (mut core, now) = core();
    let job = only(core.start(now));
    done(&mut core, job, Outcome::Panicked, now);
    let later = core.next_wake().expect("another try");
    assert!(later > now);
    assert!(matches!(only(core.start(later)).action, Action::ReadSlices));
}

#[test]
fn a_slice_that_no_watch_ever_told_of_is_gone_with_a_complete_list() {
    let (mut core, now) = core();
    let job = only(core.start(now));
    let slice = created(&job, 5);
    done(&mut core, job, written(&slice), now);
    assert!(core.start(now).is_empty());
    // Somebody deleted it, and the watch broke before it told of either.
    core.take(Change::Slice(arrival(Event::Synced, 9)), now);
    created(&only(core.start(now)), 10);
}

#[test]
fn an_answer_that_comes_after_a_complete_list_is_not_believed_unread() {
    let (mut core, now) = core();
    let job = only(core.start(now));
    let slice = created(&job, 5);
    core.take(Change::Slice(arrival(Event::Synced, 9)), now);
    done(&mut core, job, written(&slice), now);
    let job = only(core.start(now));
    assert!(matches!(job.action, Action::ReadSlices), "{job:?}");
    let listed = Listed {
        items: Vec::new(),
        revision: 10,
    };
    done(&mut core, job, Outcome::SlicesRead(Ok(listed)), now);
    created(&only(core.start(now)), 11);
}

#[test]
fn what_others_do_to_a_slice_is_answered_after_a_pause() {
    let (mut core, now) = core();
    let job = only(core.start(now));
    let mut slice = created(&job, 5);
    done(&mut core, job, written(&slice), now);
    slice.metadata.labels.insert("foreign".into(), "label".into());
    slice.metadata.resource_version = "6".to_owned();
    core.take(Change::Slice(arrival(Event::Applied(slice), 0)), now);
    assert!(core.start(now).is_empty());
    assert_eq!(core.next_wake(), Some(now + Duration::from_secs(1)));
}

#[test]
fn where_the_namespace_goes_nothing_is_tried_again() {
    let (mut core, now) = core();
    let job = only(core.start(now));
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
    done(&mut core, job, Outcome::SlicesWritten(report), now);
    assert!(core.start(now).is_empty() && core.next_wake().is_none());
    assert!(core.notices().is_empty(), "nobody needs to know");
}
