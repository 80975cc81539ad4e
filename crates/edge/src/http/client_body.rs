//! A request's body as it comes from a client, in either version of HTTP.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A request's body.
#[derive(Debug)]
pub enum ClientBody {
    /// Of HTTP/1.
    Http1(Incoming),
    /// Of HTTP/2.
    Http2(StreamBody),
}

/// Why no more of a body comes. The client, or the guard of its connection, has broken it off.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Of HTTP/1.
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    /// Of HTTP/2.
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

/// The body of a stream.
#[derive(Debug)]
pub struct StreamBody {
    stream: RecvStream,
    /// What is still to come of a length that the request tells; that it is kept is seen to before.
    left: Option<u64>,
    has_all_data: bool,
}

impl StreamBody {
    /// Of a request with these headers.
    pub fn new(stream: RecvStream, headers: &HeaderMap) -> Self {
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok());
        Self {
            left: length.and_then(|length| length.parse().ok()),
            stream,
            has_all_data: false,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.has_all_data {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // The client may send as much again.
                    self.stream.flow_control().release_capacity(data.len())?;
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.has_all_data = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(cx))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Http1(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
            }
            Self::Http2(body) => {
                let frame = ready!(body.poll(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
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
            Self::Http2(body) => body.left.map(SizeHint::with_exact).unwrap_or_default(),
        }
    }
}
