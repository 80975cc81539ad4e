use proptest::prelude::*;

use super::*;
use crate::http::head::FIELDS_MAX;

/// What comes of bytes that come in these parts: how many were admitted, in how many heads, and the refusal if there was one.
fn run(parts: &[&[u8]]) -> (usize, usize, Option<Refusal>) {
    let (mut framing, mut waiting, mut bytes, mut heads) = (Framing::default(), Vec::new(), 0, 0);
    for part in parts {
        waiting.extend_from_slice(part);
        loop {
            match framing.admit(&waiting) {
                Ok(Admitted { bytes: 0, .. }) => break,
                Ok(admitted) => {
                    waiting.drain(..admitted.bytes);
                    bytes += admitted.bytes;
                    heads += usize::from(admitted.ends_a_head);
                }
                Err(refusal) => return (bytes, heads, Some(refusal)),
            }
        }
    }
    (bytes, heads, None)
}

fn refusal(request: &str) -> Option<Refusal> {
    run(&[request.as_bytes()]).2
}

/// A request with these lines behind its request line.
fn with(lines: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

fn is_malformed(request: &str) -> bool {
    matches!(refusal(request), Some(Refusal::Malformed(_)))
}

#[test]
fn whole_requests_are_admitted_one_behind_the_other() {
    let all = "GET /a?b=c HTTP/1.1\r\nHost: a.example:80\r\n\r\n\
        POST /b HTTP/1.1\r\nhost: [2001:db8::1]:80\r\nContent-Length: 3\r\n\r\nabc\
        POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n00\r\nA-Trailer: b\r\n\r\n\
        \r\nOPTIONS * HTTP/1.1\r\nHost:a\r\n\r\n\
        GET http://a/b HTTP/1.1\r\nHost: A\r\n\r\n\
        GET / HTTP/1.0\r\n\r\n";
    assert_eq!(run(&[all.as_bytes()]), (all.len(), 6, None));
}

#[test]
fn a_head_waits_until_it_is_whole() {
    let mut framing = Framing::default();
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(framing.place(), Place::Between);
    assert_eq!(framing.admit(&head[..20]), Ok(Admitted::part(0)));
    assert_eq!(framing.place(), Place::Head);
    assert_eq!(
        framing.admit(head),
        Ok(Admitted {
            bytes: head.len(),
            ends_a_head: true
        })
    );
    assert_eq!(framing.place(), Place::Between);
}

#[test]
fn lengths_that_can_be_read_in_two_ways_are_refused() {
    for lines in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3, 4\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 3 4\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content_Length: 3\r\n",
        "Transfer_Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length : 3\r\n",
        "Content-Length\t: 3\r\n",
        " Content-Length: 3\r\n",
        "A: b\r\n c\r\n",
        "A: b\r\n\tContent-Length: 3\r\n",
        "\u{b}Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding\u{0}: chunked\r\n",
        "Content-Length\r\n",
        ": 3\r\n",
        "A: b\nTransfer-Encoding: chunked\r\n",
        "A: b\rTransfer-Encoding: chunked\r\n",
        "A: b\u{0}\r\n",
        "A: b\u{7f}\r\n",
        "A(b): c\r\n",
        "\u{e4}: c\r\n",
        "Host: b\r\n",
    ] {
        assert!(
            is_malformed(&with(lines)),
            "{lines:?}: {:?}",
            refusal(&with(lines))
        );
    }
    for lines in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \u{b}chunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding:\r\n",
    ] {
        let refused = refusal(&with(lines));
        assert!(
            matches!(refused, Some(Refusal::TransferCoding | Refusal::Malformed(_))),
            "{lines:?}: {refused:?}"
        );
    }
    assert!(is_malformed(
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
}

#[test]
fn request_lines_that_can_be_read_in_two_ways_are_refused() {
    for line in [
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET\t/\tHTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1.1x",
        "GET /",
        "G@T / HTTP/1.1",
        "GET /\u{e4} HTTP/1.1",
        "GET /a#b HTTP/1.1",
        "GET a HTTP/1.1",
        "GET * HTTP/1.1",
        "GET ftp://a/ HTTP/1.1",
        "GET http:// HTTP/1.1",
        "GET http://b@a/ HTTP/1.1",
        "GET http://b/ HTTP/1.1",
        " GET / HTTP/1.1",
        "\0GET / HTTP/1.1",
        "(",
    ] {
        let request = format!("{line}\r\nHost: a\r\n\r\n");
        assert!(is_malformed(&request), "{line:?}: {:?}", refusal(&request));
    }
    assert_eq!(
        refusal("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
        Some(Refusal::Method("CONNECT"))
    );
    assert_eq!(refusal("PRI * HTTP/2.0\r\n\r\n"), Some(Refusal::Version));
    assert_eq!(refusal("GET / HTTP/1.2\r\n\r\n"), Some(Refusal::Version));
}

#[test]
fn a_request_is_for_one_host() {
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
    ] {
        assert!(is_malformed(request), "{request:?}");
    }
}

#[test]
fn chunks_that_can_be_read_in_two_ways_are_refused() {
    for body in [
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nab\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "3;a\rb\r\nabc\r\n0\r\n\r\n",
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        "3;\u{0}\r\nabc\r\n0\r\n\r\n",
        "\r\n",
        ";\r\n",
        "g\r\n",
        "10000000000000000\r\n",
        "0\r\nContent-Length: 3\r\n\r\n",
        "0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "0\r\nHost: b\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\n A: b\r\n\r\n",
        "0\r\nA\r\n\r\n",
    ] {
        let request = with("Transfer-Encoding: chunked\r\n") + body;
        assert!(is_malformed(&request), "{body:?}: {:?}", refusal(&request));
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_is_whole() {
    let target = format!("GET /{}", "a".repeat(TARGET_BYTES_MAX + 64));
    assert_eq!(refusal(&target), Some(Refusal::TargetTooLong));
    let value = with(&format!("A: {}", "a".repeat(HEAD_BYTES_MAX)));
    assert_eq!(refusal(&value), Some(Refusal::HeadTooLarge));
    assert_eq!(refusal(value.trim_end()), Some(Refusal::HeadTooLarge));
    let fields = with(&"A: b\r\n".repeat(FIELDS_MAX));
    assert_eq!(refusal(&fields), Some(Refusal::HeadTooLarge));
    let chunked = with("Transfer-Encoding: chunked\r\n");
    let extension = format!("{chunked}3;{}", "a".repeat(CHUNK_LINE_BYTES_MAX));
    assert!(is_malformed(&extension));
    let trailers = format!("{chunked}0\r\n{}", "A: b\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1));
    assert_eq!(refusal(&trailers), Some(Refusal::HeadTooLarge));
}

#[test]
fn nothing_is_passed_on_behind_an_upgrade_until_it_is_decided() {
    let upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let next = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut framing = Framing::default();
    assert_eq!(
        framing.admit(upgrade),
        Ok(Admitted {
            bytes: upgrade.len(),
            ends_a_head: true
        })
    );
    assert_eq!(
        (framing.place(), framing.admit(next)),
        (Place::Held, Ok(Admitted::part(0)))
    );
    let mut kept = framing.clone();
    kept.keep();
    assert_eq!(
        kept.admit(next),
        Ok(Admitted {
            bytes: next.len(),
            ends_a_head: true
        })
    );
    framing.tunnel();
    assert_eq!(framing.admit(b"\0\n\xff"), Ok(Admitted::part(3)));
}

#[test]
fn a_refusal_stays() {
    let mut framing = Framing::default();
    assert!(framing.admit(b"(").is_err());
    framing.keep();
    assert!(framing.admit(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_err());
}

/// Pieces that requests, good and bad ones, are made of.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&str] = &[
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "POST /b HTTP/1.1\r\nHost: a\r\n",
        "Content-Length: 4\r\n",
        "A: b\r\n",
        "Transfer-Encoding: chunked\r\n",
        "\r\n",
        "4\r\nabcd\r\n",
        "0\r\n\r\n",
        "abcd",
        "\n",
        "\r",
        " ",
        "Upgrade: x\r\n",
        "0\r\n",
        ":",
    ];
    prop::collection::vec(prop::sample::select(PIECES), 0..12).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn it_does_not_matter_in_which_parts_bytes_come(bytes in pieces(), cuts in prop::collection::vec(0usize..200, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(run(&parts), run(&[&bytes]));
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (admitted, _, _) = run(&[&bytes]);
        prop_assert!(admitted <= bytes.len());
    }
}
