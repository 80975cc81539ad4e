//! Server-side apply of two configurations by two field managers. The input consists of the kind, a newline, the first
//! configuration, a zero byte and the second one.
#![no_main]

use api::apply::{WriteAuthor, apply, read_configuration};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((kind, first, second)) = portolan_fuzz::kind_and_two_parts(input) else { return };
    let author = |manager| WriteAuthor { kind, subresource: None, manager, time: "2026-01-01T00:00:00Z" };
    let Ok(first) = read_configuration(first, kind) else { return };
    let Ok(live) = apply(None, &first, author("one"), false) else { return };
    let again = apply(Some(&live), &first, author("one"), false).expect("the same configuration applies again");
    assert_eq!(again, live, "applying the same again changes something");
    let Ok(second) = read_configuration(second, kind) else { return };
    if apply(Some(&live), &second, author("two"), false).is_err() {
        apply(Some(&live), &second, author("two"), true).ok();
    }
});
