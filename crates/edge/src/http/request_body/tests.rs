use std::task::Waker;

use super::*;

/// A wait for `100 Continue`, and the handle that ends it.
fn continue_wait() -> (ContinueWait, BodyHold) {
    let (release, released) = oneshot::channel();
    let wait = ContinueWait {
        released: Some(released),
        timeout: Box::pin(sleep(CONTINUE_TIMEOUT)),
    };
    (wait, BodyHold(release))
}

#[tokio::test(start_paused = true)]
async fn release_ends_the_wait_at_once() {
    let mut context = Context::from_waker(Waker::noop());
    let (mut wait, hold) = continue_wait();
    assert!(wait.poll(&mut context).is_pending());
    hold.release();
    assert!(wait.poll(&mut context).is_ready());
}

#[tokio::test(start_paused = true)]
async fn dropped_hold_leaves_the_wait_to_its_timeout() {
    let mut context = Context::from_waker(Waker::noop());
    let (mut wait, hold) = continue_wait();
    drop(hold);
    for _ in 0..2 {
        assert!(wait.poll(&mut context).is_pending());
    }
    tokio::time::advance(CONTINUE_TIMEOUT).await;
    assert!(wait.poll(&mut context).is_ready());
}
