//! A response of an upstream: accepted and encoded again within the size limit, or rejected.
#![no_main]

use dns::wire::{Name, Question, Records, ResolverResponse, kind, parse_query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The first byte selects the client; the rest is the message.
    let Some((choice, message)) = input.split_first() else { return };
    let mut question = Question::about(Name::from_text("www.example.com").expect("a name"), kind::A);
    question.dnssec_ok = choice & 1 != 0;
    let Ok(answer) = ResolverResponse::read(message, 7, &question) else { return };
    let edns = (choice & 2 != 0).then_some(u16::from(*choice) * 16);
    let query = parse_query(&question.encode(9, edns)).expect("a query");
    let mut out = vec![0; 65_535];
    for limit in [512, 1_232, 65_535] {
        let octets = answer.write(&query, &mut out, limit, |seconds| seconds / 2);
        assert!(octets <= limit);
        assert_eq!(out[..2], [0, 9]);
        let again = ResolverResponse::read(&out[..octets], 9, &question).expect("what is given out is well-formed");
        if !again.truncated {
            assert_eq!(contents(&out[..octets]), contents(answer.message()));
        }
    }
});

/// Content of the records, without TTLs. Names are compared without case (RFC 4343), because names that an upstream
/// compressed into the question appear in the client's spelling.
fn contents(message: &[u8]) -> Vec<String> {
    Records::of(message).map(|record| format!("{} {:?}", record.owner, record.value).to_ascii_lowercase()).collect()
}
