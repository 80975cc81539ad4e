use std::collections::BTreeMap;
use std::fs;

use super::container_log::{LOG_FILES_MAX, LogWriter, OutputStream, older_log};
use super::protocol::{Action, Message, Outcome, Program, Request};

#[test]
fn requests_and_messages_round_trip() {
    let request = Request {
        id: 7,
        action: Action::Start {
            name: "a".to_owned(),
            program: Box::new(Program {
                command: vec!["/bin/true".to_owned(), "x\ny".to_owned()],
                environment: BTreeMap::from([("A".to_owned(), "é".to_owned())]),
                ..Program::default()
            }),
            log: "/tmp/a.log".into(),
        },
    };
    let line = serde_json::to_string(&request).unwrap();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
    let message = Message::Answer {
        id: 7,
        outcome: Outcome::TimedOut {
            output: "a\nb".to_owned(),
        },
    };
    let line = message.encode().unwrap();
    assert_eq!(serde_json::from_slice::<Message>(&line).unwrap(), message);
}

#[test]
fn rotation_keeps_the_end_within_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.log");
    let output: Vec<u8> = (0..100_000u32)
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect();
    LogWriter::open(path.clone(), 50_000).append(OutputStream::Output, &output);
    let size = |path: &std::path::Path| fs::metadata(path).unwrap().len();
    let older: Vec<_> = (1..LOG_FILES_MAX)
        .map(|number| older_log(&path, number))
        .collect();
    assert!(size(&path) <= 50_000 && older.iter().all(|path| size(path) <= 50_000));
    assert!(fs::read_to_string(&path).unwrap().ends_with(" stdout F 99999\n"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), LOG_FILES_MAX);
}

#[test]
fn splits_long_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.log");
    let long = "x".repeat(20_000);
    let mut log = LogWriter::open(path.clone(), 1 << 20);
    log.append(OutputStream::Output, format!("a b\n\n{long}\nend").as_bytes());
    log.end(OutputStream::Output);
    let text = fs::read_to_string(&path).unwrap();
    let entries: Vec<(&str, usize)> = text
        .lines()
        .map(|line| {
            let mut parts = line.splitn(4, ' ').skip(2);
            (parts.next().unwrap(), parts.next().unwrap().len())
        })
        .collect();
    assert_eq!(entries, [("F", 3), ("F", 0), ("P", 16384), ("F", 3616), ("P", 3)]);
}
