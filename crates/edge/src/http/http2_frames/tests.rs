use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags, 0, 0, 0, 1], payload].concat()
}

/// Returns the types of the frames in `bytes`, passed in pieces.
fn kinds(bytes: &[u8], piece: usize) -> Vec<u8> {
    let mut frames = Frames::new(PREFACE_BYTES);
    let mut kinds = Vec::new();
    for bytes in bytes.chunks(piece) {
        frames.pass(bytes, |part| {
            if part.is_head {
                kinds.push(part.kind);
            }
        });
    }
    kinds
}

#[test]
fn frames_are_found_regardless_of_the_pieces() {
    let bytes = [
        vec![0; PREFACE_BYTES],
        frame(4, 0, &[]),
        frame(HEADERS, 4, &[1; 30]),
        frame(DATA, 1, &[1; 300]),
        frame(PING, 0, &[6; 8]),
    ]
    .concat();
    for piece in [1, 2, 8, 9, 10, 100, 1_000] {
        assert_eq!(kinds(&bytes, piece), [4, HEADERS, DATA, PING], "{piece}");
    }
}

#[test]
fn payload_counts_as_its_frame_and_the_preface_as_none() {
    let mut frames = Frames::new(PREFACE_BYTES);
    let mut of_streams = Vec::new();
    frames.pass(&[0; PREFACE_BYTES], |part| of_streams.push(part.is_of_stream()));
    frames.pass(&frame(DATA, 0, &[1; 8]), |part| {
        of_streams.push(part.is_of_stream());
    });
    frames.pass(&frame(PING, ACK, &[1; 8]), |part| {
        of_streams.push(part.is_of_stream());
        assert!(!part.begins_ping());
    });
    assert_eq!(of_streams, [false, true, true, false, false]);
}

#[test]
fn pings_are_limited_in_each_interval() {
    let start = Instant::now();
    let mut limit = PingLimit {
        since: start,
        pings: 0,
    };
    assert!((0..PINGS_MAX).all(|_| limit.admit(start)));
    assert!(!limit.admit(start));
    assert!(limit.admit(start + PING_INTERVAL));
}
