//! Body of a response whose request is in flight until the connection has sent its last byte.
//!
//! HTTP/2 takes whole frames, and keeps them until the client grants a window. The body may end long before, so each frame
//! keeps its request in flight, with the memory that the response holds.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::activity::InFlight;
use crate::transport::response::Body;

/// Body of a response.
pub(super) struct CountedBody {
    body: Body,
    in_flight: Arc<InFlight>,
    /// True if the client has to read the response in time. Watches and logs wait for events, and for their readers.
    has_time_limit: bool,
}

/// Bytes of a frame that the client has not received.
struct UnreadFrame {
    bytes: Bytes,
    in_flight: Arc<InFlight>,
}

impl CountedBody {
    pub(super) fn new(body: Body, in_flight: InFlight) -> CountedBody {
        CountedBody {
            has_time_limit: !body.is_long_running(),
            body,
            in_flight: Arc::new(in_flight),
        }
    }
}

impl UnreadFrame {
    fn new(bytes: Bytes, in_flight: &Arc<InFlight>) -> UnreadFrame {
        in_flight.begin_frame();
        UnreadFrame {
            bytes,
            in_flight: Arc::clone(in_flight),
        }
    }
}

impl AsRef<[u8]> for UnreadFrame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnreadFrame {
    fn drop(&mut self) {
        self.in_flight.end_frame();
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let counted = self.get_mut();
        let polled = ready!(Pin::new(&mut counted.body).poll_frame(context));
        if !counted.has_time_limit {
            return Poll::Ready(polled);
        }
        let in_flight = &counted.in_flight;
        Poll::Ready(polled.map(|result| {
            result.map(|frame| frame.map_data(|bytes| Bytes::from_owner(UnreadFrame::new(bytes, in_flight))))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
