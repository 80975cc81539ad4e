use hyper::rt::Executor as _;
use tokio::sync::oneshot;

use super::*;

#[tokio::test]
async fn streams_run_beside_each_other_and_one_that_panics_ends_alone() {
    let mut streams = Streams::default();
    let executor = streams.executor();
    let (question, asked) = oneshot::channel();
    let (answer, answered) = oneshot::channel();
    executor.execute(async move {
        let number: u32 = asked.await.unwrap();
        answer.send(number + 1).unwrap();
    });
    executor.execute(async { panic!("on purpose") });
    executor.execute(async move { question.send(1).unwrap() });
    assert!(streams.have_begun());
    let running = std::future::poll_fn(|context| {
        streams.poll(context);
        match streams.running.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    });
    running.await;
    assert_eq!(answered.await, Ok(2));
    assert!(!streams.have_begun());
}

#[tokio::test]
async fn a_stream_that_lasts_gets_a_task_of_its_own_and_ends_with_its_connection() {
    let mut streams = Streams::default();
    let (held, mut dropped) = oneshot::channel::<()>();
    let (wake, woken) = oneshot::channel::<()>();
    streams.executor().execute(async move {
        let _held = held;
        woken.await.unwrap();
        std::future::pending().await
    });
    let mut look = async || {
        std::future::poll_fn(|context| {
            streams.poll(context);
            Poll::Ready(())
        })
        .await;
    };
    look().await;
    std::thread::sleep(OWN_TASK_AGE * 2);
    wake.send(()).unwrap();
    look().await;
    tokio::task::yield_now().await;
    assert!(streams.running.is_empty() && streams.have_own_tasks());
    assert!(
        dropped
            .try_recv()
            .is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
    );
    drop(streams);
    assert!(dropped.await.is_err());
}

#[tokio::test]
async fn a_stream_that_never_ran_ends_with_its_connection() {
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
