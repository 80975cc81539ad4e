//! Large answers, compressed for clients that take it.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};

use crate::transport::response::{ApiResponse, Body, next_frame};

/// From how many bytes on an answer is compressed, upstream's bound: below, it costs more time than it saves.
const COMPRESSED_BYTES_MIN: u64 = 128 << 10;
/// The least effort, as upstream has it: most of the gain for a fraction of the time.
const LEVEL: u32 = 1;

/// The pieces of an answer, compressed a frame at a time.
pub(crate) struct Compressed {
    pieces: std::vec::IntoIter<Bytes>,
    /// `None` at the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Compressed {
    fn new(pieces: std::vec::IntoIter<Bytes>) -> Compressed {
        Compressed {
            pieces,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::new(LEVEL))),
        }
    }

    /// The next compressed bytes.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(frame) = next_frame(&mut self.pieces) else {
                // Writing to memory does not fail.
                return self.encoder.take()?.finish().ok().map(Bytes::from);
            };
            encoder.write_all(&frame).ok()?;
            if !encoder.get_ref().is_empty() {
                return Some(Bytes::from(std::mem::take(encoder.get_mut())));
            }
        }
    }
}

/// Whether the client takes compressed answers.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let texts = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|v| v.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .any(|clause| clause.split(';').next().unwrap_or_default().trim() == "gzip")
}

/// Compresses an answer that is large enough.
pub(crate) fn compressed(mut answer: ApiResponse) -> ApiResponse {
    let pieces = match std::mem::replace(answer.body_mut(), Body::Whole(None)) {
        Body::Whole(Some(bytes)) if bytes.len() as u64 >= COMPRESSED_BYTES_MIN => vec![bytes].into_iter(),
        Body::Pieces { pieces, left_bytes } if left_bytes >= COMPRESSED_BYTES_MIN => pieces,
        other => {
            *answer.body_mut() = other;
            return answer;
        }
    };
    *answer.body_mut() = Body::Compressed(Box::new(Compressed::new(pieces)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

#[cfg(test)]
mod tests;
