//! HTTP body that forwards the frames of another body and notifies an observer.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

/// Observer of a body. It is dropped together with the body.
pub(crate) trait Observer: Unpin {
    /// Called for each frame, and for the end of the body.
    fn observe_frame(&self) {}
}

/// Body with an observer.
pub(crate) struct ForwardedBody<B, O> {
    body: B,
    observer: O,
}

impl<B, O> ForwardedBody<B, O> {
    pub(crate) fn new(body: B, observer: O) -> ForwardedBody<B, O> {
        ForwardedBody { body, observer }
    }
}

impl<B: Body + Unpin, O: Observer> Body for ForwardedBody<B, O> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let forwarded = self.get_mut();
        let polled = Pin::new(&mut forwarded.body).poll_frame(context);
        if polled.is_ready() {
            forwarded.observer.observe_frame();
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
