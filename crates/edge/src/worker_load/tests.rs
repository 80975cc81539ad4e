use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::task::{JoinHandle, yield_now};

use super::{LONG_LIVED_POLLS, WorkerLoad};

/// Returns a connection that ends after `polls` polls.
fn task(load: &Arc<WorkerLoad>, polls: u32) -> JoinHandle<()> {
    tokio::spawn(load.clone().track(async move {
        for _ in 1..polls {
            yield_now().await;
        }
    }))
}

#[tokio::test]
async fn long_lived_connection_counts_until_it_ends() {
    let load = Arc::new(WorkerLoad::default());
    task(&load, LONG_LIVED_POLLS - 1).await.expect("an end");
    assert_eq!(load.count(), 0);
    let lasting = task(&load, 3 * LONG_LIVED_POLLS);
    let mut most = 0;
    while !lasting.is_finished() {
        most = most.max(load.count());
        yield_now().await;
    }
    assert_eq!((most, load.count()), (1, 0));
}

#[tokio::test]
async fn aborted_connection_does_not_count() {
    let load = Arc::new(WorkerLoad::default());
    let lasting = task(&load, u32::MAX);
    while load.count() == 0 {
        yield_now().await;
    }
    lasting.abort();
    assert!(lasting.await.expect_err("a cancelled task").is_cancelled());
    assert_eq!(load.count(), 0);
}

#[test]
fn load_exceeds_another_by_a_quarter() {
    let exceeds =
        |own, other| WorkerLoad(AtomicUsize::new(own)).exceeds(&WorkerLoad(AtomicUsize::new(other)));
    assert_eq!(
        [exceeds(0, 0), exceeds(1, 0), exceeds(1, 1)],
        [false, true, false]
    );
    assert_eq!([exceeds(100, 74), exceeds(100, 75)], [true, false]);
}
