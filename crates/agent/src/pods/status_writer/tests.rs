use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::*;

/// Returns a client whose server responds with a Pod of about this size, and the number of requests.
fn server(pod_bytes: usize) -> (Client, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&requests);
    let pod = json!({"metadata": {"resourceVersion": "7", "annotations": {"a": "x".repeat(pod_bytes)}}});
    let text = pod.to_string();
    let exchange: Exchange = Arc::new(move |_: Request<Bytes>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let body = Full::new(Bytes::from(text.clone())).map_err(TransportError::from);
        async move {
            let response: Result<Response<Body>, _> = Response::builder().body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    (Client::in_process(exchange), requests)
}

/// Sets a status each 100 ms for a minute, and a last one. Returns the numbers of writes before and after the last status.
async fn writes_of_a_minute(pod_bytes: usize) -> (usize, usize) {
    let (client, requests) = server(pod_bytes);
    let writer = StatusWriter::start(client, &ObjectKey::new("a", "p"), "u", Arc::default());
    for number in 0..600 {
        writer.set(json!({ "number": number }));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = requests.load(Ordering::Relaxed);
    writer.set(json!({"number": "last"}));
    writer.finish(Duration::from_secs(1)).await;
    (before, requests.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn statuses_of_a_large_pod_are_written_at_a_bounded_rate() {
    let (before, after) = writes_of_a_minute(1 << 20).await;
    // A burst of 8 MiB, 15 MiB in the minute, and the first status, before which the size is unknown.
    assert!((22..=26).contains(&before), "{before}");
    assert_eq!(after, before + 1, "the last status does not wait");
}

#[tokio::test(start_paused = true)]
async fn statuses_of_a_small_pod_are_written_at_once() {
    let (before, after) = writes_of_a_minute(1_000).await;
    assert_eq!((before, after), (600, 601));
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_failed_write_reserve_no_further_turn() {
    let (_latest, mut receiver) = watch::channel(LatestStatus::default());
    let mut turns = Turns {
        pace: Arc::default(),
        namespace: "a".to_owned(),
        pod_bytes: 9 << 20,
        is_reserved: false,
    };
    for _ in 0..3 {
        assert!(!turns.wait(&mut receiver).await, "one turn, within the burst");
    }
    turns.is_reserved = false;
    assert!(turns.wait(&mut receiver).await, "after a write");
}
