//! Body of a proxied response with rewritten links.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzDecoder, GzEncoder};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use hyper::body::{Body, Frame, Incoming};

use super::links::Links;
use super::rewriter::LinkRewriter;

/// Bytes of the body that are handled at once: gzip expands them to at most 4 MiB.
const PIECE_BYTES_MAX: usize = 4 << 10;
/// Compression level of upstream's responses.
const LEVEL: u32 = 1;

/// Returns true if the response is a page whose links can be rewritten. A part of a page has lengths that would
/// change, and compressions other than gzip are not decoded.
pub(crate) fn is_rewritable(status: StatusCode, headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let media_type = text(CONTENT_TYPE).split(';').next().unwrap_or_default();
    let encoding = text(CONTENT_ENCODING);
    media_type.trim().eq_ignore_ascii_case("text/html")
        && status != StatusCode::PARTIAL_CONTENT
        && (encoding.is_empty() || is_gzip(headers))
}

fn is_gzip(headers: &HeaderMap) -> bool {
    let encoding = headers
        .get(CONTENT_ENCODING)
        .and_then(|value| value.to_str().ok());
    encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("gzip"))
}

/// Page of a Pod with rewritten links.
pub(crate) struct HtmlBody {
    body: Incoming,
    /// Bytes of the body that are not handled yet.
    waiting: Bytes,
    page: Page,
    has_ended: bool,
}

impl HtmlBody {
    /// Creates the body for a response with these headers.
    pub(crate) fn new(body: Incoming, headers: &HeaderMap, links: Links) -> Self {
        Self {
            body,
            waiting: Bytes::new(),
            page: Page::new(is_gzip(headers), links),
            has_ended: false,
        }
    }

    /// Returns the next rewritten bytes.
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        while !self.has_ended {
            let next = if self.waiting.is_empty() {
                match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                    Some(Ok(frame)) => {
                        self.waiting = frame.into_data().unwrap_or_default();
                        continue;
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => {
                        self.has_ended = true;
                        self.page.finish()
                    }
                }
            } else {
                let bytes = self.waiting.len().min(PIECE_BYTES_MAX);
                self.page.push(&self.waiting.split_to(bytes))
            };
            match next {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(error) => {
                    // The client detects the missing end of the compressed stream.
                    tracing::debug!(%error, "page of a Pod not decompressed");
                    self.has_ended = true;
                }
            }
        }
        Poll::Ready(None)
    }
}

/// Decompression, rewriting and compression of a page.
pub(super) struct Page {
    rewriter: LinkRewriter,
    gzip: Option<(GzDecoder<Vec<u8>>, GzEncoder<Vec<u8>>)>,
}

impl Page {
    pub(super) fn new(is_gzip: bool, links: Links) -> Self {
        let gzip = || {
            let encoder = GzEncoder::new(Vec::new(), Compression::new(LEVEL));
            (GzDecoder::new(Vec::new()), encoder)
        };
        Self {
            rewriter: LinkRewriter::new(links),
            gzip: is_gzip.then(gzip),
        }
    }

    /// Rewrites a piece of the page. Returns the bytes to send.
    pub(super) fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let mut out = Vec::with_capacity(piece.len());
        let Some((decoder, encoder)) = &mut self.gzip else {
            self.rewriter.push(piece, &mut out);
            return Ok(out.into());
        };
        decoder.write_all(piece)?;
        self.rewriter.push(&std::mem::take(decoder.get_mut()), &mut out);
        encoder.write_all(&out)?;
        encoder.flush()?;
        Ok(std::mem::take(encoder.get_mut()).into())
    }

    /// Returns the rest of the page.
    pub(super) fn finish(&mut self) -> io::Result<Bytes> {
        let mut out = Vec::new();
        let Some((mut decoder, mut encoder)) = self.gzip.take() else {
            self.rewriter.finish(&mut out);
            return Ok(out.into());
        };
        decoder.try_finish()?;
        self.rewriter.push(decoder.get_ref(), &mut out);
        self.rewriter.finish(&mut out);
        encoder.write_all(&out)?;
        encoder.finish().map(Bytes::from)
    }
}
