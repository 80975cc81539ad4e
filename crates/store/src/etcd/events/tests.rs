//! Conversion of batches of etcd events to commits.

use bytes::Bytes;

use super::super::layout::{COMPACTION, encode_value};
use super::*;
use crate::Value;

fn event(kind: EventType, key: &str, mod_revision: i64, value: Bytes) -> Event {
    let kv = KeyValue {
        key: Prefix::new("/p").key(key),
        create_revision: 1,
        mod_revision,
        value,
    };
    Event {
        kind: kind.into(),
        kv: Some(kv),
    }
}

fn marked(text: &'static str) -> Value {
    Value {
        bytes: Bytes::from_static(text.as_bytes()),
        revision_at: Some(text.len()),
    }
}

#[test]
fn commit_contains_last_states_of_deleted_keys() {
    let record = CommitRecord {
        mark: 7,
        last: [(Key::from("/a/1"), marked("gone@"))].into(),
    };
    let events = [
        event(EventType::Put, "/a/1", 4, encode_value(&marked("new@"))),
        event(EventType::Put, COMPACTION, 5, Bytes::from_static(b"3")),
        event(EventType::Put, COMMIT, 6, record.encode()),
        event(EventType::Delete, "/a/1", 6, Bytes::new()),
        event(EventType::Delete, "/a/2", 6, Bytes::new()),
        event(EventType::Put, "/a/3", 7, Bytes::from_static(b"written by hand")),
    ];
    let batch = convert(
        &Prefix::new("/p"),
        Offset(10),
        &Transformation::default(),
        &events,
    );
    let commits: Vec<String> = batch.commits.iter().map(|commit| format!("{commit:?}")).collect();
    assert_eq!(batch.commits.len(), 2, "{commits:?}");
    assert!(
        commits[0].contains("Revision(14)") && commits[0].contains("new@14"),
        "{commits:?}"
    );
    assert!(
        commits[1].contains("gone@16") && commits[1].contains("last: None"),
        "{commits:?}"
    );
    assert_eq!(batch.newest, Some(7));
    let history_mark = HistoryMark {
        mod_revision: 6,
        mark: 7,
    };
    assert_eq!((batch.history_mark, batch.layout), (Some(history_mark), None));
}

#[test]
fn reports_layout_change() {
    let layout = Layout::new(3);
    let events = [event(EventType::Put, LAYOUT, 4, layout.encode())];
    assert_eq!(
        convert(&Prefix::new("/p"), Offset(0), &Transformation::default(), &events).layout,
        Some(Some(layout))
    );
    let events = [event(EventType::Delete, LAYOUT, 4, Bytes::new())];
    assert_eq!(
        convert(&Prefix::new("/p"), Offset(0), &Transformation::default(), &events).layout,
        Some(None)
    );
}
