use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn panicking_controller_runs_again_until_the_shutdown() {
    let (running, receiver) = watch::channel(());
    let runs = Arc::new(AtomicUsize::new(0));
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let counted = Arc::clone(&runs);
    let start = move |shutdown: Shutdown| {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        let started = started.clone();
        async move {
            started.send(run).unwrap();
            assert!(run > 1, "planted panic of a controller");
            shutdown.await;
        }
    };
    let supervised = tokio::spawn(supervise("test", receiver, start));
    for run in 0..3 {
        assert_eq!(starts.recv().await, Some(run));
    }
    drop(running);
    supervised.await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn controller_that_ends_without_a_panic_does_not_run_again() {
    let (_running, receiver) = watch::channel(());
    supervise("test", receiver, |_| async {}).await;
}
