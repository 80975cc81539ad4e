use std::io::Read as _;

use http::StatusCode;

use super::*;
use crate::request::negotiation::Encoding;
use crate::transport::response;

#[test]
fn large_answers_come_back_whole_and_small_ones_are_left_alone() {
    let pieces: Vec<Bytes> = (0..5000)
        .map(|n| Bytes::from(format!("piece {n}, ").repeat(5)))
        .collect();
    let whole = pieces.concat();
    let mut answer = compressed(response::pieces(pieces, Encoding::Json));
    assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip");
    let Body::Compressed(body) = answer.body_mut() else {
        panic!("it is compressed");
    };
    let sent: Vec<u8> = std::iter::from_fn(|| body.next()).flatten().collect();
    assert!(sent.len() < whole.len() / 2);
    let mut read = Vec::new();
    flate2::read::GzDecoder::new(&sent[..])
        .read_to_end(&mut read)
        .unwrap();
    assert!(read == whole);
    let small = compressed(response::text(StatusCode::OK, "ok"));
    assert!(small.headers().get(CONTENT_ENCODING).is_none());
}
