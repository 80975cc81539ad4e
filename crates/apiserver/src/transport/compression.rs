//! gzip compression of large responses.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};

use crate::transport::response::ApiResponse;
use crate::transport::response::body::{Body, next_frame};

/// Size in bytes from which a response is compressed (upstream's bound). Compression of smaller responses takes more
/// time than it saves.
const COMPRESSED_BYTES_MIN: u64 = 128 << 10;
/// Compression level (upstream's). Higher levels take more time, and compress little better.
const LEVEL: u32 = 1;

/// Pieces of a response, compressed frame by frame.
pub(crate) struct Compressed {
    pieces: std::vec::IntoIter<Bytes>,
    /// `None` after the last frame.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Compressed {
    fn new(pieces: std::vec::IntoIter<Bytes>) -> Compressed {
        Compressed {
            pieces,
            encoder: Some(GzEncoder::new(Vec::new(), Compression::new(LEVEL))),
        }
    }

    /// Returns the next compressed bytes.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(frame) = next_frame(&mut self.pieces) else {
                // Writes to memory do not fail.
                return self.encoder.take()?.finish().ok().map(Bytes::from);
            };
            encoder.write_all(&frame).ok()?;
            if !encoder.get_ref().is_empty() {
                return Some(Bytes::from(std::mem::take(encoder.get_mut())));
            }
        }
    }
}

/// Returns true if the client accepts gzip.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let texts = headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .any(|clause| clause.split(';').next().unwrap_or_default().trim() == "gzip")
}

/// Returns true if a body is large enough.
pub(crate) fn is_large_enough(body: &Body) -> bool {
    match body {
        Body::Whole(Some(bytes)) => bytes.len() as u64 >= COMPRESSED_BYTES_MIN,
        Body::Pieces { left_bytes, .. } => *left_bytes >= COMPRESSED_BYTES_MIN,
        _ => false,
    }
}

/// Compresses a response that is large enough.
pub(crate) fn compress(mut response: ApiResponse) -> ApiResponse {
    if !is_large_enough(response.body()) {
        return response;
    }
    let pieces = match std::mem::replace(response.body_mut(), Body::Whole(None)) {
        Body::Whole(Some(bytes)) => vec![bytes].into_iter(),
        Body::Pieces { pieces, .. } => pieces,
        other => {
            *response.body_mut() = other;
            return response;
        }
    };
    *response.body_mut() = Body::Compressed(Box::new(Compressed::new(pieces)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

#[cfg(test)]
mod tests;
