//! List-watch against a scripted server on loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use api::object::{ObjectKey, Service};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::{Event, Query, Watch, push_escaped, watch};
use crate::{Client, ClientError, Config};

/// Answers in the order of `script`, each with a status and a body; records the paths of the requests.
async fn scripted(script: Vec<(u16, String)>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let requests = Arc::new(Mutex::new(Vec::new()));
    let script = Arc::new(Mutex::new(script.into_iter()));
    let paths = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (paths, script) = (Arc::clone(&paths), Arc::clone(&script));
            let answer = service_fn(move |request: Request<Incoming>| {
                let (paths, script) = (Arc::clone(&paths), Arc::clone(&script));
                async move {
                    paths.lock().expect("lock").push(request.uri().to_string());
                    let next = script.lock().expect("lock").next();
                    let Some((code, body)) = next else {
                        std::future::pending::<()>().await;
                        unreachable!("pending never ends");
                    };
                    let answer = Response::builder()
                        .status(code)
                        .body(Full::new(Bytes::from(body)));
                    Ok::<_, Infallible>(answer.expect("a valid answer"))
                }
            });
            tokio::spawn(async move {
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await
            });
        }
    });
    (address, requests)
}

fn client_of(address: SocketAddr) -> Client {
    Client::new(Config {
        server: format!("http://{address}"),
        ..Config::default()
    })
    .expect("a client")
}

fn service(name: &str, revision: u32) -> String {
    format!(
        r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{revision}"}},"spec":{{}}}}"#
    )
}

