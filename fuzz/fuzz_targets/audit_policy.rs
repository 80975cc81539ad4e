//! Audit policies: parsing and evaluation.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        apiserver::fuzzing::audit_policy(text);
    }
});
