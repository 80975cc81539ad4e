use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::*;

/// A sender and a receiver with a pump between them.
struct Line {
    sender: UnixStream,
    from: UnixStream,
    to: UnixStream,
    reader: UnixStream,
    direction: Pump,
    buffer: Vec<u8>,
}

impl Line {
    fn new() -> Self {
        let (sender, from) = UnixStream::pair().unwrap();
        let (to, reader) = UnixStream::pair().unwrap();
        for stream in [&sender, &from, &to, &reader] {
            stream.set_nonblocking(true).unwrap();
        }
        Self {
            sender,
            from,
            to,
            reader,
            direction: Pump::default(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    fn pump(&mut self) -> PumpProgress {
        self.direction
            .pump(&self.from, &self.to, &mut self.buffer)
            .unwrap()
    }

    /// Reads at most `bytes_max` bytes that have arrived.
    fn read(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut heard = vec![0; bytes_max];
        match self.reader.read(&mut heard) {
            Ok(bytes) => heard.truncate(bytes),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                heard.clear();
            }
        }
        heard
    }

    /// Sends as much data as fits; returns the number of bytes.
    fn try_send(&mut self, data: &[u8]) -> usize {
        match self.sender.write(data) {
            Ok(bytes) => bytes,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                0
            }
        }
    }
}

#[test]
fn relays_data_up_to_end_of_stream() {
    let mut line = Line::new();
    assert_eq!(line.pump(), PumpProgress::Drained);
    assert_eq!(line.try_send(b"one"), 3);
    assert_eq!(line.pump(), PumpProgress::Drained);
    assert_eq!(line.try_send(b" two"), 4);
    line.sender.shutdown(Shutdown::Write).unwrap();
    // The kernel reports the end once, possibly together with the data.
    line.direction.note_peer_closed();
    assert_eq!(line.pump(), PumpProgress::Ended);
    assert_eq!(line.pump(), PumpProgress::Ended);
    assert_eq!(line.read(100), b"one two");
}

#[test]
fn end_of_stream_survives_blocked_receiver() {
    let mut line = Line::new();
    // Until not even one more step fits.
    while line.pump() != PumpProgress::Blocked {
        assert_ne!(line.try_send(&[1; 4_096]), 0, "nothing holds it up");
    }
    line.sender.shutdown(Shutdown::Write).unwrap();
    line.direction.note_peer_closed();
    assert_eq!(line.pump(), PumpProgress::Blocked);
    let mut pumped = PumpProgress::Blocked;
    for _ in 0..10_000 {
        line.read(1 << 20);
        pumped = line.pump();
        if pumped == PumpProgress::Ended {
            break;
        }
    }
    assert_eq!(pumped, PumpProgress::Ended);
}

#[test]
fn urgent_data_is_not_end_of_stream() {
    let mut line = Line::new();
    line.try_send(b"one");
    // A read ends before urgent data, as here before data that is not sent yet.
    line.direction.note_peer_closed();
    line.direction.read_until_drained();
    assert_eq!(line.pump(), PumpProgress::Drained);
    line.direction.read_until_drained();
    line.try_send(b" two");
    line.sender.shutdown(Shutdown::Write).unwrap();
    assert_eq!(line.pump(), PumpProgress::Ended);
    assert_eq!(line.read(100), b"one two");
}

#[test]
fn partial_initial_data_is_completed() {
    let mut line = Line::new();
    // More than the receiver takes at once.
    let data = vec![7; BUFFER_BYTES];
    for _ in 0..64 {
        line.try_send(&data);
        line.direction
            .read_available(&line.from, &mut line.buffer)
            .unwrap();
        assert!(line.direction.try_send(&line.to).unwrap());
        if line.direction.has_unsent() {
            break;
        }
    }
    assert!(line.direction.has_unsent(), "the reader takes everything");
    drop(std::mem::replace(&mut line.reader, UnixStream::pair().unwrap().0));
    assert!(line.direction.try_send(&line.to).unwrap(), "nobody else is");
    let result = line.direction.pump(&line.from, &line.to, &mut line.buffer);
    assert!(result.is_err());
}

#[test]
fn initial_data_goes_to_next_receiver() {
    let mut line = Line::new();
    line.direction
        .read_available(&line.from, &mut line.buffer)
        .unwrap();
    assert!(!line.direction.has_unsent(), "nothing was said");
    line.try_send(b"one");
    line.direction
        .read_available(&line.from, &mut line.buffer)
        .unwrap();
    assert!(line.direction.has_unsent() && !line.direction.has_sent());
    // The first receiver is gone.
    let (gone, reader) = UnixStream::pair().unwrap();
    drop(reader);
    line.direction.try_send(&gone).unwrap_err();
    line.try_send(b" two");
    line.direction
        .read_available(&line.from, &mut line.buffer)
        .unwrap();
    assert!(line.direction.try_send(&line.to).unwrap());
    assert!(line.direction.has_sent() && !line.direction.has_unsent());
    assert_eq!(line.read(100), b"one");
    assert_eq!(line.pump(), PumpProgress::Drained);
    assert_eq!(line.read(100), b" two");
}

#[test]
fn closed_receiver_is_an_error() {
    let mut line = Line::new();
    line.try_send(b"data");
    drop(std::mem::replace(&mut line.reader, UnixStream::pair().unwrap().0));
    let result = line.direction.pump(&line.from, &line.to, &mut line.buffer);
    assert!(result.is_err());
}

proptest! {
    /// Reads and writes of any size: no data is lost, added or reordered, through buffers and pipes.
    #[test]
    fn pump_loses_no_data_at_any_rate(turns in proptest::collection::vec((0usize..300_000, 0usize..300_000), 1..60)) {
        let mut line = Line::new();
        let word = |at: usize| (at % 251) as u8;
        let (mut said, mut heard) = (0, 0);
        let check = |line: &mut Line, bytes_max: usize, heard: &mut usize| {
            for byte in line.read(bytes_max) {
                assert_eq!(byte, word(*heard));
                *heard += 1;
            }
        };
        for (say, read_available) in turns {
            let data: Vec<u8> = (said..said + say).map(word).collect();
            said += line.try_send(&data);
            line.pump();
            check(&mut line, read_available, &mut heard);
        }
        line.sender.shutdown(Shutdown::Write).unwrap();
        line.direction.note_peer_closed();
        for _ in 0..10_000 {
            let pumped = line.pump();
            check(&mut line, 1 << 20, &mut heard);
            if pumped == PumpProgress::Ended {
                break;
            }
        }
        prop_assert!(line.direction.is_ended());
        while heard < said {
            let before = heard;
            check(&mut line, 1 << 20, &mut heard);
            prop_assert!(heard > before, "{} of {} bytes are lost", said - heard, said);
        }
    }
}
