use super::*;

fn record(members: &[&str], joining: &[&str]) -> Record {
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|name| (NodeName::from(*name), "192.0.2.1:1".parse().unwrap()))
            .collect()
    };
    Record {
        sequence: 7,
        epoch: 3,
        key: "00".repeat(16),
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
    let joint = three.with(&"d".into(), "192.0.2.4:1".parse().unwrap()).unwrap();
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
        written
            .members
            .insert(format!("n{n}").into(), "192.0.2.1:1".parse().unwrap());
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
