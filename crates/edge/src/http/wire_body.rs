//! Bodies of both versions of HTTP, as they are received and sent.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Body of a request or response, as it arrives.
#[derive(Debug)]
pub(crate) enum WireBody {
    /// HTTP/1.
    Http1(Incoming),
    /// HTTP/2.
    Http2(StreamBody),
}

/// Reason why a body ends early: the other side, or the guard of its connection, has failed it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// HTTP/1.
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    /// HTTP/2.
    #[error(transparent)]
    Http2(#[from] h2::Error),
    /// The backend responded to `Expect: 100-continue` without a request for the body.
    #[error("the backend responded without the request body")]
    Unwanted,
}

impl WireError {
    /// Returns true if the other side has not processed the request, so that it may be sent again (RFC 9113, section
    /// 8.7).
    pub(crate) fn is_unprocessed(&self) -> bool {
        let Self::Http2(error) = self else { return false };
        error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM))
    }
}

/// Next frame of a body.
pub(super) type NextFrame = Poll<Option<Result<Frame<Bytes>, WireError>>>;

/// Body of an HTTP/2 stream.
#[derive(Debug)]
pub(crate) struct StreamBody {
    stream: RecvStream,
    /// Remaining bytes of a stated length, which `h2` enforces.
    remaining: Option<u64>,
    has_all_data: bool,
    is_response: bool,
}

impl StreamBody {
    /// Creates the body of a request with these headers.
    pub(crate) fn of_request(stream: RecvStream, headers: &HeaderMap) -> Self {
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok());
        Self {
            remaining: length.and_then(|length| length.parse().ok()),
            stream,
            has_all_data: false,
            is_response: false,
        }
    }

    /// Creates the body of a response with these headers.
    pub(crate) fn of_response(stream: RecvStream, headers: &HeaderMap) -> Self {
        Self {
            is_response: true,
            ..Self::of_request(stream, headers)
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.has_all_data {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // The other side may send as many bytes again.
                    self.stream.flow_control().release_capacity(data.len())?;
                    self.remaining = self
                        .remaining
                        .map(|remaining| remaining.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) if self.is_reset_after_response(&error) => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.has_all_data = true,
            }
        }
        match ready!(self.stream.poll_trailers(cx)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) if self.is_reset_after_response(&error) => Poll::Ready(None),
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    /// Returns true for the reset that follows a complete response, if the server did not read all of the request
    /// (RFC 9113, section 8.1).
    fn is_reset_after_response(&self, error: &h2::Error) -> bool {
        let is_whole = self.remaining.is_none_or(|remaining| remaining == 0);
        self.is_response && is_whole && error.is_reset() && error.reason() == Some(Reason::NO_ERROR)
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = WireError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> NextFrame {
        match &mut *self {
            Self::Http1(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(WireError::from)))
            }
            Self::Http2(body) => {
                let frame = ready!(body.poll(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(WireError::from)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) if body.stream.is_end_stream() => SizeHint::with_exact(0),
            Self::Http2(body) => body.remaining.map(SizeHint::with_exact).unwrap_or_default(),
        }
    }
}

/// Sends a body on an HTTP/2 stream, as fast as the other side takes it. If the body fails, the stream is reset with
/// `broken`.
///
/// # Errors
/// The error of the stream.
pub(super) async fn send_body(
    mut body: impl Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
    stream: &mut SendStream<Bytes>,
    broken: Reason,
) -> Result<(), h2::Error> {
    let mut is_sent = false;
    while !is_sent {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            reason = poll_fn(|cx| stream.poll_reset(cx)) => return Err(reason?.into()),
        };
        is_sent = match frame {
            Some(Ok(frame)) => send_frame(frame, body.is_end_stream(), stream).await?,
            Some(Err(error)) => {
                tracing::debug!(%error, "body failed; stream reset");
                stream.send_reset(broken);
                true
            }
            None => {
                stream.send_data(Bytes::new(), true)?;
                true
            }
        }
    }
    Ok(())
}

/// Sends a frame of a body. Returns true if it was the last one.
async fn send_frame(
    frame: Frame<Bytes>,
    is_last: bool,
    stream: &mut SendStream<Bytes>,
) -> Result<bool, h2::Error> {
    let data = match frame.into_data() {
        Ok(data) => data,
        Err(frame) => {
            return match frame.into_trailers() {
                Ok(trailers) => stream.send_trailers(trailers).map(|()| true),
                Err(_) => Ok(is_last),
            };
        }
    };
    if !data.is_empty() {
        // One byte of capacity shows that the window is open. A larger reservation would reduce the window of other
        // streams.
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            match poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(capacity) => drop(capacity?),
                None => return Err(Reason::CANCEL.into()),
            }
        }
    }
    stream.send_data(data, is_last)?;
    Ok(is_last)
}
