use super::*;

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";

fn entry(port: u16) -> String {
    format!(r#"{{"address":"192.0.2.1:{port}","process":{{"incarnation":1,"publicKey":"{KEY}"}}}}"#)
}

fn list(names: &[&str]) -> String {
    let entries: Vec<String> = names
        .iter()
        .map(|name| format!("{name:?}:{}", entry(1)))
        .collect();
    format!("{{{}}}", entries.join(","))
}

/// A record with these lists, after so many writes.
fn written(sequence: u64, epoch: u64, members: &[&str], joining: &[&str]) -> Record {
    let text = format!(
        r#"{{"version":3,"cluster":"c","sequence":{sequence},"epoch":{epoch},"members":{},"joining":{}}}"#,
        list(members),
        list(joining)
    );
    Record::from_json(&text).unwrap()
}

/// The next record, changed so.
fn next(before: &Record, change: impl FnOnce(&mut Record)) -> Record {
    let mut after = before.clone();
    after.sequence += 1;
    change(&mut after);
    after
}

fn moved(record: &mut Record, name: &str) {
    let lists = [&mut record.members, &mut record.joining];
    for entry in lists.into_iter().filter_map(|list| list.get_mut(name)) {
        entry.address = "203.0.113.9:1".parse().unwrap();
    }
}

/// Whether the announcer of node `a` may make the change; the Node `gone` is gone.
fn may(before: &Record, after: &Record) -> bool {
    change("a", before, after, |name| name == "gone").is_ok()
}

fn holder(name: &str) -> Option<TieBreaker> {
    let holder = format!("{name}/0000000000000001");
    Some(TieBreaker { holder, renewal: 1 })
}

#[test]
fn admits_what_announcers_write() {
    let before = written(5, 2, &["a", "b", "gone"], &["c"]);
    assert!(may(&before, &next(&before, |record| moved(record, "a"))));
    assert!(may(&before, &before.with_joined()));
    assert!(may(&before, &before.without(|name| &**name == "gone").unwrap()));
    assert!(may(&before, &before.with_tie_breaker(Some("a/0000000000000001"))));
    let joining = written(5, 2, &["b"], &[]);
    let entry = before.member("a").unwrap().clone();
    assert!(may(&joining, &joining.with(&"a".into(), entry).unwrap()));
    let held = before.with_tie_breaker(Some("a/0000000000000001"));
    assert!(may(&held, &held.with_tie_breaker(None)));
}

#[test]
fn rejects_changes_of_other_entries() {
    let before = written(5, 2, &["a", "b", "gone"], &["c"]);
    for name in ["b", "c", "gone"] {
        assert!(
            !may(&before, &next(&before, |record| moved(record, name))),
            "{name}"
        );
    }
}

#[test]
fn rejects_removal_of_a_member_whose_node_exists() {
    let before = written(5, 2, &["a", "b", "gone"], &["c"]);
    for name in ["b", "c"] {
        assert!(
            !may(&before, &before.without(|gone| &**gone == name).unwrap()),
            "{name}"
        );
    }
}

#[test]
fn rejects_members_that_did_not_join_and_new_ones_but_oneself() {
    let before = written(5, 2, &["b", "d"], &["c"]);
    let entry = || before.member("b").unwrap().clone();
    let with_member = next(&before, |record| {
        record.epoch += 1;
        record.members.insert("a".into(), entry());
    });
    assert!(!may(&before, &with_member), "a member at once");
    assert!(
        !may(&before, &before.with(&"x".into(), entry()).unwrap()),
        "another node"
    );
    let demoted = next(&before, |record| {
        record.epoch += 1;
        let entry = record.members.remove("d").unwrap();
        record.joining.insert("d".into(), entry);
    });
    assert!(!may(&before, &demoted), "a member that is to join again");
    let mut half = before.with(&"a".into(), entry()).unwrap();
    half.sequence = before.sequence;
    let promoted = next(&half, |record| {
        record.epoch += 1;
        let entry = record.joining.remove("a").unwrap();
        record.members.insert("a".into(), entry);
    });
    assert!(!may(&half, &promoted), "one of two who join");
}

#[test]
fn rejects_numbers_out_of_turn_and_another_cluster() {
    let before = written(5, 2, &["a", "b"], &[]);
    let rejects = |change: fn(&mut Record)| assert!(!may(&before, &next(&before, change)));
    rejects(|record| record.sequence += 1);
    rejects(|record| record.sequence -= 1);
    rejects(|record| record.epoch += 1);
    rejects(|record| record.epoch -= 1);
    rejects(|record| record.cluster = "other".to_owned());
}

#[test]
fn rejects_the_casting_vote_in_other_hands() {
    let mut before = written(5, 2, &["a", "b"], &[]);
    before.tie_breaker = holder("b");
    assert!(
        !may(&before, &next(&before, |record| record.tie_breaker = None)),
        "taken away"
    );
    assert!(
        !may(&before, &next(&before, |record| record.tie_breaker = holder("c"))),
        "given"
    );
    assert!(
        may(&before, &next(&before, |record| record.tie_breaker = holder("a"))),
        "taken over"
    );
}

#[test]
fn rejects_a_first_record_of_others() {
    assert!(founding("a", &written(1, 1, &["a"], &[])).is_ok());
    for record in [
        written(1, 1, &["b"], &[]),
        written(1, 1, &["a", "b"], &[]),
        written(1, 1, &["a"], &["b"]),
        written(9, 9, &["a"], &[]),
    ] {
        assert!(founding("a", &record).is_err());
    }
}

/// The garbage collector would delete the Lease of an owner that is not there, and its deletion founds a new cluster.
#[test]
fn metadata_of_others_is_told_apart() {
    let lease = |metadata: Value| serde_json::json!({ "metadata": metadata });
    let own = serde_json::json!({"name": NAME, "annotations": {ANNOTATION: "x"}, "resourceVersion": "7"});
    assert!(foreign_metadata(&lease(own)).is_empty());
    for foreign in [
        serde_json::json!({"ownerReferences": [{"uid": "x"}]}),
        serde_json::json!({"finalizers": ["x"]}),
        serde_json::json!({"labels": {"a": "b"}}),
        serde_json::json!({"annotations": {ANNOTATION: "x", "other": "y"}}),
    ] {
        assert_eq!(foreign_metadata(&lease(foreign)).len(), 1);
    }
}
