use std::task::Waker;

use super::*;

/// A wait for `100 Continue`, and the hold that ends it.
fn continue_wait() -> (ContinueWait, BodyRelease) {
    let (release, released) = oneshot::channel();
    let wait = ContinueWait {
        released: Some(released),
        timeout: Box::pin(sleep(CONTINUE_TIMEOUT)),
    };
    (wait, BodyRelease(release))
}

#[tokio::test(start_paused = true)]
async fn release_sends_the_body_at_once() {
    let mut context = Context::from_waker(Waker::noop());
    let (mut wait, body_release) = continue_wait();
    assert!(wait.poll(&mut context).is_pending());
    body_release.release();
    assert!(matches!(wait.poll(&mut context), Poll::Ready(Ok(()))));
}

#[tokio::test(start_paused = true)]
async fn timeout_sends_the_body_of_a_waiting_request() {
    let mut context = Context::from_waker(Waker::noop());
    let (mut wait, _hold) = continue_wait();
    assert!(wait.poll(&mut context).is_pending());
    tokio::time::advance(CONTINUE_TIMEOUT).await;
    assert!(matches!(wait.poll(&mut context), Poll::Ready(Ok(()))));
}

#[tokio::test(start_paused = true)]
async fn dropped_hold_fails_the_body_at_the_timeout() {
    let mut context = Context::from_waker(Waker::noop());
    let (mut wait, body_release) = continue_wait();
    drop(body_release);
    for _ in 0..2 {
        assert!(wait.poll(&mut context).is_pending());
    }
    tokio::time::advance(CONTINUE_TIMEOUT).await;
    assert!(matches!(
        wait.poll(&mut context),
        Poll::Ready(Err(WireError::Unwanted))
    ));
}
