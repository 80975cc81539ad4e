use std::sync::Arc;

use bytes::Bytes;
use client::{Body, Client, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;

/// Server that responds to each request with the same code and object.
fn server(code: u16, object: &'static str) -> Client {
    let exchange: Exchange = Arc::new(move |_: Request<Bytes>| {
        async move {
            let body = Full::new(Bytes::from(object)).map_err(TransportError::from);
            let response: Result<Response<Body>, _> =
                Response::builder().status(code).body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    Client::in_process(exchange)
}

#[tokio::test]
async fn missing_service_is_an_error() {
    let missing = check_exists(&server(404, "{}"), "shop", "db").await;
    let error = missing.expect_err("no Service");
    assert_eq!(error.to_string(), "services \"db\" not found");
    let service = r#"{"metadata": {"name": "db", "namespace": "shop"}}"#;
    check_exists(&server(200, service), "shop", "db")
        .await
        .expect("a Service");
}
