use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{ClientError, Status, StatusCause, StatusDetails};
use tokio::sync::{mpsc, watch};

use super::{is_expected, run};
use crate::queue::Queue;
use crate::reconciler::{Action, Reconciler};
use crate::rewrites;

/// Reports each key that it reconciles, and requeues the key with an endless delay.
struct EndlesslyDelayingReconciler(mpsc::UnboundedSender<&'static str>);

impl Reconciler for EndlesslyDelayingReconciler {
    type Change = &'static str;
    type Key = &'static str;
    type Job = ();
    type Output = ();
    const CONCURRENT_JOBS_MAX: usize = 1;

    fn apply_change(&mut self, key: &'static str, queue: &mut Queue<&'static str>, now: Instant) {
        queue.add(key, now);
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn reconcile(&mut self, key: &&'static str, _: Instant) -> Action<()> {
        self.0.send(*key).unwrap();
        Action::RequeueAfter(Duration::MAX)
    }

    fn on_success(&mut self, _: &&'static str, (): (), _: &mut Queue<&'static str>, _: Instant) {}
}

#[tokio::test]
async fn key_with_an_endless_delay_does_not_affect_the_others() {
    let (changes, received) = mpsc::channel(1);
    let (reconciled, mut keys) = mpsc::unbounded_channel();
    tokio::spawn(run(
        EndlesslyDelayingReconciler(reconciled),
        received,
        Arc::default(),
        |_, ()| async { Ok(()) },
        pending(),
    ));
    for key in ["a", "b"] {
        changes.send(key).await.unwrap();
        assert_eq!(keys.recv().await, Some(key));
    }
}

/// Reports each key that it reconciles. The tenant is the first letter.
struct Shared(mpsc::UnboundedSender<String>);

impl Reconciler for Shared {
    type Change = String;
    type Key = String;
    type Job = ();
    type Output = ();
    const CONCURRENT_JOBS_MAX: usize = 1;

    fn tenant(key: &String) -> &str {
        &key[..1]
    }

    fn apply_change(&mut self, key: String, queue: &mut Queue<String>, now: Instant) {
        queue.add(key, now);
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn reconcile(&mut self, key: &String, _: Instant) -> Action<()> {
        self.0.send(key.clone()).unwrap();
        Action::Done
    }

    fn on_success(&mut self, _: &String, (): (), _: &mut Queue<String>, _: Instant) {}
}

#[tokio::test]
async fn many_keys_of_one_tenant_do_not_delay_another() {
    let (changes, received) = mpsc::channel(1_001);
    for number in 0..1_000 {
        changes.send(format!("a{number}")).await.unwrap();
    }
    changes.send("b".to_owned()).await.unwrap();
    let (reconciled, mut keys) = mpsc::unbounded_channel();
    tokio::spawn(run(
        Shared(reconciled),
        received,
        Arc::default(),
        |_, ()| async { Ok(()) },
        pending(),
    ));
    assert_eq!(keys.recv().await.as_deref(), Some("a0"));
    assert_eq!(keys.recv().await.as_deref(), Some("b"));
    for _ in 1..1_000 {
        assert!(keys.recv().await.is_some());
    }
}

#[tokio::test]
async fn shutdown_does_not_wait_for_all_ready_keys() {
    let (changes, received) = mpsc::channel(1_000);
    for number in 0..1_000 {
        changes.send(format!("a{number}")).await.unwrap();
    }
    let (reconciled, mut keys) = mpsc::unbounded_channel();
    run(
        Shared(reconciled),
        received,
        Arc::default(),
        |_, ()| async { Ok(()) },
        async {
            keys.recv().await;
        },
    )
    .await;
    assert!(keys.len() < 999, "{} keys were reconciled", keys.len());
}

/// Runs a job for each key. The tenant is the first letter.
struct Jobs;

impl Reconciler for Jobs {
    type Change = String;
    type Key = String;
    type Job = ();
    type Output = ();
    const CONCURRENT_JOBS_MAX: usize = 3;
    const TENANT_JOBS_MAX: usize = 2;

    fn tenant(key: &String) -> &str {
        &key[..1]
    }

    fn apply_change(&mut self, key: String, queue: &mut Queue<String>, now: Instant) {
        queue.add(key, now);
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn reconcile(&mut self, _: &String, _: Instant) -> Action<()> {
        Action::Run(())
    }

    fn on_success(&mut self, _: &String, (): (), _: &mut Queue<String>, _: Instant) {}
}

#[tokio::test]
async fn slow_jobs_of_one_tenant_leave_jobs_to_others() {
    let (changes, received) = mpsc::channel(4);
    for key in ["a1", "a2", "a3", "a4"] {
        changes.send(key.to_owned()).await.unwrap();
    }
    let (started, mut keys) = mpsc::unbounded_channel();
    let (finish, finished) = watch::channel(false);
    let run_job = move |key: String, ()| {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            started.send(key).unwrap();
            finished.wait_for(|is_finished| *is_finished).await.unwrap();
            Ok(())
        }
    };
    tokio::spawn(run(Jobs, received, Arc::default(), run_job, pending()));
    let mut first = [keys.recv().await.unwrap(), keys.recv().await.unwrap()];
    first.sort();
    assert_eq!(first, ["a1", "a2"]);
    changes.send("b1".to_owned()).await.unwrap();
    assert_eq!(keys.recv().await.as_deref(), Some("b1"));
    finish.send(true).unwrap();
    let mut rest = [keys.recv().await.unwrap(), keys.recv().await.unwrap()];
    rest.sort();
    assert_eq!(rest, ["a3", "a4"]);
}

/// Runs jobs for all keys again and again. The tenant is the first letter.
struct Restless;

impl Reconciler for Restless {
    type Change = String;
    type Key = String;
    type Job = ();
    type Output = ();
    const CONCURRENT_JOBS_MAX: usize = 2;

    fn tenant(key: &String) -> &str {
        &key[..1]
    }

    fn apply_change(&mut self, key: String, queue: &mut Queue<String>, now: Instant) {
        queue.add(key, now);
    }

    fn is_synced(&self) -> bool {
        true
    }

    fn reconcile(&mut self, _: &String, _: Instant) -> Action<()> {
        Action::Run(())
    }

    fn on_success(&mut self, key: &String, (): (), queue: &mut Queue<String>, now: Instant) {
        queue.add(key.clone(), now);
    }
}

/// Returns the keys of the jobs of a minute. Each job takes 100 ms and rewrites an object of this size.
async fn jobs_of_a_minute(keys: &[&str], object_bytes: fn(&str) -> usize) -> Vec<String> {
    let (changes, received) = mpsc::channel(keys.len());
    for key in keys {
        changes.send((*key).to_owned()).await.unwrap();
    }
    let (ended, mut jobs) = mpsc::unbounded_channel();
    let run_job = move |key: String, ()| {
        let ended = ended.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            rewrites::count(object_bytes(&key));
            ended.send(key).unwrap();
            Ok(())
        }
    };
    let minute = tokio::time::sleep(Duration::from_secs(60));
    run(Restless, received, Arc::default(), run_job, minute).await;
    std::iter::from_fn(|| jobs.try_recv().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn large_object_is_rewritten_less_often_than_a_small_one() {
    let jobs = jobs_of_a_minute(&["a", "b"], |key| if key == "a" { 1 << 20 } else { 10_000 }).await;
    let large = jobs.iter().filter(|key| *key == "a").count();
    // Two megabytes without pauses. Each further job of a megabyte is followed by a pause of four seconds.
    assert!((16..=18).contains(&large), "{large}");
    assert!(jobs.len() - large > 500, "{}", jobs.len());
}

#[tokio::test(start_paused = true)]
async fn many_large_objects_of_a_tenant_are_rewritten_at_the_rate_of_one() {
    let keys = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "b"];
    let jobs = jobs_of_a_minute(&keys, |key| if key == "b" { 10_000 } else { 1 << 20 }).await;
    let large = jobs.iter().filter(|key| *key != "b").count();
    // A burst of 4 MiB, 15 MiB in the minute, and the jobs that began together.
    assert!((18..=21).contains(&large), "{large}");
    assert!(
        keys.iter().all(|key| jobs.iter().any(|job| job == key)),
        "{jobs:?}"
    );
    assert!(jobs.len() - large > 500, "{}", jobs.len());
}

#[test]
fn refusals_of_a_terminating_namespace_are_expected() {
    let refusal = |reason: &str| ClientError::Status {
        method: http::Method::POST,
        path: "/api/v1/namespaces/shop/pods".to_owned(),
        status: Status {
            code: 403,
            reason: "Forbidden".to_owned(),
            details: StatusDetails {
                causes: [StatusCause {
                    reason: reason.to_owned(),
                }]
                .into(),
            },
            ..Status::default()
        },
    };
    assert!(is_expected(&refusal("NamespaceTerminating")));
    assert!(!is_expected(&refusal("FieldValueForbidden")));
}
