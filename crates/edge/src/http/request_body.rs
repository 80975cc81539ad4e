//! A request's body on its way to a backend, a frame at a time: nothing is read that the backend does not take.

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
use super::refusal::Refusal;
use super::wire::{NextFrame, WireBody, WireError};

/// How long a backend may take to say that it wants a body that the client holds back until it is asked for it. Clients
/// commonly wait a second themselves (RFC 9110, 10.1.1).
const CONTINUE_PATIENCE: Duration = Duration::from_secs(1);

/// A request's body on its way to a backend.
#[derive(Debug)]
pub struct RequestBody {
    inner: Option<WireBody>,
    exchange: Arc<Exchange>,
    expected: Option<Expected>,
}

/// The body is held back until the backend wants it.
#[derive(Debug)]
struct Expected {
    wanted: oneshot::Receiver<()>,
    patience: Pin<Box<Sleep>>,
}

impl RequestBody {
    /// What comes from the client.
    pub fn new(inner: WireBody, exchange: Arc<Exchange>) -> Self {
        if inner.is_end_stream() {
            exchange.set_received();
        }
        Self {
            inner: Some(inner),
            exchange,
            expected: None,
        }
    }

    /// Nothing, for a request that is sent again.
    pub fn empty(exchange: Arc<Exchange>) -> Self {
        Self {
            inner: None,
            exchange,
            expected: None,
        }
    }

    /// Holds it back until its backend says that it wants it: then [`Held::release`] is to be called.
    pub fn hold(&mut self) -> Held {
        let (want, wanted) = oneshot::channel();
        let patience = Box::pin(sleep(CONTINUE_PATIENCE));
        self.expected = Some(Expected { wanted, patience });
        Held(want)
    }
}

/// A body that is held back.
#[derive(Debug)]
pub struct Held(oneshot::Sender<()>);

impl Held {
    /// Lets it go.
    pub fn release(self) {
        if self.0.send(()).is_err() {
            tracing::trace!("a body goes on already: patience has ended, or its request");
        }
    }
}

impl Expected {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.wanted).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            // Without anybody who could tell, patience has to do.
            Poll::Ready(Err(_)) | Poll::Pending => self.patience.as_mut().poll(cx),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = WireError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> NextFrame {
        let this = &mut *self;
        if let Some(expected) = &mut this.expected {
            ready!(expected.poll(cx));
            this.expected = None;
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
                let broke_off = Refusal::Malformed("the body broke off");
                this.exchange.refuse(refusal(error).unwrap_or(broke_off));
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

/// Why the guard refused the body, if that is why it ended.
fn refusal(error: &WireError) -> Option<Refusal> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return Some(*refusal);
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