fn list(items: &[String], revision: u32, next: &str) -> (u16, String) {
    let items = items.join(",");
    (
        200,
        format!(r#"{{"metadata":{{"resourceVersion":"{revision}","continue":"{next}"}},"items":[{items}]}}"#),
    )
}

/// Events of a consumer in short form: `+name`, `-name`, `=` for synced, `!name` for malformed.
async fn seen(client: &Client, count: usize) -> Vec<String> {
    seen_by(&mut watch::<Service>(client, Query::default()), count).await
}

async fn seen_by(watch: &mut Watch<Service>, count: usize) -> Vec<String> {
    let mut out = Vec::new();
    while out.len() < count {
        out.push(match watch.next().await {
            Event::Applied(object) => format!("+{}", object.metadata.name),
            Event::Deleted(ObjectKey { name, .. }) => format!("-{name}"),
            Event::Synced => "=".to_owned(),
            Event::Malformed { key, .. } => format!("!{}", key.name),
        });
    }
    out
}

#[tokio::test]
async fn pages_then_watch_then_resume_from_the_last_revision() {
    let events = format!(
        "{{\"type\":\"MODIFIED\",\"object\":{}}}\n{{\"type\":\"DELETED\",\"object\":{}}}\n{{\"type\":\"BOOKMARK\",\"object\":{}}}\n",
        service("a", 11),
        service("b", 12),
        service("", 20),
    );
    let script = vec![
        list(&[service("a", 1)], 10, "t/1"),
        list(&[service("b", 2)], 10, ""),
        (200, events),
    ];
    let (address, requests) = scripted(script).await;
    assert_eq!(seen(&client_of(address), 5).await, ["+a", "+b", "=", "+a", "-b"]);
    let mut resumed = watch::<Service>(&client_of(address), Query::default());
    drop(tokio::time::timeout(std::time::Duration::from_millis(50), resumed.next()).await);
    let requests = requests.lock().expect("lock");
    assert!(requests[1].contains("continue=t%2F1"), "{requests:?}");
    assert!(
        requests[2].contains("watch=true") && requests[2].contains("resourceVersion=10"),
        "{requests:?}"
    );
}

/// As with several hundred objects of the maximum size, whose page is larger than a response may be.
#[tokio::test]
async fn page_that_is_too_large_is_read_in_smaller_ones() {
    let script = vec![
        list(&[service("a", 1)], 10, "t"),
        list(&[service("b", 2)], 10, ""),
    ];
    let (address, requests) = scripted(script).await;
    let mut watch = watch::<Service>(&client_of(address), Query::default());
    assert_eq!(seen_by(&mut watch, 1).await, ["+a"]);
    let error = ClientError::TooLarge {
        path: String::new(),
        limit_bytes: 1,
    };
    watch.recover(&error).await;
    assert_eq!(seen_by(&mut watch, 2).await, ["+b", "="]);
    let requests = requests.lock().expect("lock");
    assert!(requests[0].contains("limit=500"), "{requests:?}");
    assert!(
        requests[1].contains("limit=125") && requests[1].contains("continue=t"),
        "{requests:?}"
    );
}

#[tokio::test]
async fn compacted_revision_relists_and_reports_deletions() {
    let script = vec![
        list(&[service("a", 1), service("b", 2)], 10, ""),
        (
            410,
            r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#.to_owned(),
        ),
        list(&[service("b", 2)], 30, ""),
    ];
    let (address, _) = scripted(script).await;
    assert_eq!(
        seen(&client_of(address), 6).await,
        ["+a", "+b", "=", "+b", "-a", "="]
    );
}

/// As after a server was restored from an older copy: its revisions begin again below the one that was watched from.
#[tokio::test]
async fn restored_history_relists() {
    let too_large = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 10, current: 4"}"#;
    let script = vec![
        list(&[service("a", 1), service("b", 2)], 10, ""),
        (504, too_large.to_owned()),
        list(&[service("b", 2)], 4, ""),
    ];
    let (address, _) = scripted(script).await;
    assert_eq!(
        seen(&client_of(address), 6).await,
        ["+a", "+b", "=", "+b", "-a", "="]
    );
}

#[tokio::test]
async fn objects_of_interrupted_list_are_remembered() {
    let script = vec![
        list(&[service("a", 1)], 10, "t"),
        (500, "oops".to_owned()),
        list(&[service("b", 2)], 30, ""),
    ];
    let (address, _) = scripted(script).await;
    assert_eq!(seen(&client_of(address), 4).await, ["+a", "+b", "-a", "="]);
}

#[tokio::test]
async fn error_event_410_lists_again() {
    let gone =
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
    let script = vec![
        list(&[service("a", 1)], 10, ""),
        (200, format!("{gone}\n")),
        list(&[], 30, ""),
    ];
    let (address, _) = scripted(script).await;
    assert_eq!(seen(&client_of(address), 4).await, ["+a", "=", "-a", "="]);
}

#[tokio::test]
async fn malformed_object_does_not_affect_its_list() {
    let invalid = r#"{"metadata":{"name":"bad","namespace":"n"},"spec":{"ports":"none"}}"#.to_owned();
    let (address, _) = scripted(vec![list(&[service("a", 1), invalid, service("c", 3)], 10, "")]).await;
    assert_eq!(seen(&client_of(address), 4).await, ["+a", "!bad", "+c", "="]);
}

#[tokio::test]
async fn failed_lists_are_retried() {
    let script = vec![(500, "oops".to_owned()), list(&[service("a", 1)], 10, "")];
    let (address, _) = scripted(script).await;
    assert_eq!(seen(&client_of(address), 2).await, ["+a", "="]);
}

fn status(code: u16, message: &str) -> (u16, String) {
    (
        code,
        format!(r#"{{"kind":"Status","code":{code},"message":"{message}"}}"#),
    )
}

fn without_headless(client: &Client) -> Watch<Service> {
    let query = Query {
        label_selector: "!headless".to_owned(),
        field_selector: "spec.clusterIP!=None".to_owned(),
        ..Query::default()
    };
    watch::<Service>(client, query)
}

#[tokio::test]
async fn rejected_optional_field_selector_is_left_out_until_next_list() {
    let script = vec![
        status(400, "unknown field"),
        list(&[service("a", 1), service("headless", 2)], 10, ""),
        status(410, "too old"),
        list(&[service("a", 1)], 30, ""),
        status(400, "unknown field"),
        list(&[service("a", 1), service("headless", 2)], 40, ""),
    ];
    let (address, requests) = scripted(script).await;
    let mut watch = without_headless(&client_of(address)).with_optional_field_selector();
    assert_eq!(
        seen_by(&mut watch, 9).await,
        [
            "+a",
            "+headless",
            "=",
            "+a",
            "-headless",
            "=",
            "+a",
            "+headless",
            "="
        ]
    );
    let requests = requests.lock().expect("lock");
    let is_selected: Vec<bool> = requests
        .iter()
        .map(|path| path.contains("fieldSelector="))
        .collect();
    // List, list, watch; the upgraded server: list; a watch on a server before its upgrade, list.
    assert_eq!(is_selected, [true, false, false, true, true, false]);
    assert!(
        requests
            .iter()
            .all(|path| path.contains("labelSelector=%21headless"))
    );
}

#[tokio::test]
async fn rejected_required_field_selector_is_retried() {
    let script = vec![status(400, "unknown field"), list(&[service("a", 1)], 10, "")];
    let (address, requests) = scripted(script).await;
    assert_eq!(
        seen_by(&mut without_headless(&client_of(address)), 2).await,
        ["+a", "="]
    );
    let requests = requests.lock().expect("lock");
    assert!(
        requests[..2].iter().all(|path| path.contains("fieldSelector=")),
        "{requests:?}"
    );
}

#[tokio::test]
async fn refused_requests_report_no_deletion() {
    let script = vec![
        list(&[service("a", 1), service("b", 2)], 10, ""),
        status(403, "watch forbidden"),
        status(410, "too old"),
        status(403, "list forbidden"),
        status(403, "list forbidden"),
        list(&[service("b", 2)], 30, ""),
    ];
    let (address, _) = scripted(script).await;
    assert_eq!(
        seen(&client_of(address), 6).await,
        ["+a", "+b", "=", "+b", "-a", "="]
    );
}

#[test]
fn repeated_lists_back_off() {
    let pauses = [0, 1, 2, 5, 100].map(|lists| super::pause_before_list(lists).as_millis());
    assert_eq!(pauses, [0, 50, 100, 800, 5_000]);
}

#[tokio::test]
async fn repeatedly_compacted_revisions_end_in_a_watch() {
    let gone = || {
        (
            410,
            r#"{"kind":"Status","code":410,"reason":"Expired"}"#.to_owned(),
        )
    };
    let listed = |revision| list(&[service("a", 1)], revision, "");
    let script = vec![listed(10), gone(), listed(20), gone(), listed(30)];
    let (address, _) = scripted(script).await;
    assert_eq!(
        seen(&client_of(address), 6).await,
        ["+a", "=", "+a", "=", "+a", "="]
    );
}

#[test]
fn selectors_are_escaped() {
    let mut path = String::new();
    push_escaped(&mut path, "!a/b,c in (d)");
    assert_eq!(path, "%21a%2Fb%2Cc%20in%20%28d%29");
}
