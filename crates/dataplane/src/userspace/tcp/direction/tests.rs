use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::*;

/// A sender and a reader with a direction between them.
struct Line {
    sender: UnixStream,
    from: UnixStream,
    to: UnixStream,
    reader: UnixStream,
    direction: Direction,
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
            direction: Direction::default(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    fn pump(&mut self) -> Pumped {
        self.direction
            .pump(&self.from, &self.to, &mut self.buffer)
            .unwrap()
    }

    /// What has arrived, so many bytes at most.
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

    /// Says as many of the words as there is room for; how many.
    fn say(&mut self, words: &[u8]) -> usize {
        match self.sender.write(words) {
            Ok(bytes) => bytes,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                0
            }
        }
    }
}

#[test]
fn what_is_said_is_heard_up_to_the_end() {
    let mut line = Line::new();
    assert_eq!(line.pump(), Pumped::Empty);
    assert_eq!(line.say(b"one"), 3);
    assert_eq!(line.pump(), Pumped::Empty);
    assert_eq!(line.say(b" two"), 4);
    line.sender.shutdown(Shutdown::Write).unwrap();
    // The kernel tells once that this is the end, perhaps together with the words.
    line.direction.note_end();
    assert_eq!(line.pump(), Pumped::Ended);
    assert_eq!(line.pump(), Pumped::Ended);
    assert_eq!(line.read(100), b"one two");
}

#[test]
fn an_end_told_while_the_reader_is_slow_is_not_forgotten() {
    let mut line = Line::new();
    // Until not even one more step fits.
    while line.pump() != Pumped::Full {
        assert_ne!(line.say(&[1; 4_096]), 0, "nothing holds it up");
    }
    line.sender.shutdown(Shutdown::Write).unwrap();
    line.direction.note_end();
    assert_eq!(line.pump(), Pumped::Full);
    let mut pumped = Pumped::Full;
    for _ in 0..10_000 {
        line.read(1 << 20);
        pumped = line.pump();
        if pumped == Pumped::Ended {
            break;
        }
    }
    assert_eq!(pumped, Pumped::Ended);
}

#[test]
fn what_is_urgent_is_not_taken_for_the_end() {
    let mut line = Line::new();
    line.say(b"one");
    // A read ends before what is urgent, as it does here before what is not said yet.
    line.direction.note_end();
    line.direction.read_on();
    assert_eq!(line.pump(), Pumped::Empty);
    line.direction.read_on();
    line.say(b" two");
    line.sender.shutdown(Shutdown::Write).unwrap();
    assert_eq!(line.pump(), Pumped::Ended);
    assert_eq!(line.read(100), b"one two");
}

#[test]
fn who_has_taken_some_words_is_told_the_rest() {
    let mut line = Line::new();
    // More than a reader takes at once.
    let words = vec![7; BUFFER_BYTES];
    for _ in 0..64 {
        line.say(&words);
        line.direction.hear(&line.from, &mut line.buffer).unwrap();
        assert!(line.direction.say(&line.to).unwrap());
        if line.direction.has_rest() {
            break;
        }
    }
    assert!(line.direction.has_rest(), "the reader takes everything");
    drop(std::mem::replace(&mut line.reader, UnixStream::pair().unwrap().0));
    assert!(line.direction.say(&line.to).unwrap(), "nobody else is");
    let result = line.direction.pump(&line.from, &line.to, &mut line.buffer);
    assert!(result.is_err());
}

#[test]
fn what_was_heard_is_said_to_whoever_becomes_the_reader() {
    let mut line = Line::new();
    line.direction.hear(&line.from, &mut line.buffer).unwrap();
    assert!(!line.direction.has_rest(), "nothing was said");
    line.say(b"one");
    line.direction.hear(&line.from, &mut line.buffer).unwrap();
    assert!(line.direction.has_rest() && !line.direction.has_spoken());
    // The first one is gone.
    let (gone, reader) = UnixStream::pair().unwrap();
    drop(reader);
    line.direction.say(&gone).unwrap_err();
    line.say(b" two");
    line.direction.hear(&line.from, &mut line.buffer).unwrap();
    assert!(line.direction.say(&line.to).unwrap());
    assert!(line.direction.has_spoken() && !line.direction.has_rest());
    assert_eq!(line.read(100), b"one");
    assert_eq!(line.pump(), Pumped::Empty);
    assert_eq!(line.read(100), b" two");
}

#[test]
fn a_reader_that_is_gone_is_an_error() {
    let mut line = Line::new();
    line.say(b"words");
    drop(std::mem::replace(&mut line.reader, UnixStream::pair().unwrap().0));
    let result = line.direction.pump(&line.from, &line.to, &mut line.buffer);
    assert!(result.is_err());
}

proptest! {
    /// However much is said and read by turns: nothing is lost, added or out of order, through buffers and pipes.
    #[test]
    fn nothing_is_lost_whatever_the_pace(turns in proptest::collection::vec((0usize..300_000, 0usize..300_000), 1..60)) {
        let mut line = Line::new();
        let word = |at: usize| (at % 251) as u8;
        let (mut said, mut heard) = (0, 0);
        let check = |line: &mut Line, bytes_max: usize, heard: &mut usize| {
            for byte in line.read(bytes_max) {
                assert_eq!(byte, word(*heard));
                *heard += 1;
            }
        };
        for (say, hear) in turns {
            let words: Vec<u8> = (said..said + say).map(word).collect();
            said += line.say(&words);
            line.pump();
            check(&mut line, hear, &mut heard);
        }
        line.sender.shutdown(Shutdown::Write).unwrap();
        line.direction.note_end();
        for _ in 0..10_000 {
            let pumped = line.pump();
            check(&mut line, 1 << 20, &mut heard);
            if pumped == Pumped::Ended {
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
