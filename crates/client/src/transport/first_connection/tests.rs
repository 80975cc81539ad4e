use std::cell::Cell;

use futures_util::future::join;

use super::*;

/// Runs a request that takes a time, and records the number of requests at its start.
async fn request(first: &FirstConnection, running: &Cell<u32>, duration: Duration) -> u32 {
    let exchange = async {
        running.set(running.get() + 1);
        let number = running.get();
        tokio::time::sleep(duration).await;
        running.set(running.get() - 1);
        Ok::<_, ()>(number)
    };
    first.wait_for_and_run(exchange).await.expect("a response")
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_response_of_the_first_one() {
    let (first, running) = (FirstConnection::default(), Cell::new(0));
    let short = Duration::from_millis(10);
    let numbers = join(request(&first, &running, short), request(&first, &running, short)).await;
    assert_eq!(numbers, (1, 1), "the second request begins after the first one");
    let numbers = join(request(&first, &running, short), request(&first, &running, short)).await;
    assert_eq!(numbers, (1, 2), "an open connection delays no request");
}

#[tokio::test(start_paused = true)]
async fn late_response_delays_others_for_a_bounded_time() {
    let (first, running) = (FirstConnection::default(), Cell::new(0));
    let started = tokio::time::Instant::now();
    let late = request(&first, &running, WAIT_MAX * 100);
    let other = async {
        request(&first, &running, Duration::ZERO).await;
        started.elapsed()
    };
    let (_, elapsed) = join(late, other).await;
    assert!(elapsed <= WAIT_MAX, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn failure_makes_the_next_requests_wait_again() {
    let (first, running) = (FirstConnection::default(), Cell::new(0));
    let short = Duration::from_millis(10);
    request(&first, &running, short).await;
    let failed: Result<(), ()> = first.wait_for_and_run(async { Err(()) }).await;
    assert_eq!(failed, Err(()));
    let numbers = join(request(&first, &running, short), request(&first, &running, short)).await;
    assert_eq!(numbers, (1, 1));
}
