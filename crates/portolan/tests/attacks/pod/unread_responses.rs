//! Responses that the attacker does not read: over HTTP/2, a client can keep a connection open and grant no window.

use std::io::Write;

use serde_json::Value;

use super::slow_requests::token;
use crate::access;
use crate::support::Api;
use crate::wire::{END_HEADERS, HEADERS, PREFACE, SETTINGS, Wire, frame, read_frame};

const CONNECTIONS: usize = 4;
/// Concurrent requests that the server permits on a connection.
const STREAMS: u32 = 250;
/// Requests that are sent at once.
const BATCH: u32 = 50;
/// Flag of a request without a body.
const END_STREAM: u8 = 1;
/// Setting with the window of new streams (RFC 9113, section 6.5.2).
const INITIAL_WINDOW_SIZE: u8 = 4;
/// Limit for the additional memory of the server.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Returns a string literal in HPACK (RFC 7541, section 5.2).
fn literal(text: &str) -> Vec<u8> {
    let mut encoded = Vec::new();
    match u8::try_from(text.len()) {
        Ok(length @ 0..127) => encoded.push(length),
        _ => {
            encoded.push(127);
            let mut rest = text.len() - 127;
            while rest > 127 {
                encoded.push(u8::try_from(rest % 128).expect("seven bits") | 128);
                rest /= 128;
            }
            encoded.push(u8::try_from(rest).expect("seven bits"));
        }
    }
    encoded.extend(text.bytes());
    encoded
}

/// Returns the header block of a GET request for a large document, which the server compresses.
fn head(token: &str) -> Vec<u8> {
    // Method GET (2) and scheme https (7) are indexed.
    let mut head = vec![0x82, 0x87];
    // The names of authority (1), path (4) and authorization (23) are indexed.
    for (name, value) in [
        (&[1_u8][..], "a".to_owned()),
        (&[4_u8][..], "/openapi/v2".to_owned()),
        (&[0x0f_u8, 23 - 15][..], format!("Bearer {token}")),
    ] {
        head.extend(name);
        head.extend(literal(&value));
    }
    // `accept-encoding: gzip, deflate` (16). Pseudo-headers precede all others.
    head.push(0x90);
    head
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_use_bounded_memory() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let head = head(&token(&administrator).await);
    // The server creates the document at its first request.
    let document = access::with_certificate(&api, "ann", "")
        .get::<Value>("/openapi/v2")
        .await;
    document.expect("the document");
    let before = api.peak_kib();
    let wire = Wire::new(api.address, &["h2"]);
    let settings = frame(SETTINGS, 0, 0, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]);
    let begin = [PREFACE, &settings].concat();
    let attack = || {
        let mut connection = wire.begin(&begin)?;
        for batch in 0..STREAMS / BATCH {
            let streams = (batch * BATCH..(batch + 1) * BATCH).map(|number| 1 + 2 * number);
            let requests: Vec<u8> = streams
                .flat_map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &head))
                .collect();
            connection.write_all(&requests)?;
            connection.flush()?;
            let mut responses = 0;
            while responses < BATCH {
                responses += u32::from(read_frame(&mut connection)? == HEADERS);
            }
        }
        std::io::Result::Ok(connection)
    };
    let held: Vec<_> = std::thread::scope(|scope| {
        let attackers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(attack)).collect();
        let ended = attackers.into_iter().map(|attacker| attacker.join());
        ended
            .map(|connection| connection.expect("a thread").expect("a connection"))
            .collect()
    });
    let nodes = administrator.get::<Value>("/api/v1/nodes").await;
    nodes.expect("a response to the administrator");
    let document = access::with_certificate(&api, "ann", "")
        .get::<Value>("/openapi/v2")
        .await;
    document.expect("a response to another user");
    let growth = api.peak_kib().saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "additional memory: {growth} KiB");
    drop(held);
}
