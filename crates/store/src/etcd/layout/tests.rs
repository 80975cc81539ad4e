//! Round trips of the layout, and rejection of other data.

use proptest::prelude::*;

use super::*;

fn value() -> impl Strategy<Value = Value> {
    (
        proptest::collection::vec(any::<u8>(), 0..40),
        proptest::option::of(0..40_usize),
    )
        .prop_map(|(bytes, at)| Value {
            revision_at: at.map(|at| at.min(bytes.len())),
            bytes: bytes.into(),
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_round_trip(value in value()) {
        prop_assert_eq!(parse_stored(&encode_value(&value)), Some(value));
    }

    #[test]
    fn commit_records_round_trip(mark: u64, last in proptest::collection::hash_map("/[a-z/\n ]{0,20}", value(), 0..4)) {
        let last = last.into_iter().map(|(key, value)| (Key::from(key), value)).collect();
        let record = CommitRecord { mark, last };
        prop_assert_eq!(CommitRecord::parse(&record.encode()), Some(record));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let bytes = Bytes::from(bytes);
        if let Some(value) = parse_stored(&bytes) {
            prop_assert!(value.with_revision(Revision(1)).is_some());
        }
        CommitRecord::parse(&bytes);
        Layout::parse(&bytes);
    }
}

#[test]
fn rejects_revision_offset_out_of_bounds() {
    assert_eq!(parse_stored(&Bytes::from_static(b"3\nab")), None);
    assert_eq!(parse_stored(&Bytes::from_static(b"ab")), None);
    assert_eq!(parse_stored(&Bytes::from_static(b"-1\nab")), None);
}

#[test]
fn layout_round_trips_and_newer_version_is_detected() {
    for is_complete in [true, false] {
        let layout = Layout {
            is_complete,
            ..Layout::new(7)
        };
        assert_eq!(Layout::parse(&layout.encode()), Some(layout));
    }
    let newer = Layout::parse(b"portolan-store 9\nwhatever").expect("a layout");
    assert_eq!(newer.version, 9);
    assert_eq!(Layout::parse(b"{\"kind\":\"Service\"}"), None);
}

#[test]
fn revisions_are_shifted_by_the_offset() {
    let offset = Offset(100);
    assert_eq!(offset.revision(5), Revision(105));
    assert_eq!(offset.etcd(Revision(105)), 5);
    // Neither a revision that etcd never had, nor one that etcd interprets as an absent key.
    for never in [0, 99, 100] {
        assert_eq!(offset.etcd(Revision(never)), -1);
    }
}

#[test]
fn next_write_exceeds_given_revision() {
    for (now, revision) in [(1, 0), (1, 40), (40, 40), (41, 40), (900, 40)] {
        let offset = Offset::after(now, Revision(revision));
        assert!(offset.revision(now + 1) > Revision(revision), "{now} {revision}");
    }
    assert_eq!(Offset::after(1, Revision(40)).revision(2), Revision(41));
}

#[test]
fn prefix_ranges_do_not_overlap() {
    let prefix = Prefix::new("/portolan/");
    assert_eq!(prefix.key("/services/a"), "/portolan/services/a");
    assert_eq!(
        prefix.range(),
        (Bytes::from("/portolan/"), Bytes::from("/portolan0"))
    );
    assert_eq!(prefix.strip(b"/portolan/services/a"), Some("/services/a"));
    assert_eq!(prefix.strip(b"/portolan2/services/a"), None);
    assert!(is_object("/services/a") && !is_object(COMMIT) && !is_object("services"));
}
