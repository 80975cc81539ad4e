use std::sync::Arc;

use api::object::{Endpoints, Node, Pod};
use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

/// Returns a client whose server responds with an object of about this size.
fn client_of(object_bytes: usize) -> Client {
    let object = json!({"metadata": {"name": "e", "annotations": {"a": "x".repeat(object_bytes)}}});
    let text = object.to_string();
    let exchange: Exchange = Arc::new(move |_: Request<Bytes>| {
        let body = Full::new(Bytes::from(text.clone())).map_err(TransportError::from);
        async move {
            let response: Result<Response<Body>, _> = Response::builder().body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    Client::in_process(exchange)
}

#[tokio::test]
async fn objects_that_a_job_rewrites_count_and_new_ones_do_not() {
    let (client, endpoints) = (client_of(100_000), Endpoints::default());
    let (created, bytes) = rewrites::measured(create(&client, &endpoints)).await;
    created.expect("a response");
    assert_eq!(bytes, 0);
    let (replaced, bytes) = rewrites::measured(replace(&client, &endpoints)).await;
    replaced.expect("a response");
    assert!((100_000..110_000).contains(&bytes), "{bytes}");
    let (patched, bytes) = rewrites::measured(patch_status(&client, &endpoints, &json!({}))).await;
    patched.expect("a response");
    assert!((100_000..110_000).contains(&bytes), "{bytes}");
}

#[test]
fn paths_of_cluster_scoped_objects_have_no_namespace() {
    assert_eq!(path_of::<Node>(&ObjectKey::new("", "n1")), "/api/v1/nodes/n1");
    assert_eq!(
        path_of::<Pod>(&ObjectKey::new("a", "p")),
        "/api/v1/namespaces/a/pods/p"
    );
}
