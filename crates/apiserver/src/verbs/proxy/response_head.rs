//! A timeout for the response head of a Pod. Without the timeout, a Pod that does not respond would hold one of its
//! client's long-running requests without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::timeout;

use super::unreachable;
use crate::failure::Failure;
use crate::transport::forwarded_body::{ForwardedBody, Observer};

/// Timeout between the last piece of the request body and the response head, as upstream's `--request-timeout`.
pub(super) const RESPONSE_HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of a forwarded request, whose pieces are counted.
pub(super) type RequestBody = ForwardedBody<Incoming, Arc<AtomicU64>>;

impl Observer for Arc<AtomicU64> {
    fn observe_frame(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends a request and returns the response once its head has arrived.
///
/// # Errors
/// Fails with 503 if the Pod is unreachable, and with 504 at the timeout.
pub(super) async fn send(
    client: &Client<HttpsConnector<HttpConnector>, RequestBody>,
    request: Request<Incoming>,
) -> Result<Response<Incoming>, Failure> {
    let pieces = Arc::<AtomicU64>::default();
    let request = request.map(|body| RequestBody::new(body, pieces.clone()));
    let mut response = client.request(request);
    loop {
        let before = pieces.load(Ordering::Relaxed);
        match timeout(RESPONSE_HEAD_TIMEOUT, &mut response).await {
            Ok(result) => return result.map_err(unreachable),
            Err(_) if pieces.load(Ordering::Relaxed) == before => return Err(response_timeout()),
            // The Pod still reads the request body.
            Err(_) => {}
        }
    }
}

/// Returns the failure of a request whose response did not begin in time.
pub(super) fn response_timeout() -> Failure {
    let message = format!("error trying to reach service: no response within {RESPONSE_HEAD_TIMEOUT:?}");
    Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
}
