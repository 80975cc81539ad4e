use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

/// Node whose agent never responds.
const STALLED: &str = "stalled";
/// Timeout that no test reaches.
const LONG: Duration = Duration::from_secs(60);

/// Server with the report of node-a. The report of node-b is forbidden, and node-c has none.
fn server() -> Client {
    let exchange: Exchange = Arc::new(|request: Request<Bytes>| {
        let path = request.uri().path().to_owned();
        async move {
            let (code, text) = match path.as_str() {
                "/api/v1" => (
                    200,
                    r#"{"resources": [{"name": "nodes"}, {"name": "nodes/flows"}]}"#,
                ),
                "/api/v1/nodes/node-a/flows" => (200, r#"{"a": 1}"#),
                "/api/v1/nodes/node-b/flows" => (403, "{}"),
                "/api/v1/nodes/node-c/flows" => (501, r#"{"message": "no agent"}"#),
                "/api/v1/nodes/stalled/flows" => std::future::pending::<(u16, &str)>().await,
                _ => (200, "not JSON"),
            };
            let body = Full::new(Bytes::from(text)).map_err(TransportError::from);
            let response: Result<Response<Body>, _> =
                Response::builder().status(code).body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    Client::in_process(exchange)
}

#[test]
fn paths_have_the_parameters() {
    let parameters = [("service", "shop/web".to_owned()), ("probe", "true".to_owned())];
    assert_eq!(
        path(ReportKind::Observation, "node-a", &parameters),
        "/api/v1/nodes/node-a/observation?service=shop%2Fweb&probe=true"
    );
    assert_eq!(
        path(ReportKind::Flows, "a/../b", &[]),
        "/api/v1/nodes/a%2F..%2Fb/flows"
    );
}

#[tokio::test]
async fn nodes_without_reports_have_reasons() {
    let nodes: Vec<String> = ["a", "b", "c", "d"].map(|name| format!("node-{name}")).to_vec();
    let reports = read::<Value>(&server(), ReportKind::Flows, &nodes, &[], LONG).await;
    assert_eq!(
        reports.found,
        [("node-a".to_owned(), serde_json::json!({"a": 1}))]
    );
    assert!(reports.is_forbidden);
    let [(third, reason), (fourth, _)] = reports.problems.as_slice() else {
        panic!("{:?}", reports.problems);
    };
    assert_eq!((third.as_str(), fourth.as_str()), ("node-c", "node-d"));
    assert_eq!(reason, "no agent");
}

#[tokio::test]
async fn reports_that_discovery_does_not_list_are_not_served() {
    let served = |kind| async move { is_served(&server(), kind).await.expect("a list of resources") };
    assert!(served(ReportKind::Flows).await);
    assert!(!served(ReportKind::Observation).await);
}

#[tokio::test]
async fn node_without_response_does_not_delay_the_others() {
    let nodes: Vec<String> = [STALLED, "node-a"].map(str::to_owned).to_vec();
    let limit = Duration::from_millis(100);
    let reports = read::<Value>(&server(), ReportKind::Flows, &nodes, &[], limit).await;
    assert_eq!(
        reports.found,
        [("node-a".to_owned(), serde_json::json!({"a": 1}))]
    );
    let expected = [(STALLED.to_owned(), "no response within 0.1 s".to_owned())];
    assert_eq!(reports.problems, expected);
}

#[tokio::test]
async fn request_is_repeated_while_the_server_is_busy() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let exchange: Exchange = Arc::new(move |_: Request<Bytes>| {
        let (code, text) = match counted.fetch_add(1, Ordering::SeqCst) {
            0 => (429, r#"{"code": 429, "message": "too many reports"}"#),
            _ => (200, r#"{"a": 1}"#),
        };
        async move {
            let body = Full::new(Bytes::from(text)).map_err(TransportError::from);
            let response: Result<Response<Body>, _> =
                Response::builder().status(code).body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    let client = Client::in_process(exchange);
    let nodes = ["node-a".to_owned()];
    let reports = read::<Value>(&client, ReportKind::Flows, &nodes, &[], LONG).await;
    assert_eq!((reports.found.len(), reports.problems.len()), (1, 0));
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
