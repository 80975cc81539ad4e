use bytes::Bytes;
use proptest::prelude::*;

use super::dictionary::dictionary;
use super::*;

/// First bytes of a compressed block: the zlib header with a dictionary, and the Adler-32 sum of the dictionary of SPDY/3.
const DICTIONARY_SUM: [u8; 4] = [0xe3, 0xc6, 0xa7, 0xc2];

fn headers(pairs: &[(&str, &str)]) -> Headers {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// A connection with its first stream open.
fn pair() -> (Connection, Connection, u32) {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    let stream = client
        .open(&headers(&[("streamtype", "stdin")]))
        .expect("headers");
    let events = server.receive(&client.take_output()).expect("frames");
    let expected = headers(&[("streamtype", "stdin")]);
    assert_eq!(
        events,
        [Event::Opened {
            stream,
            headers: expected
        }]
    );
    server.accept(stream).expect("reply");
    let events = client.receive(&server.take_output()).expect("frames");
    assert_eq!(events, [Event::Accepted { stream }]);
    (client, server, stream)
}

#[test]
fn blocks_use_the_dictionary_of_the_protocol() {
    assert_eq!(dictionary().len(), 1423);
    let block = header_block::HeaderEncoder::new().encode(&Headers::new());
    assert_eq!(block.expect("headers").get(2..6), Some(&DICTIONARY_SUM[..]));
}

#[test]
fn streams_close_by_halves() {
    let (mut client, mut server, stream) = pair();
    client.send(stream, b"in", true);
    client.send(stream, b"more", false);
    let events = server.receive(&client.take_output()).expect("frames");
    let bytes = Bytes::from_static(b"in");
    assert_eq!(
        events,
        [Event::Data { stream, bytes }, Event::Finished { stream }]
    );
    server.send(stream, b"out", true);
    let events = client.receive(&server.take_output()).expect("frames");
    assert_eq!(events.last(), Some(&Event::Finished { stream }));
}

#[test]
fn pings_of_the_peer_are_answered() {
    let mut server = Connection::new(Role::Server);
    let ping = [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
    assert_eq!(server.receive(&ping), Ok(Vec::new()));
    assert_eq!(server.take_output(), &ping[..]);
    let own = [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 2];
    assert_eq!(server.receive(&own), Ok(Vec::new()));
    assert!(server.take_output().is_empty());
}

#[test]
fn pings_of_both_sides_return() {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    for _ in 0..2 {
        server.ping();
        let ping = server.take_output();
        assert_eq!(client.receive(&ping), Ok(Vec::new()));
        let answer = client.take_output();
        assert_eq!(answer, ping);
        assert_eq!(server.receive(&answer), Ok(Vec::new()));
        assert!(server.take_output().is_empty(), "the answer is not answered");
    }
    client.ping();
    let ping = client.take_output();
    assert_eq!(server.receive(&ping), Ok(Vec::new()));
    assert_eq!(server.take_output(), ping);
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    for _ in 0..=STREAMS_MAX {
        client.open(&Headers::new()).expect("headers");
    }
    let events = server.receive(&client.take_output()).expect("frames");
    assert_eq!(events.len(), STREAMS_MAX);
    let events = client.receive(&server.take_output()).expect("frames");
    assert!(matches!(events.as_slice(), [Event::Reset { .. }]));
}

#[test]
fn rejects_invalid_frames() {
    let receive = |bytes: &[u8]| Connection::new(Role::Server).receive(bytes);
    assert_eq!(
        receive(&[0x80, 2, 0, 6, 0, 0, 0, 0]),
        Err(ProtocolError::Version(2))
    );
    assert_eq!(
        receive(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]),
        Err(ProtocolError::FrameTooLarge(0xff_ffff))
    );
    assert_eq!(
        receive(&[0x80, 3, 0, 1, 0, 0, 0, 1, 9]),
        Err(ProtocolError::Truncated(1))
    );
    let mut even = vec![0x80, 3, 0, 1, 0, 0, 0, 10];
    even.extend([0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(receive(&even), Err(ProtocolError::StreamId(2)));
}

#[test]
fn rejects_blocks_that_are_too_large_when_decompressed() {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    let large = "x".repeat(HEADER_BYTES_MAX);
    client.open(&headers(&[("large", &large)])).expect("headers");
    let output = client.take_output();
    assert!(output.len() < HEADER_BYTES_MAX / 10, "the block compresses well");
    assert_eq!(server.receive(&output), Err(ProtocolError::HeadersTooLarge));
}

#[test]
fn headers_of_one_read_are_bounded() {
    let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
    let largest = "x".repeat(HEADER_BYTES_MAX - 32);
    let mut read = Vec::new();
    while read.len() < 32 << 10 {
        let stream = client.open(&headers(&[("x", &largest)])).expect("headers");
        client.reset(stream);
        read.extend(client.take_output());
    }
    let events = server.receive(&read).expect("frames");
    let bytes: usize = events
        .iter()
        .filter_map(|event| match event {
            Event::Opened { headers, .. } => Some(headers.values().map(String::len).sum::<usize>()),
            _ => None,
        })
        .sum();
    assert!(bytes > 0 && bytes <= 1 << 20, "{bytes}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let mut server = Connection::new(Role::Server);
        // Most inputs are errors; both outcomes are valid.
        drop(server.receive(&bytes));
    }

    #[test]
    fn pieces_arrive_as_the_whole(
        content in proptest::collection::vec(any::<u8>(), 0..100_000),
        piece_bytes in 1_usize..5_000,
        names in proptest::collection::btree_map("[a-z-]{1,20}", "[ -~]{0,50}", 0..8),
    ) {
        let (mut client, mut server) = (Connection::new(Role::Client), Connection::new(Role::Server));
        let stream = client.open(&names).expect("headers");
        client.send(stream, &content, true);
        let mut received = Vec::new();
        let mut opened = None;
        for piece in client.take_output().chunks(piece_bytes) {
            for event in server.receive(piece).expect("frames") {
                match event {
                    Event::Opened { headers, .. } => opened = Some(headers),
                    Event::Data { bytes, .. } => received.extend(bytes),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(opened, Some(names));
        prop_assert_eq!(received, content);
    }
}
