//! Answers: a status, headers and a body that is whole, in parts, or a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, WARNING};
use http::{Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use serde_json::Value;

use crate::failure::Failure;

/// Longest text of a warning that is sent, and of all of them together; the rest is cut.
const WARNING_CHARS_MAX: usize = 256;
const WARNINGS_MAX: usize = 32;

/// Bytes that small pieces are joined to before they are sent: some frames of HTTP/2, one record of TLS.
pub(crate) const FRAME_BYTES: usize = 64 << 10;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The body of an answer.
pub(crate) enum Body {
    /// All at once; `None` when it has been taken.
    Whole(Option<Bytes>),
    /// The pieces of a list, shared with the store until they are sent.
    Pieces {
        /// What is left.
        pieces: std::vec::IntoIter<Bytes>,
        /// Bytes that are left.
        left_bytes: u64,
    },
    /// A watch.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    fn pieces(pieces: Vec<Bytes>) -> Body {
        let left_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        Body::Pieces {
            pieces: pieces.into_iter(),
            left_bytes,
        }
    }
}

/// Joins pieces up to a frame's worth: a frame for each would cost more than the copy.
fn next_frame(pieces: &mut std::vec::IntoIter<Bytes>) -> Option<Bytes> {
    let first = pieces.next()?;
    if first.len() >= FRAME_BYTES || pieces.len() == 0 {
        return Some(first);
    }
    let mut frame = BytesMut::with_capacity(FRAME_BYTES);
    frame.extend_from_slice(&first);
    while frame.len() < FRAME_BYTES
        && let Some(piece) = pieces.next()
    {
        frame.extend_from_slice(&piece);
    }
    Some(frame.freeze())
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = match self.get_mut() {
            Body::Whole(bytes) => bytes.take(),
            Body::Pieces { pieces, left_bytes } => {
                next_frame(pieces).inspect(|frame| *left_bytes -= frame.len() as u64)
            }
            Body::Stream(stream) => match stream.as_mut().poll_next(context) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Pieces { left_bytes, .. } => *left_bytes == 0,
            Body::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Body::Pieces { left_bytes, .. } => SizeHint::with_exact(*left_bytes),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// An answer on its way.
pub(crate) type Answer = Response<Body>;

/// A JSON answer of bytes that are JSON already.
pub(crate) fn json(code: StatusCode, bytes: Bytes) -> Answer {
    of(code, JSON, Body::Whole(Some(bytes)))
}

/// A JSON answer of a tree.
pub(crate) fn tree(code: StatusCode, tree: &Value) -> Answer {
    json(code, Bytes::from(tree.to_string()))
}

/// A JSON answer in pieces.
pub(crate) fn pieces(pieces: Vec<Bytes>) -> Answer {
    of(StatusCode::OK, JSON, Body::pieces(pieces))
}

/// A stream of JSON documents.
pub(crate) fn stream(stream: Pin<Box<dyn Stream<Item = Bytes> + Send>>) -> Answer {
    of(StatusCode::OK, JSON, Body::Stream(stream))
}

/// A text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    of(code, PLAIN, Body::Whole(Some(text.into())))
}

/// A document of some media type.
pub(crate) fn document(content_type: &'static str, bytes: Bytes) -> Answer {
    of(
        StatusCode::OK,
        HeaderValue::from_static(content_type),
        Body::Whole(Some(bytes)),
    )
}

/// A failure as a `Status`.
pub(crate) fn failure(failure: &Failure) -> Answer {
    let mut answer = tree(failure.code(), &failure.status());
    if matches!(
        failure.code(),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
    ) {
        answer
            .headers_mut()
            .insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

/// Adds a `Warning` header for each text, as RFC 7234 5.5 has them and kubectl shows them.
pub(crate) fn with_warnings(mut answer: Answer, warnings: &[String]) -> Answer {
    for warning in warnings.iter().take(WARNINGS_MAX) {
        if let Ok(value) = HeaderValue::from_str(&warning_value(warning)) {
            answer.headers_mut().append(WARNING, value);
        }
    }
    answer
}

fn of(code: StatusCode, content_type: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().reserve(2);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer.headers_mut().insert(NO_STORE.0, NO_STORE.1);
    answer
}

/// Answers depend on who asks and change at any time.
const NO_STORE: (HeaderName, HeaderValue) = (
    http::header::CACHE_CONTROL,
    HeaderValue::from_static("no-cache, private"),
);

fn warning_value(text: &str) -> String {
    let mut value = String::with_capacity(text.len() + 8);
    value.push_str("299 - \"");
    for letter in text.chars().take(WARNING_CHARS_MAX) {
        match letter {
            '"' | '\\' => value.extend(['\\', letter]),
            ' '..='~' => value.push(letter),
            // Header values are ASCII; what is not would make a client refuse the whole answer.
            _ => value.push('?'),
        }
    }
    value.push('"');
    value
}
