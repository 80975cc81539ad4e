use proptest::prelude::*;

use super::*;
use crate::http::head::FIELDS_MAX;

/// Admits bytes that arrive in these parts. Returns the numbers of admitted bytes and heads, and the rejection if there
/// is one.
fn run(parts: &[&[u8]]) -> (usize, usize, Option<RequestRejection>) {
    let (mut framing, mut waiting, mut bytes, mut heads) = (Framing::default(), Vec::new(), 0, 0);
    for part in parts {
        waiting.extend_from_slice(part);
        loop {
            match framing.admit(&waiting) {
                Ok(AdmittedBytes { bytes: 0, .. }) => break,
                Ok(admitted) => {
                    waiting.drain(..admitted.bytes);
                    bytes += admitted.bytes;
                    heads += usize::from(admitted.is_head_complete);
                }
                Err(rejection) => return (bytes, heads, Some(rejection)),
            }
        }
    }
    (bytes, heads, None)
}

fn rejection(request: &str) -> Option<RequestRejection> {
    run(&[request.as_bytes()]).2
}

/// Returns a request with these lines after its request line.
fn with(lines: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}

fn is_malformed(request: &str) -> bool {
    matches!(rejection(request), Some(RequestRejection::Malformed(_)))
}

#[test]
fn admits_complete_requests_in_sequence() {
    let all = "GET /a?b=c HTTP/1.1\r\nHost: a.example:80\r\n\r\n\
        POST /b HTTP/1.1\r\nhost: [2001:db8::1]:80\r\nContent-Length: 3\r\n\r\nabc\
        POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n00\r\nA-Trailer: b\r\n\r\n\
        \r\nOPTIONS * HTTP/1.1\r\nHost:a\r\n\r\n\
        GET http://a/b HTTP/1.1\r\nHost: A\r\n\r\n\
        GET / HTTP/1.0\r\n\r\n";
    assert_eq!(run(&[all.as_bytes()]), (all.len(), 6, None));
}

#[test]
fn holds_back_incomplete_heads() {
    let mut framing = Framing::default();
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(framing.position(), Position::Between);
    assert_eq!(framing.admit(&head[..20]), Ok(AdmittedBytes::part(0)));
    assert_eq!(framing.position(), Position::Head);
    assert_eq!(
        framing.admit(head),
        Ok(AdmittedBytes {
            bytes: head.len(),
            is_head_complete: true
        })
    );
    assert_eq!(framing.position(), Position::Between);
}

#[test]
fn rejects_ambiguous_lengths() {
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
            rejection(&with(lines))
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
        let rejected = rejection(&with(lines));
        assert!(
            matches!(
                rejected,
                Some(RequestRejection::TransferCoding | RequestRejection::Malformed(_))
            ),
            "{lines:?}: {rejected:?}"
        );
    }
    assert!(is_malformed(
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
}

#[test]
fn rejects_ambiguous_request_lines() {
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
        assert!(is_malformed(&request), "{line:?}: {:?}", rejection(&request));
    }
    assert_eq!(
        rejection("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
        Some(RequestRejection::Method("CONNECT"))
    );
    assert_eq!(
        rejection("PRI * HTTP/2.0\r\n\r\n"),
        Some(RequestRejection::Version)
    );
    assert_eq!(
        rejection("GET / HTTP/1.2\r\n\r\n"),
        Some(RequestRejection::Version)
    );
}

#[test]
fn rejects_several_hosts() {
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
fn rejects_ambiguous_chunks() {
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
        assert!(is_malformed(&request), "{body:?}: {:?}", rejection(&request));
    }
}

#[test]
fn rejects_oversized_parts_before_they_are_complete() {
    let target = format!("GET /{}", "a".repeat(TARGET_BYTES_MAX + 64));
    assert_eq!(rejection(&target), Some(RequestRejection::TargetTooLong));
    let value = with(&format!("A: {}", "a".repeat(HEAD_BYTES_MAX)));
    assert_eq!(rejection(&value), Some(RequestRejection::HeadTooLarge));
    assert_eq!(rejection(value.trim_end()), Some(RequestRejection::HeadTooLarge));
    let fields = with(&"A: b\r\n".repeat(FIELDS_MAX));
    assert_eq!(rejection(&fields), Some(RequestRejection::HeadTooLarge));
    let chunked = with("Transfer-Encoding: chunked\r\n");
    let extension = format!("{chunked}3;{}", "a".repeat(CHUNK_LINE_BYTES_MAX));
    assert!(is_malformed(&extension));
    let trailers = format!("{chunked}0\r\n{}", "A: b\r\n".repeat(TRAILER_BYTES_MAX / 6 + 1));
    assert_eq!(rejection(&trailers), Some(RequestRejection::HeadTooLarge));
}

#[test]
fn holds_back_bytes_behind_an_undecided_upgrade() {
    let upgrade = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let next = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut framing = Framing::default();
    assert_eq!(
        framing.admit(upgrade),
        Ok(AdmittedBytes {
            bytes: upgrade.len(),
            is_head_complete: true
        })
    );
    assert_eq!(
        (framing.position(), framing.admit(next)),
        (Position::Held, Ok(AdmittedBytes::part(0)))
    );
    let mut kept = framing.clone();
    kept.resume();
    assert_eq!(
        kept.admit(next),
        Ok(AdmittedBytes {
            bytes: next.len(),
            is_head_complete: true
        })
    );
    framing.tunnel();
    assert_eq!(framing.admit(b"\0\n\xff"), Ok(AdmittedBytes::part(3)));
}

#[test]
fn rejection_is_final() {
    let mut framing = Framing::default();
    assert!(framing.admit(b"(").is_err());
    framing.resume();
    assert!(framing.admit(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_err());
}

/// Pieces of valid and invalid requests.
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
    fn result_is_independent_of_segmentation(bytes in pieces(), cuts in prop::collection::vec(0usize..200, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(run(&parts), run(&[&bytes]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (admitted, _, _) = run(&[&bytes]);
        prop_assert!(admitted <= bytes.len());
    }
}
