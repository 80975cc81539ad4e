//! Who counts, and who is spared.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::task::{JoinHandle, yield_now};

use super::{LASTING_TURNS, Load};

/// Work of so many turns.
fn work(load: &Arc<Load>, turns: u32) -> JoinHandle<()> {
    tokio::spawn(load.clone().counting(async move {
        for _ in 1..turns {
            yield_now().await;
        }
    }))
}

#[tokio::test]
async fn what_lasts_counts_until_it_ends() {
    let load = Arc::new(Load::default());
    work(&load, LASTING_TURNS - 1).await.expect("an end");
    assert_eq!(load.count(), 0);
    let lasting = work(&load, 3 * LASTING_TURNS);
    let mut most = 0;
    while !lasting.is_finished() {
        most = most.max(load.count());
        yield_now().await;
    }
    assert_eq!((most, load.count()), (1, 0));
}

#[tokio::test]
async fn what_is_cut_counts_no_longer() {
    let load = Arc::new(Load::default());
    let lasting = work(&load, u32::MAX);
    while load.count() == 0 {
        yield_now().await;
    }
    lasting.abort();
    assert!(lasting.await.expect_err("it was cut").is_cancelled());
    assert_eq!(load.count(), 0);
}

#[test]
fn a_thread_is_spared_if_it_has_a_quarter_more() {
    let is_more = |own, other| Load(AtomicUsize::new(own)).is_more_than(&Load(AtomicUsize::new(other)));
    assert_eq!(
        [is_more(0, 0), is_more(1, 0), is_more(1, 1)],
        [false, true, false]
    );
    assert_eq!([is_more(100, 74), is_more(100, 75)], [true, false]);
}
