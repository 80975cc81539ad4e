//! Framing check of HTTP/1: boundaries of requests, and rejected requests.
#![no_main]

use edge::http::framing::{Framing, Position};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((cut, bytes)) = input.split_first() else {
        return;
    };
    let whole = run(&[bytes]);
    let cut = usize::from(*cut).min(bytes.len());
    let (begin, end) = bytes.split_at(cut);
    assert_eq!(whole, run(&[begin, end]), "the result depends on the parts in which bytes arrive");
});

/// Returns the number of accepted bytes, the number of heads, and true if a request was rejected.
fn run(parts: &[&[u8]]) -> (usize, usize, bool) {
    let (mut framing, mut waiting) = (Framing::default(), Vec::new());
    let (mut bytes, mut heads) = (0, 0);
    for part in parts {
        waiting.extend_from_slice(part);
        loop {
            match framing.admit(&waiting) {
                Err(_) => return (bytes, heads, true),
                Ok(admitted) if admitted.bytes == 0 && framing.position() == Position::Held => framing.resume(),
                Ok(admitted) if admitted.bytes == 0 => break,
                Ok(admitted) => {
                    waiting.drain(..admitted.bytes);
                    bytes += admitted.bytes;
                    heads += usize::from(admitted.is_head_complete);
                }
            }
        }
    }
    (bytes, heads, false)
}
