//! A body that is forwarded frame by frame, with an observer that lives as long as the body.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

/// An observer of a body's frames.
pub(crate) trait Observer: Unpin {
    /// A frame, or the end, has come.
    fn observe_frame(&self) {}
}

/// A body and its observer.
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
