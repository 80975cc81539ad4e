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
fn reader_gets_the_changes_after_its_revision() {
    let mut log = ChangeLog::new(100);
    assert_eq!(log.after(100), Following::Nothing);
    for revision in 101..=103 {
        log.push(&change(revision, 0)).expect("an encoded change");
    }
    let Following::Changes(events, 103) = log.after(101) else {
        panic!("expected changes: {:?}", log.after(101));
    };
    let texts: Vec<String> = events
        .iter()
        .map(|event| String::from_utf8_lossy(event).into_owned())
        .collect();
    assert_eq!(texts.len(), 2);
    assert!(
        texts[0].starts_with("id: 102\nevent: change\ndata: {\"revision\":102,"),
        "{}",
        texts[0]
    );
    assert!(texts[1].ends_with("}\n\n"));
    assert_eq!(log.after(103), Following::Nothing);
}

#[test]
fn reader_of_an_unknown_revision_reloads() {
    let mut log = ChangeLog::new(100);
    log.push(&change(101, 0)).expect("an encoded change");
    for unknown in [0, 99, 102, u64::MAX] {
        assert_eq!(log.after(unknown), Following::Reload(101), "{unknown}");
    }
}

#[test]
fn number_and_bytes_of_changes_are_bounded() {
    let mut log = ChangeLog::new(0);
    for revision in 1..=10_000 {
        log.push(&change(revision, 0)).expect("an encoded change");
        assert!(log.len() <= CHANGES_MAX);
    }
    assert_eq!(log.after(1), Following::Reload(10_000));
    for revision in 10_001..=10_200 {
        log.push(&change(revision, 20_000)).expect("an encoded change");
        assert!(log.bytes() <= BYTES_MAX);
    }
    assert!(log.len() < CHANGES_MAX && !log.is_empty());
    let Following::Changes(events, 10_200) = log.after(10_199) else {
        panic!("the latest change is kept");
    };
    assert_eq!(events.len(), 1);
}
