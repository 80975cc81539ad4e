//! The time until a Pod begins to answer. A Pod that never does would keep its client's part of what lasts for ever.

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

/// How long a Pod may take to begin its answer, counted from the last piece of the request that it took: upstream's
/// `--request-timeout`.
pub(super) const ANSWER_HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of a request on its way to a Pod, whose pieces are counted.
pub(super) type Sent = ForwardedBody<Incoming, Arc<AtomicU64>>;

impl Observer for Arc<AtomicU64> {
    fn observe_frame(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends a request, and returns the answer when its head has come.
///
/// # Errors
/// 503 if the Pod is not reached, 504 if it does not begin to answer in time.
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
            // It still takes the request.
            Err(_) => {}
        }
    }
}

pub(super) fn no_answer() -> Failure {
    let message = format!("error trying to reach service: no answer within {ANSWER_HEAD_TIMEOUT:?}");
    Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
}
