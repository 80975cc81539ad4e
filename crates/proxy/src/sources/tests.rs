use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::mpsc::{Receiver, channel};

use super::*;

const LIST: &str = r#"{"metadata":{"resourceVersion":"7"},
    "items":[{"metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.96.0.0/16"]}}]}"#;

/// Server that answers requests for ServiceCIDRs with a status code, and for 200 with a list. Watches stay open.
fn server(code: u16) -> (Client, Arc<AtomicU16>) {
    let current = Arc::new(AtomicU16::new(code));
    let codes = Arc::clone(&current);
    let exchange: Exchange = Arc::new(move |request: Request<Bytes>| {
        let code = codes.load(Ordering::Relaxed);
        async move {
            let is_watch = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            if is_watch && code == 200 {
                std::future::pending::<()>().await;
            }
            let text = if code == 200 { LIST } else { r#"{"kind":"Status"}"# };
            let body = Full::new(Bytes::from(text)).map_err(TransportError::from);
            let response: Result<Response<Body>, _> =
                Response::builder().status(code).body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    (Client::in_process(exchange), current)
}

fn sources(client: Client) -> (JoinSet<()>, Receiver<Update>) {
    let (sender, receiver) = channel(16);
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_service_cidrs(client, sender.clone()));
    tasks.spawn(end_wait_for_service_cidrs(sender));
    (tasks, receiver)
}

/// The next update in short form.
async fn next(updates: &mut Receiver<Update>) -> &'static str {
    match updates.recv().await.expect("an update") {
        Update::ServiceCidr(Event::Applied(_)) => "applied",
        Update::ServiceCidr(Event::Synced) => "synced",
        Update::ServiceCidrsNotAwaited => "not awaited",
        other => panic!("{other:?}"),
    }
}

/// KPR-05: a server before 1.33 lacks the kind (404), and its role `system:node-proxier` lacks the right (403).
#[tokio::test(start_paused = true)]
async fn absent_service_cidrs_are_read_after_an_upgrade() {
    for code in [400, 403, 404] {
        let (client, current) = server(code);
        let (_tasks, mut updates) = sources(client);
        let started = tokio::time::Instant::now();
        assert_eq!(next(&mut updates).await, "not awaited");
        assert_eq!(started.elapsed(), Duration::ZERO, "{code} ends the wait at once");
        current.store(200, Ordering::Relaxed);
        let mut rest = Vec::new();
        while rest.last() != Some(&"synced") {
            rest.push(next(&mut updates).await);
        }
        assert!(rest.contains(&"applied"), "{rest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_server_does_not_delay_rules_for_ever() {
    let (client, current) = server(500);
    let (_tasks, mut updates) = sources(client);
    assert_eq!(next(&mut updates).await, "not awaited");
    current.store(200, Ordering::Relaxed);
    assert_eq!(next(&mut updates).await, "applied");
    assert_eq!(next(&mut updates).await, "synced");
}

/// Authorization of a later request may fail, for example while roles are replaced. The ranges stay.
#[tokio::test(start_paused = true)]
async fn later_refusal_deletes_no_service_cidr() {
    let (client, current) = server(200);
    let (sender, mut updates) = channel(16);
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_service_cidrs(client, sender));
    assert_eq!(next(&mut updates).await, "applied");
    current.store(403, Ordering::Relaxed);
    assert_eq!(next(&mut updates).await, "synced");
    let later = tokio::time::timeout(Duration::from_secs(3_600), updates.recv()).await;
    assert!(later.is_err(), "{later:?}");
}
