//! Batches of events.

use bytes::Bytes;

use super::super::layout::{COMPACTION, stored};
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
fn a_revision_is_a_commit_with_the_last_states_of_what_it_deletes() {
    let record = CommitRecord {
        mark: 7,
        last: [(Key::from("/a/1"), marked("gone@"))].into(),
    };
    let events = [
        event(EventType::Put, "/a/1", 4, stored(&marked("new@"))),
        event(EventType::Put, COMPACTION, 5, Bytes::from_static(b"3")),
        event(EventType::Put, COMMIT, 6, record.encoded()),
        event(EventType::Delete, "/a/1", 6, Bytes::new()),
        event(EventType::Delete, "/a/2", 6, Bytes::new()),
        event(EventType::Put, "/a/3", 7, Bytes::from_static(b"written by hand")),
    ];
    let batch = read(
        &Prefix::new("/p"),
        Offset(10),
        &Transformation::default(),
        &events,
    );
    let told: Vec<String> = batch.commits.iter().map(|commit| format!("{commit:?}")).collect();
    assert_eq!(batch.commits.len(), 2, "{told:?}");
    assert!(
        told[0].contains("Revision(14)") && told[0].contains("new@14"),
        "{told:?}"
    );
    assert!(
        told[1].contains("gone@16") && told[1].contains("last: None"),
        "{told:?}"
    );
    assert_eq!(batch.newest, Some(7));
    let landmark = Landmark {
        mod_revision: 6,
        mark: 7,
    };
    assert_eq!((batch.landmark, batch.layout), (Some(landmark), None));
}

#[test]
fn a_change_of_the_layout_is_told() {
    let layout = Layout::new(3);
    let events = [event(EventType::Put, LAYOUT, 4, layout.encoded())];
    assert_eq!(
        read(&Prefix::new("/p"), Offset(0), &Transformation::default(), &events).layout,
        Some(Some(layout))
    );
    let events = [event(EventType::Delete, LAYOUT, 4, Bytes::new())];
    assert_eq!(
        read(&Prefix::new("/p"), Offset(0), &Transformation::default(), &events).layout,
        Some(None)
    );
}
