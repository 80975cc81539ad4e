//! A timeout for the response head of a Pod. Without it, a Pod that never responds would hold one of its client's
//! long-running requests forever.

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
pub(super) const ANSWER_HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of a forwarded request, whose pieces are counted.
pub(super) type Sent = ForwardedBody<Incoming, Arc<AtomicU64>>;

impl Observer for Arc<AtomicU64> {
    fn observe_frame(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends a request and returns the response once its head has arrived.
///
/// # Errors
/// Fails with 503 if the Pod is unreachable, and with 504 at the timeout.
pub(super) async fn answer_of(
    client: &Client<HttpsConnector<HttpConnector>, Sent>,
    request: Request<Incoming>,
) -> Result<Response<Incoming>, Failure> {
    let pieces = Arc::<AtomicU64>::default();
    let request = request.map(|body| Sent::new(body, pieces.clone()));
    let mut answering = client.request(request);
    loop {
        let before = pieces.load(Ordering::Relaxed);
        match timeout(ANSWER_HEAD_TIMEOUT, &mut answering).await {
            Ok(answered) => return answered.map_err(unreachable),
            Err(_) if pieces.load(Ordering::Relaxed) == before => return Err(no_answer()),
            // The Pod still reads the request body.
            Err(_) => {}
        }
    }
}

pub(super) fn no_answer() -> Failure {
    let message = format!("error trying to reach service: no response within {ANSWER_HEAD_TIMEOUT:?}");
    Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
}
