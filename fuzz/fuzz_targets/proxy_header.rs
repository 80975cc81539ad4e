//! PROXY headers: a parsed header is encoded and parsed again to the same result.
#![no_main]

use edge::proxy_protocol::{HEADER_BYTES_MAX, Header, ParseResult, read, write_version1, write_version2};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match read(input) {
        Ok(ParseResult::Complete { header, bytes }) => {
            assert!(bytes <= input.len() && bytes <= HEADER_BYTES_MAX);
            assert_eq!(read(&input[..bytes]), read(input), "what follows a header changes it");
            for end in 0..bytes {
                assert!(!matches!(read(&input[..end]), Ok(ParseResult::Complete { .. })), "a part is a header too");
            }
            write_and_read(header);
        }
        Ok(ParseResult::Incomplete) => assert!(input.len() < HEADER_BYTES_MAX),
        Err(_) => {}
    }
});

fn write_and_read(header: Header) {
    for is_version2 in [false, true] {
        let mut out = Vec::new();
        match is_version2 {
            false => write_version1(header, &mut out),
            true => write_version2(header, None, &mut out),
        }
        let bytes = out.len();
        assert_eq!(read(&out), Ok(ParseResult::Complete { header, bytes }));
    }
}
