use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::run;
use crate::queue::Queue;
use crate::reconciler::{Action, Reconciler};

/// Reports each key that it reconciles, and waits for the end of time with it.
struct BlockingReconciler(mpsc::UnboundedSender<&'static str>);

impl Reconciler for BlockingReconciler {
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
        BlockingReconciler(reconciled),
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
