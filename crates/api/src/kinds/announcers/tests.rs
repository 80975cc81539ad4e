use super::*;

fn member(incarnation: u64) -> Member {
    Member {
        address: "192.0.2.1:1".parse().unwrap(),
        process: Some(Process {
            incarnation,
            public_key: PublicKey([1; 32]),
        }),
    }
}

fn record(members: &[&str], joining: &[&str]) -> Record {
    let list = |names: &[&str]| {
        let entries = names.iter().map(|name| (NodeName::from(*name), member(1)));
        entries.collect()
    };
    Record {
        version: VERSION,
        cluster: "00".repeat(16),
        sequence: 7,
        epoch: 3,
        members: list(members),
        joining: list(joining),
        tie_breaker: None,
    }
}

fn is_quorum(record: &Record, votes: &[&str], has_tie_breaker: bool) -> bool {
    record.is_quorum(|name| votes.contains(&&**name), has_tie_breaker)
}

#[test]
fn quorum_is_more_than_half_or_half_with_the_tie_breaker() {
    let one = record(&["a"], &[]);
    assert!(is_quorum(&one, &["a"], false));
    assert!(!is_quorum(&one, &[], true));
    let two = record(&["a", "b"], &[]);
    assert!(!is_quorum(&two, &["a"], false));
    assert!(is_quorum(&two, &["a"], true));
    assert!(is_quorum(&two, &["a", "b"], false));
    let three = record(&["a", "b", "c"], &[]);
    assert!(!is_quorum(&three, &["a"], true));
    assert!(is_quorum(&three, &["a", "c"], false));
}

#[test]
fn joining_needs_a_majority_of_both_lists() {
    let joint = record(&["a", "b", "c"], &["d"]);
    assert!(!is_quorum(&joint, &["a", "b"], false), "half of four");
    assert!(is_quorum(&joint, &["a", "b"], true));
    assert!(!is_quorum(&joint, &["a", "d"], true), "one of three members");
    assert!(is_quorum(&joint, &["a", "b", "d"], false));
    assert!(joint.is_tie(|name| ["a", "d"].contains(&&**name)));
    assert!(!joint.is_settled(|name| ["a", "d"].contains(&&**name)));
    assert!(joint.is_settled(|name| ["a", "b"].contains(&&**name)));
}

/// After any step from one list to the next, a quorum of each list shares a vote with a quorum of the other.
#[test]
fn quorums_of_successive_lists_intersect() {
    let three = record(&["a", "b", "c"], &[]);
    let joint = three.with(&"d".into(), member(1)).unwrap();
    let four = joint.with_joined();
    let removed = four.without(|name| &**name == "b").unwrap();
    assert_eq!((joint.epoch, four.epoch, removed.epoch), (4, 5, 6));
    let steps = [(&three, &joint, ""), (&joint, &four, ""), (&four, &removed, "b")];
    let names = ["a", "b", "c", "d"];
    let chosen = |bits: u32| -> Vec<&str> {
        (0..4)
            .filter(|index| bits & 1 << index != 0)
            .map(|index| names[index])
            .collect()
    };
    for (before, after, gone) in steps {
        // Five votes with the tie-breaker; each belongs to one side.
        for bits in 0..32u32 {
            let (one, other) = (chosen(bits), chosen(!bits));
            let one: Vec<&str> = one.into_iter().filter(|name| *name != gone).collect();
            let has_tie_breaker = bits & 16 != 0;
            assert!(
                !(is_quorum(before, &one, has_tie_breaker) && is_quorum(after, &other, !has_tie_breaker)),
                "{one:?} and {other:?}"
            );
        }
    }
}

/// The list that a member creates again may be one step older than the deleted one, which another node uses.
#[test]
fn quorums_of_a_deleted_list_and_of_the_one_created_again_intersect() {
    let known = record(&["a", "b", "c"], &[]);
    let deleted = known.with(&"d".into(), member(1)).unwrap();
    let created = known.created_again(deleted.epoch, None, 5);
    assert!(created.epoch > deleted.epoch && created.is_created_again());
    let names = ["a", "b", "c", "d"];
    for bits in 0..16u32 {
        let side = |bits: u32| {
            names
                .iter()
                .enumerate()
                .filter(move |(index, _)| bits & 1 << index != 0)
        };
        let one: Vec<&str> = side(bits).map(|(_, name)| *name).collect();
        let other: Vec<&str> = side(!bits).map(|(_, name)| *name).collect();
        assert!(
            !(is_quorum(&created, &one, false) && is_quorum(&deleted, &other, true)),
            "{one:?} and {other:?}"
        );
    }
}

#[test]
fn list_is_created_again_only_with_half_of_each_list() {
    let is_last_of_half =
        |record: &Record, names: &[&str]| record.is_last_of_half(|name| names.contains(&&**name));
    let three = record(&["a", "b", "c"], &["d"]);
    assert!(is_last_of_half(&three, &["a", "c"]));
    assert!(!is_last_of_half(&three, &["a", "d"]));
    let two = record(&["a", "b"], &[]);
    assert!(is_last_of_half(&two, &["a"]));
    // The joining nodes may have become members, and may have admitted others since.
    let one = record(&["a"], &["b", "c", "d"]);
    assert!(!is_last_of_half(&one, &["a"]));
    assert!(is_last_of_half(&one, &["a", "d"]));
}

