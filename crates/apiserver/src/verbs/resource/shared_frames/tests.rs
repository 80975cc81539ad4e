use std::convert::Infallible;

use super::*;

fn frame(length: usize) -> Result<Frame, Infallible> {
    Ok(Frame {
        bytes: vec![0; length].into(),
        event_count: 1,
        next: 1,
    })
}

#[test]
fn writes_each_frame_once_per_stream_and_position() {
    let frames = SharedFrames::default();
    let mut written = 0;
    for (stream, position) in [("a", 1), ("a", 1), ("a", 2), ("b", 1), ("a", 2)] {
        let Ok(_) = frames.get_or_write(&mut frames.stream(stream), position, || {
            written += 1;
            frame(1)
        });
    }
    assert_eq!(written, 3);
}

#[test]
fn drops_old_frames() {
    let frames = SharedFrames::default();
    let mut stream = frames.stream("a");
    for position in 0..1_000 {
        let Ok(_) = frames.get_or_write(&mut stream, position, || frame(BYTES_MAX / 8));
    }
    let shard = frames.shards[stream.shard].lock().unwrap();
    assert!(shard.bytes <= BYTES_MAX && shard.newest_last.len() <= FRAMES_MAX);
    assert_eq!(
        shard.bytes,
        shard
            .newest_last
            .iter()
            .map(|cached| cached.frame.bytes.len())
            .sum::<usize>()
    );
}

#[test]
fn other_watches_of_a_shard_proceed_while_a_frame_is_written() {
    let frames = SharedFrames::default();
    let mut outer = frames.stream("a");
    let Ok(written) = frames.get_or_write(&mut outer, 1, || {
        // The same stream has the same shard. With the lock held, this would never return.
        let Ok(inner) = frames.get_or_write(&mut frames.stream("a"), 1, || frame(1));
        assert_eq!(inner.bytes.len(), 1);
        frame(2)
    });
    assert_eq!(written.bytes.len(), 2, "a writer keeps its own frame");
}
