use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::*;

/// A sender and a receiver with a pump between them.
struct Fixture {
    sender: UnixStream,
    from: UnixStream,
    to: UnixStream,
    reader: UnixStream,
    direction: Pump,
    buffer: Vec<u8>,
}

impl Fixture {
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
        let mut received = vec![0; bytes_max];
        match self.reader.read(&mut received) {
            Ok(bytes) => received.truncate(bytes),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                received.clear();
            }
        }
        received
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
    let mut fixture = Fixture::new();
    assert_eq!(fixture.pump(), PumpProgress::Drained);
    assert_eq!(fixture.try_send(b"one"), 3);
    assert_eq!(fixture.pump(), PumpProgress::Drained);
    assert_eq!(fixture.try_send(b" two"), 4);
    fixture.sender.shutdown(Shutdown::Write).unwrap();
    // The kernel reports the end once, possibly together with the data.
    fixture.direction.record_peer_closed();
    assert_eq!(fixture.pump(), PumpProgress::Ended);
    assert_eq!(fixture.pump(), PumpProgress::Ended);
    assert_eq!(fixture.read(100), b"one two");
}

#[test]
fn end_of_stream_survives_blocked_receiver() {
    let mut fixture = Fixture::new();
    // Until not even one more step fits.
    while fixture.pump() != PumpProgress::Blocked {
        assert_ne!(
            fixture.try_send(&[1; 4_096]),
            0,
            "the sender is blocked before the relay"
        );
    }
    fixture.sender.shutdown(Shutdown::Write).unwrap();
    fixture.direction.record_peer_closed();
    assert_eq!(fixture.pump(), PumpProgress::Blocked);
    let mut pumped = PumpProgress::Blocked;
    for _ in 0..10_000 {
        fixture.read(1 << 20);
        pumped = fixture.pump();
        if pumped == PumpProgress::Ended {
            break;
        }
    }
    assert_eq!(pumped, PumpProgress::Ended);
}

#[test]
fn urgent_data_is_not_end_of_stream() {
    let mut fixture = Fixture::new();
    fixture.try_send(b"one");
    // A read ends before urgent data, as here before data that is not sent yet.
    fixture.direction.record_peer_closed();
    fixture.direction.read_until_drained();
    assert_eq!(fixture.pump(), PumpProgress::Drained);
    fixture.direction.read_until_drained();
    fixture.try_send(b" two");
    fixture.sender.shutdown(Shutdown::Write).unwrap();
    assert_eq!(fixture.pump(), PumpProgress::Ended);
    assert_eq!(fixture.read(100), b"one two");
}

#[test]
fn partial_initial_data_is_completed() {
    let mut fixture = Fixture::new();
    // More than the receiver takes at once.
    let data = vec![7; BUFFER_BYTES];
    for _ in 0..64 {
        fixture.try_send(&data);
        fixture
            .direction
            .read_available(&fixture.from, &mut fixture.buffer)
            .unwrap();
        assert!(fixture.direction.try_send(&fixture.to).unwrap());
        if fixture.direction.has_unsent() {
            break;
        }
    }
    assert!(fixture.direction.has_unsent(), "the reader takes everything");
    drop(std::mem::replace(
        &mut fixture.reader,
        UnixStream::pair().unwrap().0,
    ));
    assert!(fixture.direction.try_send(&fixture.to).unwrap(), "nobody else is");
    let result = fixture
        .direction
        .pump(&fixture.from, &fixture.to, &mut fixture.buffer);
    assert!(result.is_err());
}

#[test]
fn initial_data_goes_to_next_receiver() {
    let mut fixture = Fixture::new();
    fixture
        .direction
        .read_available(&fixture.from, &mut fixture.buffer)
        .unwrap();
    assert!(!fixture.direction.has_unsent(), "no data was received");
    fixture.try_send(b"one");
    fixture
        .direction
        .read_available(&fixture.from, &mut fixture.buffer)
        .unwrap();
    assert!(fixture.direction.has_unsent() && !fixture.direction.has_sent());
    // The first receiver has disconnected.
    let (gone, reader) = UnixStream::pair().unwrap();
    drop(reader);
    fixture.direction.try_send(&gone).unwrap_err();
    fixture.try_send(b" two");
    fixture
        .direction
        .read_available(&fixture.from, &mut fixture.buffer)
        .unwrap();
    assert!(fixture.direction.try_send(&fixture.to).unwrap());
    assert!(fixture.direction.has_sent() && !fixture.direction.has_unsent());
    assert_eq!(fixture.read(100), b"one");
    assert_eq!(fixture.pump(), PumpProgress::Drained);
    assert_eq!(fixture.read(100), b" two");
}

#[test]
fn closed_receiver_is_an_error() {
    let mut fixture = Fixture::new();
    fixture.try_send(b"data");
    drop(std::mem::replace(
        &mut fixture.reader,
        UnixStream::pair().unwrap().0,
    ));
    let result = fixture
        .direction
        .pump(&fixture.from, &fixture.to, &mut fixture.buffer);
    assert!(result.is_err());
}

proptest! {
    /// Reads and writes of any size: no data is lost, added or reordered, through buffers and pipes.
    #[test]
    fn pump_loses_no_data_at_any_rate(turns in proptest::collection::vec((0usize..300_000, 0usize..300_000), 1..60)) {
        let mut fixture = Fixture::new();
        let word = |at: usize| (at % 251) as u8;
        let (mut sent, mut received) = (0, 0);
        let check = |fixture: &mut Fixture, bytes_max: usize, received: &mut usize| {
            for byte in fixture.read(bytes_max) {
                assert_eq!(byte, word(*received));
                *received += 1;
            }
        };
        for (say, read_available) in turns {
            let data: Vec<u8> = (sent..sent + say).map(word).collect();
            sent += fixture.try_send(&data);
            fixture.pump();
            check(&mut fixture, read_available, &mut received);
        }
        fixture.sender.shutdown(Shutdown::Write).unwrap();
        fixture.direction.record_peer_closed();
        for _ in 0..10_000 {
            let pumped = fixture.pump();
            check(&mut fixture, 1 << 20, &mut received);
            if pumped == PumpProgress::Ended {
                break;
            }
        }
        prop_assert!(fixture.direction.is_ended());
        while received < sent {
            let before = received;
            check(&mut fixture, 1 << 20, &mut received);
            prop_assert!(received > before, "{} of {} bytes are lost", sent - received, sent);
        }
    }
}
