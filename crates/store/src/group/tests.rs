//! Visibility between transactions of one group.

use bytes::Bytes;

use super::*;
use crate::{Expectation, HistoryLimits};

fn empty_index() -> Index {
    Index::restore(HistoryLimits::default(), Revision(7), Vec::new())
}

fn put(expectation: Expectation, text: &'static str) -> Transaction {
    let value = Value {
        bytes: Bytes::from_static(text.as_bytes()),
        revision_at: Some(text.len()),
    };
    let expectations = vec![("/things/a".into(), expectation)];
    Transaction {
        expectations,
        writes: vec![Write::Put("/things/a".into(), value)],
    }
}

fn delete(expectation: Expectation) -> Transaction {
    let writes = vec![Write::Delete {
        key: "/things/a".into(),
        last: None,
    }];
    Transaction {
        expectations: vec![("/things/a".into(), expectation)],
        writes,
    }
}

#[test]
fn transaction_sees_earlier_ones_of_its_group() {
    let index = empty_index();
    let mut group = Group::new(&index);
    assert_eq!(
        group.add(&put(Expectation::Absent, "one@")).ok(),
        Some(Revision(8))
    );
    match group.add(&put(Expectation::Absent, "two@")) {
        Err(CommitError::Conflict {
            current: Some(entry), ..
        }) => assert_eq!(&*entry.value, b"one@8"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        group.add(&put(Expectation::At(Revision(8)), "three@")).ok(),
        Some(Revision(9))
    );
    assert!(group.add(&delete(Expectation::At(Revision(8)))).is_err());
    assert_eq!(
        group.add(&delete(Expectation::At(Revision(9)))).ok(),
        Some(Revision(10))
    );
    assert!(group.add(&put(Expectation::Present, "four@")).is_err());
    assert_eq!(
        group.add(&put(Expectation::Absent, "five@")).ok(),
        Some(Revision(11))
    );
    assert_eq!(group.newest(), Revision(11));

    assert_eq!(
        (index.revision(), index.get("/things/a")),
        (Revision(7), None),
        "not published yet"
    );
    index.publish(group.into_commits()).notify();
    let entry = index.get("/things/a").expect("the entry");
    assert_eq!(
        (&*entry.value, entry.created, entry.modified),
        (&b"five@11"[..], Revision(11), Revision(11))
    );
    assert_eq!(
        index
            .get_at("/things/a", Revision(8))
            .ok()
            .flatten()
            .map(|entry| entry.modified),
        Some(Revision(8))
    );
    assert_eq!(index.get_at("/things/a", Revision(10)).ok().flatten(), None);
}

#[test]
fn transaction_without_effect_gets_no_revision() {
    let index = empty_index();
    let mut group = Group::new(&index);
    assert_eq!(group.add(&delete(Expectation::Absent)).ok(), Some(Revision(7)));
    assert!(group.add(&put(Expectation::Present, "one@")).is_err());
    assert!(group.is_empty());
    assert_eq!(
        group.add(&put(Expectation::Absent, "one@")).ok(),
        Some(Revision(8))
    );
    assert!(!group.is_empty());
}
