use std::sync::Arc;

use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::*;

fn source() -> Source {
    let mut source = Source::empty();
    source
        .builder
        .add(json!({"kind": "List", "apiVersion": "v1", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-c"}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
         "ports": [{"port": 80}],
         "endpoints": [{"addresses": ["10.244.2.1"], "nodeName": "node-b"},
                       {"addresses": ["10.244.2.2"], "nodeName": "node-b"},
                       {"addresses": ["10.244.9.1"]}]}]}));
    source
}

fn nodes(selection: &str, service: Option<&ObjectKey>, examined_client: Option<&str>) -> Vec<String> {
    let selection: NodeSelection = selection.parse().expect("a selection");
    selection.of(
        &source(),
        service,
        &ExaminedClient::on(examined_client.map(str::to_owned)),
    )
}

#[test]
fn nodes_of_a_service_match_its_client_and_endpoints() {
    let web = ObjectKey::new("shop", "web");
    assert_eq!(nodes("auto", Some(&web), None), ["node-b"]);
    assert_eq!(nodes("auto", Some(&web), Some("node-c")), ["node-c", "node-b"]);
    assert_eq!(nodes("auto", None, Some("node-c")), [""; 0]);
    assert_eq!(nodes("none", Some(&web), Some("node-c")), [""; 0]);
    assert_eq!(nodes("all", None, None), ["node-a", "node-b", "node-c"]);
    assert_eq!(
        nodes("node-x,node-a,node-x", Some(&web), None),
        ["node-x", "node-a"]
    );
}

#[test]
fn rejects_names_without_characters() {
    assert!("".parse::<NodeSelection>().is_err());
    assert!("node-a,".parse::<NodeSelection>().is_err());
}

fn reports(node: &str, observation: Value) -> Reports<NodeObservation> {
    Reports {
        found: vec![(
            node.to_owned(),
            serde_json::from_value(observation).expect("an observation"),
        )],
        is_forbidden: false,
        problems: Vec::new(),
    }
}

#[test]
fn node_cannot_send_the_observation_of_another_one() {
    let mut source = source();
    let mut problems = Vec::new();
    let before = source.builder.len();
    let lie = reports("node-a", json!({"metadata": {"name": "node-b"}}));
    add_reports(&mut source, lie, &mut problems).expect("an examination");
    assert_eq!(source.builder.len(), before);
    assert_eq!(
        problems,
        ["node node-a is not observed: its agent sent the observation of another node"]
    );
    // The kind is not the node's choice either.
    let other_kind = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "node-a"}});
    add_reports(&mut source, reports("node-a", other_kind), &mut problems).expect("an examination");
    assert!(source.builder.contains(Kind::NodeObservation, "", "node-a"));
    assert!(!source.builder.has(Kind::Service));
}

#[test]
fn forbidden_observations_are_named_once() {
    let mut source = source();
    let forbidden = || Reports {
        found: Vec::new(),
        is_forbidden: true,
        problems: vec![("node-b".to_owned(), "no response".to_owned())],
    };
    let mut problems = Vec::new();
    for _ in 0..2 {
        add_reports(&mut source, forbidden(), &mut problems).expect("an examination");
    }
    assert_eq!(source.forbidden, ["NodeObservation"]);
    assert_eq!(problems[0], "node node-b is not observed: no response");
}

/// Server that responds to these paths, and never to others.
fn server(responses: &'static [(&'static str, &'static str)]) -> Client {
    let exchange: Exchange = Arc::new(move |request: Request<Bytes>| {
        let path = request.uri().path().to_owned();
        async move {
            let text = match responses.iter().find(|(own, _)| *own == path) {
                Some((_, text)) => *text,
                None => std::future::pending::<&str>().await,
            };
            let body = Full::new(Bytes::from(text)).map_err(TransportError::from);
            let response: Result<Response<Body>, _> = Response::builder().body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    Client::in_process(exchange)
}

fn flags(timeout: Duration) -> ObservationFlags {
    ObservationFlags {
        nodes: "node-a,node-b".parse().expect("a selection"),
        probe: Some(true),
        probe_outside: false,
        timeout,
    }
}

#[tokio::test]
async fn stalled_node_is_named_and_others_are_observed() {
    let client = server(&[
        ("/api/v1", r#"{"resources": [{"name": "nodes/observation"}]}"#),
        (
            "/api/v1/nodes/node-a/observation",
            r#"{"metadata": {"name": "node-a"}}"#,
        ),
    ]);
    let mut source = source();
    let examined_client = ExaminedClient::default();
    let flags = flags(Duration::from_millis(200));
    let added = flags.add(&client, &mut source, None, &examined_client).await;
    let problems = added.expect("an examination");
    assert!(source.builder.contains(Kind::NodeObservation, "", "node-a"));
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert!(
        problem.starts_with("node node-b is not observed: no response within "),
        "{problem}"
    );
}

#[tokio::test]
async fn server_without_response_is_named() {
    let examined_client = ExaminedClient::default();
    let added = flags(Duration::from_millis(100))
        .add(&server(&[]), &mut source(), None, &examined_client)
        .await;
    assert_eq!(
        added.expect("an examination"),
        ["no node is observed: the server listed no resources within 0.1 s"]
    );
}
