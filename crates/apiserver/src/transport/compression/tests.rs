use std::io::Read as _;

use http::StatusCode;

use super::*;
use crate::request::negotiation::Encoding;
use crate::transport::response;

#[test]
fn compresses_large_responses_only() {
    let pieces: Vec<Bytes> = (0..5000)
        .map(|number| Bytes::from(format!("piece {number}, ").repeat(5)))
        .collect();
    let whole = pieces.concat();
    let mut response = compress(response::pieces(pieces, Encoding::Json));
    assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
    let Body::Compressed(body) = response.body_mut() else {
        panic!("expected a compressed body");
    };
    let sent: Vec<u8> = std::iter::from_fn(|| body.next()).flatten().collect();
    assert!(sent.len() < whole.len() / 2);
    let mut read = Vec::new();
    flate2::read::GzDecoder::new(&sent[..])
        .read_to_end(&mut read)
        .unwrap();
    assert!(read == whole);
    let small = compress(response::text(StatusCode::OK, "ok"));
    assert!(small.headers().get(CONTENT_ENCODING).is_none());
}
