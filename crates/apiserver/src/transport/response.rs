//! Answers: a status, headers and a body that is whole, in parts, or a stream.

mod warnings;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::{Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use serde_json::Value;

use crate::access::audit::AuditContext;
use crate::failure::Failure;
use crate::request::negotiation::Encoding;
use crate::transport::compression::Compressed;
use crate::transport::long_running::Lasting;
use crate::verbs::printing::{self, STATUS_DEFINITION};
pub(crate) use warnings::{with_deprecation, with_warnings};

/// Bytes that small pieces are joined to before they are sent: some frames of HTTP/2, one record of TLS.
pub(crate) const FRAME_BYTES: usize = 64 << 10;

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
    /// The same, compressed on the way.
    Compressed(Box<Compressed>),
    /// Response of another server; its duration is not bounded.
    PassedOn {
        body: Incoming,
        lasting: Option<Lasting>,
    },
    /// A watch, as long as it may last.
    Stream {
        stream: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
        lasting: Option<Lasting>,
    },
    /// One of the others whose end is recorded.
    Recorded {
        body: Box<Body>,
        _audit_context: Arc<AuditContext>,
    },
}

/// The `Status` of a failure, an extension of its answer: the audit log has it in JSON, whatever the client gets.
#[derive(Clone)]
pub(crate) struct StatusTree(pub(crate) Value);

impl Body {
    /// Returns true if the duration of the response is not bounded.
    pub(crate) fn lasts(&self) -> bool {
        matches!(self, Body::Stream { .. } | Body::PassedOn { .. })
    }

    /// All of it, if it is there already and not compressed.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        match self {
            Body::Whole(bytes) => bytes.clone(),
            Body::Pieces { pieces, .. } => Some(Bytes::from(pieces.as_slice().concat())),
            _ => None,
        }
    }

    /// The same, whose end is recorded.
    pub(crate) fn recorded(self, audit_context: Arc<AuditContext>) -> Body {
        Body::Recorded {
            body: Box::new(self),
            _audit_context: audit_context,
        }
    }

    fn pieces(pieces: Vec<Bytes>) -> Body {
        let left_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        Body::Pieces {
            pieces: pieces.into_iter(),
            left_bytes,
        }
    }
}

/// Joins pieces up to a frame's worth: a frame for each would cost more than the copy.
pub(crate) fn next_frame(pieces: &mut std::vec::IntoIter<Bytes>) -> Option<Bytes> {
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
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = match self.get_mut() {
            Body::Whole(bytes) => bytes.take(),
            Body::Pieces { pieces, left_bytes } => {
                next_frame(pieces).inspect(|frame| *left_bytes -= frame.len() as u64)
            }
            Body::Compressed(compressed) => compressed.next(),
            Body::Recorded { body, .. } => return Pin::new(body.as_mut()).poll_frame(context),
            Body::PassedOn { body, lasting } => {
                return match is_over(lasting, context) {
                    true => Poll::Ready(None),
                    false => Pin::new(body).poll_frame(context),
                };
            }
            Body::Stream { stream, lasting } => match is_over(lasting, context) {
                true => None,
                false => {
                    return stream
                        .as_mut()
                        .poll_next(context)
                        .map(|next| next.map(|bytes| Ok(Frame::data(bytes))));
                }
            },
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Pieces { left_bytes, .. } => *left_bytes == 0,
            Body::PassedOn { body, .. } => body.is_end_stream(),
            Body::Recorded { body, .. } => body.is_end_stream(),
            Body::Compressed(_) | Body::Stream { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Body::Pieces { left_bytes, .. } => SizeHint::with_exact(*left_bytes),
            Body::PassedOn { body, .. } => body.size_hint(),
            Body::Recorded { body, .. } => body.size_hint(),
            Body::Compressed(_) | Body::Stream { .. } => SizeHint::default(),
        }
    }
}

/// Signal that a long-running response has to end early.
fn is_over(lasting: &mut Option<Lasting>, context: &mut Context<'_>) -> bool {
    lasting
        .as_mut()
        .is_some_and(|lasting| lasting.poll_ended(context).is_ready())
}

/// An answer on its way.
pub(crate) type ApiResponse = Response<Body>;

/// An answer of bytes that are in this encoding already.
pub(crate) fn object(code: StatusCode, bytes: Bytes, encoding: Encoding) -> ApiResponse {
    let content_type = HeaderValue::from_static(encoding.content_type());
    of(code, content_type, Body::Whole(Some(bytes)))
}

/// A JSON answer of a tree.
pub(crate) fn tree(code: StatusCode, tree: &Value) -> ApiResponse {
    object(code, Bytes::from(tree.to_string()), Encoding::Json)
}

/// An answer in pieces that are in this encoding already.
pub(crate) fn pieces(pieces: Vec<Bytes>, encoding: Encoding) -> ApiResponse {
    let content_type = HeaderValue::from_static(encoding.content_type());
    of(StatusCode::OK, content_type, Body::pieces(pieces))
}

/// The events of a watch.
pub(crate) fn stream(stream: Pin<Box<dyn Stream<Item = Bytes> + Send>>, encoding: Encoding) -> ApiResponse {
    let content_type = HeaderValue::from_static(encoding.stream_content_type());
    of(
        StatusCode::OK,
        content_type,
        Body::Stream {
            stream,
            lasting: None,
        },
    )
}

/// An answer that somebody else gave, passed on as it comes.
pub(crate) fn passed_on(answer: Response<Incoming>) -> ApiResponse {
    answer.map(|body| Body::PassedOn { body, lasting: None })
}

/// The same answer, which lasts no longer than `request`.
pub(crate) fn lasting(mut answer: ApiResponse, request: Lasting) -> ApiResponse {
    if let Body::PassedOn { lasting, .. } | Body::Stream { lasting, .. } = answer.body_mut() {
        *lasting = Some(request);
    }
    answer
}

/// What is asked for is elsewhere, for good.
pub(crate) fn redirect(location: &str) -> ApiResponse {
    let mut answer = text(StatusCode::MOVED_PERMANENTLY, Bytes::new());
    if let Ok(location) = HeaderValue::from_str(location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

/// What the client has already is still so.
pub(crate) fn not_modified() -> ApiResponse {
    text(StatusCode::NOT_MODIFIED, Bytes::new())
}

/// A text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> ApiResponse {
    of(code, PLAIN, Body::Whole(Some(text.into())))
}

/// A document of some media type.
pub(crate) fn document(content_type: &'static str, bytes: Bytes) -> ApiResponse {
    of(
        StatusCode::OK,
        HeaderValue::from_static(content_type),
        Body::Whole(Some(bytes)),
    )
}

/// A failure as a `Status`.
pub(crate) fn failure(failure: &Failure, encoding: Encoding) -> ApiResponse {
    let status = failure.status();
    let mut answer = match printing::encode(&status, STATUS_DEFINITION, encoding) {
        Ok(bytes) => object(failure.code(), bytes, encoding),
        Err(_) => tree(failure.code(), &status),
    };
    if matches!(
        failure.code(),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
    ) {
        answer
            .headers_mut()
            .insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer.extensions_mut().insert(StatusTree(status));
    with_warnings(answer, failure.warnings())
}

fn of(code: StatusCode, content_type: HeaderValue, body: Body) -> ApiResponse {
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
