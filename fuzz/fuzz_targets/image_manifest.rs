//! Manifests and indexes of images, and names of images: a parsed name is stable.
#![no_main]

use images::{Platform, Reference, check_manifest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    // Any result is valid; the parser must not panic.
    drop(check_manifest(content, &Platform::host()));
    let Ok(text) = std::str::from_utf8(content) else {
        return;
    };
    if let Ok(reference) = text.parse::<Reference>() {
        let again: Reference = reference.to_string().parse().expect("the normalized name");
        assert_eq!(again, reference);
    }
});
