//! The time until a Pod begins to answer. A Pod that never does would keep its client's part of what lasts for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::timeout;

use super::unreachable;
use crate::failure::Failure;

/// How long a Pod may take to begin its answer, counted from the last piece of the request that it took: upstream's
/// `--request-timeout`.
pub(super) const ANSWER_HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of a request on its way to a Pod, which counts its pieces.
pub(super) struct Sent {
    body: Incoming,
    pieces: Arc<AtomicU64>,
}

impl Body for Sent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let sent = self.get_mut();
        let polled = Pin::new(&mut sent.body).poll_frame(context);
        if polled.is_ready() {
            sent.pieces.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
    let request = request.map(|body| Sent {
        body,
        pieces: pieces.clone(),
    });
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
