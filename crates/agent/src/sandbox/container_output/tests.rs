use std::fs;
use std::io::Write;

use super::super::attachments::ContainerInput;
use super::*;

/// Pipes of a container, and the log that `copy` writes.
fn copied(write: impl FnOnce(io::PipeWriter, io::PipeWriter) + Send + 'static) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.log");
    let (output, of_output) = io::pipe().unwrap();
    let (error, of_error) = io::pipe().unwrap();
    let ends = BTreeMap::from([
        (OutputStream::Output, OwnedFd::from(output)),
        (OutputStream::Error, OwnedFd::from(error)),
    ]);
    let output = ContainerOutput::new(ends, ContainerStreams::new(ContainerInput::Null));
    let writing = std::thread::spawn(move || write(of_output, of_error));
    let mut log = LogWriter::open(path.clone(), 1 << 20);
    output.copy(&mut log).unwrap();
    writing.join().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let entries = text.lines().map(|line| line.split_once(' ').unwrap().1);
    entries.collect::<Vec<_>>().join("\n")
}

#[test]
fn entries_have_the_tag_of_their_stream() {
    let log = copied(|mut output, mut error| {
        output.write_all(b"one\ntw").unwrap();
        error.write_all(b"fault\nrest").unwrap();
        drop(error);
        output.write_all(b"o\n").unwrap();
    });
    let mut entries: Vec<&str> = log.lines().collect();
    assert_eq!(entries.len(), 4, "{log}");
    // Each stream keeps its order; an incomplete line does not mix with that of the other stream.
    let of = |tag: &str| entries.iter().position(|entry| *entry == tag);
    assert!(of("stdout F one") < of("stdout F two"), "{log}");
    assert!(of("stderr F fault") < of("stderr P rest"), "{log}");
    entries.sort_unstable();
    assert_eq!(
        entries,
        ["stderr F fault", "stderr P rest", "stdout F one", "stdout F two"]
    );
}

#[test]
fn stream_continues_after_the_end_of_the_other() {
    let log = copied(|mut output, error| {
        drop(error);
        output.write_all(&[b'x'; 100_000]).unwrap();
        output.write_all(b"\nend").unwrap();
    });
    assert_eq!(log.lines().next_back(), Some("stdout P end"));
    let text: usize = log.lines().map(|entry| entry.matches('x').count()).sum();
    assert_eq!(text, 100_000);
}
