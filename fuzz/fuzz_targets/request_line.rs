//! Request paths with queries: the router and the options of lists, writes and deletions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        apiserver::fuzzing::request_line(text);
    }
});
