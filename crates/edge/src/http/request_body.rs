//! A request's body on its way to a backend, frame by frame. No frame is read before the backend takes it.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use super::exchange::Exchange;
use super::rejection::RequestRejection;
use super::wire_body::{NextFrame, WireBody, WireError};

/// Time within which a backend can request a body that the client holds back. Clients commonly wait a second (RFC 9110,
/// section 10.1.1).
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// A request's body on its way to a backend.
#[derive(Debug)]
pub(crate) struct RequestBody {
    inner: Option<WireBody>,
    exchange: Arc<Exchange>,
    continue_wait: Option<ContinueWait>,
}

/// Wait of a body for `100 Continue`.
#[derive(Debug)]
struct ContinueWait {
    /// `None` once [`BodyRelease`] is dropped without a release: a receiver must not be polled after its result.
    released: Option<oneshot::Receiver<()>>,
    timeout: Pin<Box<Sleep>>,
}

impl RequestBody {
    /// Creates the body that arrives from the client.
    pub(crate) fn new(inner: WireBody, exchange: Arc<Exchange>) -> Self {
        if inner.is_end_stream() {
            exchange.set_received();
        }
        Self {
            inner: Some(inner),
            exchange,
            continue_wait: None,
        }
    }

    /// Creates an empty body, for a request that is sent again.
    pub(crate) fn empty(exchange: Arc<Exchange>) -> Self {
        Self {
            inner: None,
            exchange,
            continue_wait: None,
        }
    }

    /// Holds the body back until [`BodyRelease::release`], or until the timeout.
    pub(crate) fn hold(&mut self) -> BodyRelease {
        let (release, released) = oneshot::channel();
        let timeout = Box::pin(sleep(CONTINUE_TIMEOUT));
        self.continue_wait = Some(ContinueWait {
            released: Some(released),
            timeout,
        });
        BodyRelease(release)
    }
}

/// Body that is held back.
#[derive(Debug)]
pub(crate) struct BodyRelease(oneshot::Sender<()>);

impl BodyRelease {
    /// Releases the held body, so that it is sent.
    pub(crate) fn release(self) {
        if self.0.send(()).is_err() {
            tracing::trace!("body already released, or its request has ended");
        }
    }
}

impl ContinueWait {
    /// Waits for the release or the timeout.
    ///
    /// A dropped hold means that the final response has arrived without `100 Continue`. The client then has not sent
    /// the body and need not send it. The body fails at the timeout, which closes both connections. Until then the
    /// response passes.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WireError>> {
        if let Some(released) = &mut self.released {
            match Pin::new(released).poll(cx) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(_)) => self.released = None,
                Poll::Pending => {}
            }
        }
        ready!(self.timeout.as_mut().poll(cx));
        Poll::Ready(self.released.is_some().then_some(()).ok_or(WireError::Unwanted))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = WireError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> NextFrame {
        let this = &mut *self;
        if let Some(continue_wait) = &mut this.continue_wait {
            if let Err(error) = ready!(continue_wait.poll(cx)) {
                // Released, so that the client's connection closes. A later poll reports the end.
                (this.continue_wait, this.inner) = (None, None);
                return Poll::Ready(Some(Err(error)));
            }
            this.continue_wait = None;
        }
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(&mut *inner).poll_frame(cx);
        match &polled {
            Poll::Pending => this.exchange.wait_for_client(),
            Poll::Ready(Some(Ok(frame))) => {
                this.exchange.received(frame.data_ref().map_or(0, Bytes::len));
                if inner.is_end_stream() {
                    this.exchange.set_received();
                }
            }
            Poll::Ready(Some(Err(error))) => {
                let ended_early =
                    RequestRejection::Malformed("expected a complete body, found its early end");
                this.exchange.reject(rejection(error).unwrap_or(ended_early));
            }
            Poll::Ready(None) => this.exchange.set_received(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(WireBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or(SizeHint::with_exact(0), WireBody::size_hint)
    }
}

/// Returns the rejection by the guard, if that is the cause of the error.
fn rejection(error: &WireError) -> Option<RequestRejection> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(rejection) = error.downcast_ref::<RequestRejection>() {
            return Some(*rejection);
        }
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        cause = inner
            .map(|inner| inner as &(dyn Error + 'static))
            .or_else(|| error.source());
    }
    None
}

#[cfg(test)]
mod tests;
