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
        witness: None,
    }
}

fn is_quorum(record: &Record, votes: &[&str], has_witness: bool) -> bool {
    record.is_quorum(|name| votes.contains(&&**name), has_witness)
}

#[test]
fn more_than_half_is_a_quorum_and_half_with_the_casting_vote() {
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
fn while_nodes_join_both_lists_need_a_majority() {
    let joint = record(&["a", "b", "c"], &["d"]);
    assert!(!is_quorum(&joint, &["a", "b"], false), "half of four");
    assert!(is_quorum(&joint, &["a", "b"], true));
    assert!(!is_quorum(&joint, &["a", "d"], true), "one of three members");
    assert!(is_quorum(&joint, &["a", "b", "d"], false));
    assert!(joint.is_tie(|name| ["a", "d"].contains(&&**name)));
    assert!(!joint.is_settled(|name| ["a", "d"].contains(&&**name)));
    assert!(joint.is_settled(|name| ["a", "b"].contains(&&**name)));
}

/// Whatever steps lead from one list to the next, a quorum of the one and a quorum of the other share a vote.
#[test]
fn quorums_of_neighbouring_lists_have_a_vote_in_common() {
    let three = record(&["a", "b", "c"], &[]);
    let joint = three.with(&"d".into(), member(1)).unwrap();
    let four = joint.with_joined();
    let removed = four.without(|name| &**name == "b").unwrap();
    assert_eq!((joint.epoch, four.epoch, removed.epoch), (4, 5, 6));
    let steps = [(&three, &joint, ""), (&joint, &four, ""), (&four, &removed, "b")];
    let names = ["a", "b", "c", "d"];
    let chosen =
        |bits: u32| -> Vec<&str> { (0..4).filter(|n| bits & 1 << n != 0).map(|n| names[n]).collect() };
    for (before, after, gone) in steps {
        // Five votes, the casting one with them, each given to one side.
        for bits in 0..32u32 {
            let (one, other) = (chosen(bits), chosen(!bits));
            let one: Vec<&str> = one.into_iter().filter(|name| *name != gone).collect();
            let has_witness = bits & 16 != 0;
            assert!(
                !(is_quorum(before, &one, has_witness) && is_quorum(after, &other, !has_witness)),
                "{one:?} and {other:?}"
            );
        }
    }
}

#[test]
fn a_record_is_read_back_and_junk_is_refused() {
    let mut written = record(&["a", "b"], &["c"]).with_witness(Some("a/1"));
    assert_eq!(Record::from_json(&written.to_json().unwrap()).unwrap(), written);
    written.members.clear();
    assert!(matches!(
        Record::from_json(&written.to_json().unwrap()),
        Err(RecordError::Empty)
    ));
    assert!(matches!(Record::from_json("{}"), Err(RecordError::Json { .. })));
    for n in 0..=MEMBERS_MAX {
        written.members.insert(format!("n{n}").into(), member(1));
    }
    assert!(matches!(
        Record::from_json(&written.to_json().unwrap()),
        Err(RecordError::TooMany { .. })
    ));
}

#[test]
fn the_last_member_may_go_if_somebody_joins() {
    let joint = record(&["a"], &["b"]);
    let next = joint.without(|name| &**name == "a").unwrap();
    assert_eq!(next.members.len(), 1);
    assert!(next.joining.is_empty());
    assert!(next.without(|_| true).is_none());
}

#[test]
fn a_new_entry_of_a_member_changes_no_list() {
    let joint = record(&["a", "b"], &["c"]);
    for name in ["a", "c"] {
        let next = joint.with(&name.into(), member(2)).unwrap();
        assert_eq!((next.sequence, next.epoch), (8, 3));
        assert_eq!(next.member(name), Some(&member(2)));
        assert!(next.members.keys().eq(joint.members.keys()) && next.joining.keys().eq(joint.joining.keys()));
    }
}

#[test]
fn a_record_of_the_version_before_keys_keeps_its_lists_and_casting_vote() {
    let former = r#"{"sequence":9,"epoch":4,"key":"00112233","members":{"a":"192.0.2.1:7947","b":"[2001:db8::1]:7947"},
        "joining":{"c":"192.0.2.3:7947"},"witness":{"holder":"a/1","renewal":9}}"#;
    let record = Record::from_json(former).unwrap();
    assert_eq!((record.sequence, record.epoch), (9, 4));
    assert!(record.members.keys().map(|name| &**name).eq(["a", "b"]));
    assert!(record.joining.keys().map(|name| &**name).eq(["c"]));
    assert!(record.everybody().all(|(_, member)| member.process.is_none()));
    assert_eq!(record.witness.as_ref().unwrap().holder, "a/1");
    assert!(!record.cluster.contains("00112233"), "the key is not shown on");
    let written = record.with(&"a".into(), member(1)).unwrap();
    assert_eq!(Record::from_json(&written.to_json().unwrap()).unwrap(), written);
}

#[test]
fn rejects_numbers_that_no_announcer_reaches_and_later_versions() {
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