#[test]
fn list_that_is_created_again_reserves_the_tie_breaker() {
    let held = record(&["a", "b"], &[]).with_tie_breaker(Some("a/1"));
    for (holder, expected) in [(None, RESERVED_HOLDER), (Some("b/2"), "b/2")] {
        let created = held.created_again(0, holder, 5);
        let vote = created.tie_breaker.as_ref().expect("a holder");
        assert_eq!((vote.holder.as_str(), vote.renewal), (expected, created.sequence));
    }
    let exaggerated = held.created_again(u64::MAX, None, u64::MAX);
    assert!(exaggerated.is_created_again());
    assert!(exaggerated.checked().is_ok());
}

/// No member could write into such a list.
#[test]
fn list_without_numbers_for_later_writes_is_not_one_created_again() {
    let created = record(&["a", "b"], &[]).created_again(0, None, 5);
    assert!(created.is_created_again());
    let mut last_epoch = created.clone();
    last_epoch.epoch = NUMBER_MAX - 1;
    assert!(!last_epoch.is_created_again());
    let mut last_sequence = created;
    last_sequence.sequence = NUMBER_MAX - 2;
    let last_sequence = last_sequence.with_tie_breaker(Some(RESERVED_HOLDER));
    assert_eq!(last_sequence.sequence, NUMBER_MAX - 1);
    assert!(!last_sequence.is_created_again());
}

#[test]
fn record_reads_back_and_rejects_malformed_text() {
    let mut written = record(&["a", "b"], &["c"]).with_tie_breaker(Some("a/1"));
    assert_eq!(Record::from_json(&written.to_json().unwrap()).unwrap(), written);
    written.members.clear();
    assert!(matches!(
        Record::from_json(&written.to_json().unwrap()),
        Err(RecordError::Empty)
    ));
    assert!(matches!(Record::from_json("{}"), Err(RecordError::Json { .. })));
    for number in 0..=MEMBERS_MAX {
        written.members.insert(format!("n{number}").into(), member(1));
    }
    assert!(matches!(
        Record::from_json(&written.to_json().unwrap()),
        Err(RecordError::TooMany { .. })
    ));
}

#[test]
fn last_member_can_leave_if_a_node_is_joining() {
    let joint = record(&["a"], &["b"]);
    let next = joint.without(|name| &**name == "a").unwrap();
    assert_eq!(next.members.len(), 1);
    assert!(next.joining.is_empty());
    assert!(next.without(|_| true).is_none());
}

#[test]
fn list_records_if_it_ever_had_another_node() {
    let founded = Record::founded_by("a".into(), member(1), "00".repeat(16));
    assert!(founded.never_had_other_than("a"));
    assert!(!founded.never_had_other_than("b"));
    let restarted = founded.with(&"a".into(), member(2)).expect("an entry");
    assert!(restarted.never_had_other_than("a"));
    let joint = restarted.with(&"b".into(), member(3)).expect("space");
    assert!(!joint.never_had_other_than("a"));
    let alone = joint.without(|name| &**name == "b").expect("a member");
    assert_eq!(alone.members.len(), 1);
    assert!(!alone.never_had_other_than("a"), "another node was in the list");
}

#[test]
fn new_entry_of_a_member_keeps_the_epoch() {
    let joint = record(&["a", "b"], &["c"]);
    for name in ["a", "c"] {
        let next = joint.with(&name.into(), member(2)).unwrap();
        assert_eq!((next.sequence, next.epoch), (8, 3));
        assert_eq!(next.member(name), Some(&member(2)));
        assert!(next.members.keys().eq(joint.members.keys()) && next.joining.keys().eq(joint.joining.keys()));
    }
}

#[test]
fn record_without_keys_keeps_its_lists_and_tie_breaker() {
    let former = r#"{"sequence":9,"epoch":4,"key":"00112233","members":{"a":"192.0.2.1:7947","b":"[2001:db8::1]:7947"},
        "joining":{"c":"192.0.2.3:7947"},"witness":{"holder":"a/1","renewal":9}}"#;
    let record = Record::from_json(former).unwrap();
    assert_eq!((record.sequence, record.epoch), (9, 4));
    assert!(record.members.keys().map(|name| &**name).eq(["a", "b"]));
    assert!(record.joining.keys().map(|name| &**name).eq(["c"]));
    assert!(
        record
            .members_and_joining()
            .all(|(_, member)| member.process.is_none())
    );
    assert_eq!(record.tie_breaker.as_ref().unwrap().holder, "a/1");
    assert!(
        !record.cluster.contains("00112233"),
        "the secret is not published"
    );
    let written = record.with(&"a".into(), member(1)).unwrap();
    assert_eq!(Record::from_json(&written.to_json().unwrap()).unwrap(), written);
}

#[test]
fn rejects_large_counters_and_later_versions() {
    let mut written = record(&["a"], &[]);
    written.epoch = u64::MAX;
    assert!(matches!(
        Record::from_json(&written.to_json().unwrap()),
        Err(RecordError::Number { found: u64::MAX })
    ));
    let mut written = record(&["a"], &[]);
    written.version = VERSION + 1;
    assert!(matches!(
        Record::from_json(&written.to_json().unwrap()),
        Err(RecordError::Version { .. })
    ));
}
