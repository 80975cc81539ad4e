//! JSON request bodies of every kind.
#![no_main]

use api::decode::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Some((kind, body)) = portolan_fuzz::kind_and_rest(input) {
        portolan_fuzz::decode_and_repeat(body, Format::Json, kind);
    }
});
