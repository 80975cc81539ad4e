use jiff::Timestamp;

use super::*;
use crate::view::rows::Totals;

fn change(revision: u64, removed: usize) -> Change {
    Change {
        revision,
        time: Timestamp::UNIX_EPOCH,
        services: Vec::new(),
        removed_services: vec!["shop/web".to_owned(); removed],
        nodes: Vec::new(),
        removed_nodes: Vec::new(),
        totals: Totals::default(),
    }
}

#[test]
fn reader_gets_each_change_after_its_revision() {
    let mut log = ChangeLog::new(100);
    assert_eq!(log.after(100), NextPart::Nothing);
    for revision in 101..=103 {
        log.push(&change(revision, 0)).expect("an encoded change");
    }
    for (revision, next) in [(101, 102), (102, 103)] {
        let NextPart::Change(event, at) = log.after(revision) else {
            panic!("expected a change: {:?}", log.after(revision));
        };
        let text = String::from_utf8_lossy(&event).into_owned();
        let start = format!("id: {next}\nevent: change\ndata: {{\"revision\":{next},");
        assert_eq!(at, next);
        assert!(text.starts_with(&start) && text.ends_with("}\n\n"), "{text}");
    }
    assert_eq!(log.after(103), NextPart::Nothing);
}

#[test]
fn reader_of_an_unknown_revision_reloads() {
    let mut log = ChangeLog::new(100);
    log.push(&change(101, 0)).expect("an encoded change");
    for unknown in [0, 99, 102, u64::MAX] {
        assert_eq!(log.after(unknown), NextPart::Reload(101), "{unknown}");
    }
}

#[test]
fn number_and_bytes_of_changes_are_bounded() {
    let mut log = ChangeLog::new(0);
    for revision in 1..=10_000 {
        log.push(&change(revision, 0)).expect("an encoded change");
        assert!(log.len() <= CHANGES_MAX);
    }
    assert_eq!(log.after(1), NextPart::Reload(10_000));
    for revision in 10_001..=10_200 {
        log.push(&change(revision, 20_000)).expect("an encoded change");
        assert!(log.bytes() <= BYTES_MAX);
    }
    assert!(log.len() < CHANGES_MAX && !log.is_empty());
    assert!(matches!(log.after(10_199), NextPart::Change(_, 10_200)));
}
