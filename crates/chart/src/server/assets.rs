//! The page, which the binary contains.

use std::io::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, VARY,
};
use http::{Response, StatusCode};

use super::response::{Body, empty, of};
use super::secrets::hex_digest;

/// Bytes of the digest in an ETag.
const ETAG_DIGITS: usize = 32;

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    /// Path of the file.
    path: &'static str,
    content_type: &'static str,
    content: &'static [u8],
    encoded: OnceLock<EncodedFile>,
}

/// Form of a file in responses.
#[derive(Debug)]
struct EncodedFile {
    etag: HeaderValue,
    /// Content in the format of gzip; absent if that is not smaller.
    gzip: Option<Bytes>,
}

macro_rules! asset {
    ($path:literal, $file:literal, $content_type:literal) => {
        Asset {
            path: $path,
            content_type: $content_type,
            content: include_bytes!(concat!("../../assets/", $file)),
            encoded: OnceLock::new(),
        }
    };
}

static ASSETS: [Asset; 4] = [
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/chart.js", "chart.js", "text/javascript; charset=utf-8"),
    asset!("/chart.css", "chart.css", "text/css; charset=utf-8"),
    asset!("/favicon.svg", "favicon.svg", "image/svg+xml"),
];

/// Returns the file at a path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    let path = if path == "/index.html" { "/" } else { path };
    ASSETS.iter().find(|asset| asset.path == path)
}

impl Asset {
    /// Returns the response to a request with these headers.
    pub(super) fn respond(&'static self, request: &HeaderMap) -> Response<Body> {
        let encoded = self.encoded.get_or_init(|| encode(self.content));
        let known = request
            .get(IF_NONE_MATCH)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let is_known = known.split(',').any(|etag| etag.trim() == encoded.etag);
        let gzip = encoded.gzip.as_ref().filter(|_| accepts_gzip(request));
        let mut response = match gzip {
            _ if is_known => empty(StatusCode::NOT_MODIFIED),
            Some(gzip) => of(StatusCode::OK, self.content_type, gzip.clone()),
            None => of(StatusCode::OK, self.content_type, self.content),
        };
        let headers = response.headers_mut();
        if gzip.is_some() && !is_known {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        headers.insert(ETAG, encoded.etag.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        response
    }
}

fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request
        .get(ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accepted.split(',').any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = quality.trim();
        name.trim().eq_ignore_ascii_case("gzip") && quality != "q=0" && !quality.starts_with("q=0.0")
    })
}

fn encode(content: &[u8]) -> EncodedFile {
    let etag = format!("\"{}\"", &hex_digest(content)[..ETAG_DIGITS]);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(content).and_then(|()| encoder.finish());
    EncodedFile {
        etag: HeaderValue::try_from(etag).unwrap_or_else(|_| HeaderValue::from_static("\"\"")),
        gzip: written
            .ok()
            .filter(|gzip| gzip.len() < content.len())
            .map(Bytes::from),
    }
}
