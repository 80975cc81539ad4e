//! Helpers of the fuzz targets: the kind that an input names, and invariants of decoded objects.

use api::decode::{Decoded, Format, decode};
use api::kind::{self, Kind};
use serde_json::Value;

/// Returns the kind that the first line of an input names, or Service, and the rest of the input.
pub fn kind_and_rest(input: &[u8]) -> Option<(&'static Kind, &[u8])> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let (word, rest) = (&input[..end], &input[end + 1..]);
    let named = |word: &[u8]| kind::all().iter().find(|kind| kind.kind.as_bytes() == word);
    Some((named(word).or_else(|| named(b"Service"))?, rest))
}

/// Returns the kind, and the two parts of the rest around the first zero byte.
pub fn kind_and_two_parts(input: &[u8]) -> Option<(&'static Kind, &[u8], &[u8])> {
    let (kind, rest) = kind_and_rest(input)?;
    let split = rest.iter().position(|byte| *byte == 0)?;
    Some((kind, &rest[..split], &rest[split + 1..]))
}

/// Decodes a body, and asserts that the JSON of the object decodes to the same object without a fault.
pub fn decode_and_repeat(body: &[u8], format: Format, kind: &Kind) -> Option<Value> {
    let Decoded { object, .. } = decode(body, format, kind).ok()?;
    let text = serde_json::to_vec(&object).expect("a tree is text");
    let again = decode(&text, Format::Json, kind).expect("what was decoded decodes again");
    assert_eq!(again.object, object, "decoding is not repeatable");
    assert!(again.strict_errors.is_empty(), "a decoded object has faults: {:?}", again.strict_errors);
    Some(object)
}
