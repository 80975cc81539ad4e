use std::sync::Arc;

use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

const FIRST_PAGE: &str = r#"{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"continue": "a+b"},
    "items": [{"metadata": {"name": "a"}}]}"#;
const SECOND_PAGE: &str =
    r#"{"kind": "ServiceList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "b"}}]}"#;
const EMPTY: &str = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}"#;

/// Server with two pages of Services and no Pods. Nodes are forbidden with 403, other kinds are not served.
/// `service_code` is the code of the first page.
fn server(service_code: u16) -> Client {
    let exchange: Exchange = Arc::new(move |request: Request<Bytes>| {
        let (path, query) = (
            request.uri().path().to_owned(),
            request.uri().query().unwrap_or_default().to_owned(),
        );
        async move {
            let (code, text) = match path.as_str() {
                "/api/v1/services" if query == "limit=1000&continue=a%2Bb" => (200, SECOND_PAGE),
                "/api/v1/services" if query == "limit=1000" => (service_code, FIRST_PAGE),
                "/api/v1/pods" => (200, EMPTY),
                "/api/v1/nodes" => (403, "{}"),
                _ => (404, "{}"),
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

#[tokio::test]
async fn kinds_that_cannot_be_read_are_absent() {
    let source = Source::from_api(&server(200)).await.expect("objects");
    assert_eq!(source.builder.len(), 2, "both pages are read");
    assert!(source.builder.has(Kind::Pod), "an empty list is complete");
    assert!(!source.builder.has(Kind::Node) && !source.builder.has(Kind::EndpointSlice));
    assert_eq!(source.forbidden, ["Node"]);
    assert!(
        source.not_served.contains(&"EndpointSlice"),
        "{:?}",
        source.not_served
    );
    assert_eq!(source.problems(None), ["the user must not read Node"]);
}

#[tokio::test]
async fn services_are_required() {
    assert!(Source::from_api(&server(403)).await.is_err());
    assert!(Source::from_api(&server(500)).await.is_err());
}

#[test]
fn last_of_equal_keys_counts_as_with_kubectl() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text =
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {app: a, app: b}}\nmetadata: {name: b}\n";
    std::fs::write(file.path(), text).expect("a writable file");
    let source = Source::from_files(&[file.path().to_owned()]).expect("objects");
    assert!(source.builder.contains(Kind::Service, "default", "b"));
}

#[test]
fn files_without_objects_are_rejected() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let paths = [file.path().to_owned()];
    for text in [
        "",
        "{}",
        "kind: Unknown\nmetadata: {name: a}\n",
        "{\"kind\": ",
        "a: b: c",
    ] {
        std::fs::write(file.path(), text).expect("a writable file");
        assert!(Source::from_files(&paths).is_err(), "{text:?}");
    }
    assert!(Source::from_files(&[PathBuf::from("/does/not/exist")]).is_err());
}

#[test]
fn empty_list_is_an_input_without_objects() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let paths = [file.path().to_owned()];
    let list = "apiVersion: v1\nitems: []\nkind: List\nmetadata: {resourceVersion: \"\"}\n";
    for text in [list, EMPTY] {
        std::fs::write(file.path(), text).expect("a writable file");
        let source = Source::from_files(&paths).expect("an input");
        assert!(source.builder.is_empty(), "{text:?}");
        assert_eq!(source.problems(None), ["the input has no Services"], "{text:?}");
    }
}
