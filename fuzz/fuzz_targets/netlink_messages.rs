//! Every decoder of netlink messages.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netlink::fuzzing::decode_everything(input));
