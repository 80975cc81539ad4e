//! Floods of HTTP/2 frames: CONTINUATION, rapid reset, SETTINGS and PING. The server closes such connections
//! or handles the frames with bounded memory, and responds to other clients.

use std::io::Write;

use serde_json::Value;

use crate::access;
use crate::support::Api;
use crate::wire::{Connection, END_HEADERS, HEADERS, PREFACE, SETTINGS, Wire, frame, is_closed};

const RESET: u8 = 3;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// Limit for the additional memory of the server during a flood.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Returns the header block of a GET request for `/livez` in HPACK.
fn head() -> Vec<u8> {
    // Method GET (2) and scheme https (7) are indexed; path (4) and authority (1) are literals.
    [&[0x82, 0x87, 0x04, 6][..], b"/livez", &[0x01, 1, b'a']].concat()
}

/// Sends frames until all are sent or the server has closed the connection.
fn flood(connection: &mut Connection, frames: impl Iterator<Item = Vec<u8>>) {
    for frame in frames {
        if connection
            .write_all(&frame)
            .and_then(|()| connection.flush())
            .is_err()
        {
            return;
        }
    }
}

/// Runs a flood on four connections. Expects a response to the administrator and bounded memory; with
/// `closes` also that the server closes the connections.
async fn expect_survival(frames: impl Fn() -> Box<dyn Iterator<Item = Vec<u8>>> + Sync, closes: bool) {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let before = api.resident_kib();
    let wire = Wire::new(api.address, &["h2"]);
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    std::thread::scope(|scope| {
        let floods: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = wire.begin(&begin).expect("a connection");
                    connection
                        .sock
                        .set_write_timeout(Some(std::time::Duration::from_secs(5)))
                        .expect("a write timeout");
                    flood(&mut connection, frames());
                    connection
                })
            })
            .collect();
        for flood in floods {
            let mut connection = flood.join().expect("the thread of a flood");
            if closes {
                assert!(is_closed(&mut connection), "the server keeps the connection open");
            }
        }
    });
    let nodes = administrator.get::<Value>("/api/v1/nodes").await;
    nodes.expect("a response to the administrator");
    let growth = api.peak_kib().saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "additional memory: {growth} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_header_blocks_use_bounded_memory() {
    let frames = || {
        let begin = frame(HEADERS, 0, 1, &head());
        // Literal header fields without indexing, each with a long value.
        let field = [&[0, 1, b'x', 0x7f, 0x81, 0x7c][..], &[b'y'; 16_000]].concat();
        let more = frame(CONTINUATION, 0, 1, &field[..16_000]);
        let all = std::iter::once(begin).chain(std::iter::repeat_n(more, 5_000));
        Box::new(all) as Box<dyn Iterator<Item = Vec<u8>>>
    };
    expect_survival(frames, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_continuation_frames_close_the_connection() {
    let frames = || {
        let begin = frame(HEADERS, 0, 1, &head());
        let more = frame(CONTINUATION, 0, 1, &[]).repeat(1_000);
        let all = std::iter::once(begin).chain(std::iter::repeat_n(more, 1_000));
        Box::new(all) as Box<dyn Iterator<Item = Vec<u8>>>
    };
    expect_survival(frames, true).await;
}

/// Rapid reset (CVE-2023-44487).
#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_close_the_connection() {
    let frames = || {
        let pairs = (0..100_u32).map(|batch| {
            let streams = (0..500).map(move |at| 1 + 2 * (batch * 500 + at));
            let frames = streams.map(|stream| {
                let request = frame(HEADERS, END_HEADERS | 1, stream, &head());
                [request, frame(RESET, 0, stream, &8_u32.to_be_bytes())].concat()
            });
            frames.collect::<Vec<_>>().concat()
        });
        Box::new(pairs) as Box<dyn Iterator<Item = Vec<u8>>>
    };
    expect_survival(frames, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_settings_and_ping_responses_use_bounded_memory() {
    let frames = || {
        let settings = frame(SETTINGS, 0, 0, &[]).repeat(500);
        let pings = frame(PING, 0, 0, &[0; 8]).repeat(500);
        let all = std::iter::repeat_n([settings, pings].concat(), 1_000);
        Box::new(all) as Box<dyn Iterator<Item = Vec<u8>>>
    };
    expect_survival(frames, false).await;
}
