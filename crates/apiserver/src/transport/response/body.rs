//! Bodies of responses: one buffer, pieces that are shared with the store, or a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use crate::access::audit::AuditContext;
use crate::transport::compression::Compressed;
use crate::transport::html::HtmlBody;
use crate::transport::long_running::RequestLifetime;

/// Size to which small pieces are joined: a few HTTP/2 frames, four TLS records.
pub(crate) const FRAME_BYTES: usize = 64 << 10;

/// Body of a response.
pub(crate) enum Body {
    /// One buffer; `None` after it is sent.
    Whole(Option<Bytes>),
    /// Pieces of a list, shared with the store until they are sent.
    Pieces {
        /// Pieces that are not sent yet.
        pieces: std::vec::IntoIter<Bytes>,
        /// Size of the pieces that are not sent yet.
        left_bytes: u64,
    },
    /// Pieces that are compressed while they are sent.
    Compressed(Box<Compressed>),
    /// Response of a Pod or node agent; its duration is not bounded.
    Proxied {
        body: Incoming,
        lifetime: Option<RequestLifetime>,
    },
    /// Page of a Pod, whose links are rewritten while it is sent.
    Html {
        page: Box<HtmlBody>,
        lifetime: Option<RequestLifetime>,
    },
    /// Events of a watch.
    Stream {
        stream: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
        lifetime: Option<RequestLifetime>,
    },
    /// Any of the others, whose end the audit log records.
    Recorded {
        body: Box<Body>,
        _audit_context: Arc<AuditContext>,
    },
}

impl Body {
    /// Splits a body into pieces that are sent one after the other.
    pub(super) fn pieces(pieces: Vec<Bytes>) -> Body {
        let left_bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        Body::Pieces {
            pieces: pieces.into_iter(),
            left_bytes,
        }
    }

    /// Returns true if the duration of the response is not bounded.
    pub(crate) fn is_long_running(&self) -> bool {
        match self {
            Body::Stream { .. } | Body::Proxied { .. } | Body::Html { .. } => true,
            Body::Recorded { body, .. } => body.is_long_running(),
            Body::Whole(_) | Body::Pieces { .. } | Body::Compressed(_) => false,
        }
    }

    /// Returns the bytes that the body occupies until it is sent, without those that it shares with the store.
    pub(crate) fn held_bytes(&self) -> usize {
        let pieces = match self {
            Body::Whole(Some(bytes)) => std::slice::from_ref(bytes),
            Body::Pieces { pieces, .. } => pieces.as_slice(),
            _ => &[],
        };
        let own = pieces.iter().filter(|piece| piece.is_unique());
        size_of_val(pieces) + own.map(Bytes::len).sum::<usize>()
    }

    /// Returns the content of the body; `None` if it is compressed or a stream.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        match self {
            Body::Whole(bytes) => bytes.clone(),
            Body::Pieces { pieces, .. } => Some(Bytes::from(pieces.as_slice().concat())),
            _ => None,
        }
    }

    /// Keeps the audit context until the body ends.
    pub(crate) fn recorded(self, audit_context: Arc<AuditContext>) -> Body {
        Body::Recorded {
            body: Box::new(self),
            _audit_context: audit_context,
        }
    }
}

/// Joins pieces to one frame. The copy costs less than a frame for each piece.
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
            Body::Proxied { body, lifetime } => {
                return if has_ended(lifetime, context) {
                    Poll::Ready(None)
                } else {
                    Pin::new(body).poll_frame(context)
                };
            }
            Body::Html { page, lifetime } => {
                return if has_ended(lifetime, context) {
                    Poll::Ready(None)
                } else {
                    page.poll_next(context)
                };
            }
            Body::Stream { stream, lifetime } => {
                if has_ended(lifetime, context) {
                    None
                } else {
                    return stream
                        .as_mut()
                        .poll_next(context)
                        .map(|next| next.map(|bytes| Ok(Frame::data(bytes))));
                }
            }
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Pieces { left_bytes, .. } => *left_bytes == 0,
            Body::Proxied { body, .. } => body.is_end_stream(),
            Body::Recorded { body, .. } => body.is_end_stream(),
            Body::Compressed(_) | Body::Html { .. } | Body::Stream { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |data| data.len() as u64)),
            Body::Pieces { left_bytes, .. } => SizeHint::with_exact(*left_bytes),
            Body::Proxied { body, .. } => body.size_hint(),
            Body::Recorded { body, .. } => body.size_hint(),
            Body::Compressed(_) | Body::Html { .. } | Body::Stream { .. } => SizeHint::default(),
        }
    }
}

/// Returns true if a long-running response has to end.
fn has_ended(lifetime: &mut Option<RequestLifetime>, context: &mut Context<'_>) -> bool {
    lifetime
        .as_mut()
        .is_some_and(|lifetime| lifetime.poll_ended(context).is_ready())
}
