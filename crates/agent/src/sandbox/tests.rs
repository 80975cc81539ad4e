use std::collections::BTreeMap;
use std::fs;

use super::log;
use super::protocol::{Action, Message, Outcome, Program, Request};

#[test]
fn requests_and_messages_survive_their_lines() {
    let request = Request {
        id: 7,
        action: Action::Start {
            name: "a".to_owned(),
            program: Program {
                command: vec!["/bin/true".to_owned(), "x\ny".to_owned()],
                environment: BTreeMap::from([("A".to_owned(), "é".to_owned())]),
                ..Program::default()
            },
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
    let line = super::serve::line(&message).unwrap();
    assert_eq!(serde_json::from_slice::<Message>(&line).unwrap(), message);
}

#[test]
fn logs_keep_the_end_and_stay_small() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.log");
    let output: Vec<u8> = (0..100_000u32)
        .flat_map(|i| format!("{i}\n").into_bytes())
        .collect();
    log::copy(output.as_slice(), &path, 50_000);
    let size = |name: &str| fs::metadata(directory.path().join(name)).unwrap().len();
    assert!(size("a.log") <= 50_000 && size("a.log.1") <= 50_000);
    assert!(fs::read_to_string(&path).unwrap().ends_with("99999\n"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}
