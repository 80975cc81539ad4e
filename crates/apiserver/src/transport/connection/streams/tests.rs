use hyper::rt::Executor as _;
use tokio::sync::oneshot;

use super::*;

#[tokio::test]
async fn streams_run_concurrently_and_survive_a_panic_of_another() {
    let mut streams = Streams::default();
    let executor = streams.executor();
    let (request, requested) = oneshot::channel();
    let (response, responded) = oneshot::channel();
    executor.execute(async move {
        let number: u32 = requested.await.unwrap();
        response.send(number + 1).unwrap();
    });
    executor.execute(async { panic!("on purpose") });
    executor.execute(async move { request.send(1).unwrap() });
    assert!(streams.has_new());
    let running = std::future::poll_fn(|context| {
        streams.poll(context);
        if streams.running.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    running.await;
    assert_eq!(responded.await, Ok(2));
    assert!(!streams.has_new());
}

#[tokio::test]
async fn long_running_stream_has_its_own_task_and_ends_with_its_connection() {
    let mut streams = Streams::default();
    let (held, mut dropped) = oneshot::channel::<()>();
    let (wake, woken) = oneshot::channel::<()>();
    streams.executor().execute(async move {
        let _held = held;
        woken.await.unwrap();
        std::future::pending().await
    });
    let mut poll = async || {
        std::future::poll_fn(|context| {
            streams.poll(context);
            Poll::Ready(())
        })
        .await;
    };
    poll().await;
    std::thread::sleep(OWN_TASK_AGE * 2);
    wake.send(()).unwrap();
    poll().await;
    tokio::task::yield_now().await;
    assert!(streams.running.is_empty() && streams.has_own_tasks());
    assert!(
        dropped
            .try_recv()
            .is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
    );
    drop(streams);
    assert!(dropped.await.is_err());
}

#[tokio::test]
async fn unpolled_stream_ends_with_its_connection() {
    let streams = Streams::default();
    let executor = streams.executor();
    let (held, dropped) = oneshot::channel::<()>();
    let inner = executor.clone();
    executor.execute(async move {
        let _held = (held, inner);
        std::future::pending().await
    });
    drop(streams);
    assert!(dropped.await.is_err());
    let (held, dropped) = oneshot::channel::<()>();
    executor.execute(async move { drop(held) });
    assert!(dropped.await.is_err());
}
