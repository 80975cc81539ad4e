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

/// A record with these lists after `sequence` writes.
fn record_of(sequence: u64, epoch: u64, members: &[&str], joining: &[&str]) -> Record {
    let text = format!(
        r#"{{"version":3,"cluster":"c","sequence":{sequence},"epoch":{epoch},"members":{},"joining":{}}}"#,
        list(members),
        list(joining)
    );
    Record::from_json(&text).unwrap()
}

/// The record after one more write.
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

/// Returns true if the announcer of node `a` may make the change. The Node `gone` does not exist.
fn is_admitted(before: &Record, after: &Record) -> bool {
    check_change("a", before, after, |name| name == "gone").is_ok()
}

fn holder(name: &str) -> Option<TieBreaker> {
    let holder = format!("{name}/0000000000000001");
    Some(TieBreaker { holder, renewal: 1 })
}

#[test]
fn admits_changes_that_announcers_make() {
    let before = record_of(5, 2, &["a", "b", "gone"], &["c"]);
    assert!(is_admitted(&before, &next(&before, |record| moved(record, "a"))));
    assert!(is_admitted(&before, &before.with_joined()));
    assert!(is_admitted(
        &before,
        &before.without(|name| &**name == "gone").unwrap()
    ));
    assert!(is_admitted(
        &before,
        &before.with_tie_breaker(Some("a/0000000000000001"))
    ));
    let joining = record_of(5, 2, &["b"], &[]);
    let entry = before.member("a").unwrap().clone();
    assert!(is_admitted(&joining, &joining.with(&"a".into(), entry).unwrap()));
    let held = before.with_tie_breaker(Some("a/0000000000000001"));
    assert!(is_admitted(&held, &held.with_tie_breaker(None)));
}

#[test]
fn rejects_changes_of_other_entries() {
    let before = record_of(5, 2, &["a", "b", "gone"], &["c"]);
    for name in ["b", "c", "gone"] {
        assert!(
            !is_admitted(&before, &next(&before, |record| moved(record, name))),
            "{name}"
        );
    }
}

#[test]
fn rejects_removal_of_a_member_whose_node_exists() {
    let before = record_of(5, 2, &["a", "b", "gone"], &["c"]);
    for name in ["b", "c"] {
        assert!(
            !is_admitted(&before, &before.without(|gone| &**gone == name).unwrap()),
            "{name}"
        );
    }
}

#[test]
fn rejects_new_members_except_promoted_ones() {
    let before = record_of(5, 2, &["b", "d"], &["c"]);
    let entry = || before.member("b").unwrap().clone();
    let with_member = next(&before, |record| {
        record.epoch += 1;
        record.members.insert("a".into(), entry());
    });
    assert!(!is_admitted(&before, &with_member), "a member without joining");
    assert!(
        !is_admitted(&before, &before.with(&"x".into(), entry()).unwrap()),
        "another node"
    );
    let demoted = next(&before, |record| {
        record.epoch += 1;
        let entry = record.members.remove("d").unwrap();
        record.joining.insert("d".into(), entry);
    });
    assert!(!is_admitted(&before, &demoted), "a member that is demoted");
    let mut half = before.with(&"a".into(), entry()).unwrap();
    half.sequence = before.sequence;
    let promoted = next(&half, |record| {
        record.epoch += 1;
        let entry = record.joining.remove("a").unwrap();
        record.members.insert("a".into(), entry);
    });
    assert!(!is_admitted(&half, &promoted), "one of two nodes that join");
}

#[test]
fn rejects_wrong_sequence_epoch_and_cluster() {
    let before = record_of(5, 2, &["a", "b"], &[]);
    let rejects = |change: fn(&mut Record)| assert!(!is_admitted(&before, &next(&before, change)));
    rejects(|record| record.sequence += 1);
    rejects(|record| record.sequence -= 1);
    rejects(|record| record.epoch += 1);
    rejects(|record| record.epoch -= 1);
    rejects(|record| record.cluster = "other".to_owned());
}

#[test]
fn rejects_changes_of_the_tie_breaker_of_others() {
    let mut before = record_of(5, 2, &["a", "b"], &[]);
    before.tie_breaker = holder("b");
    assert!(
        !is_admitted(&before, &next(&before, |record| record.tie_breaker = None)),
        "released"
    );
    assert!(
        !is_admitted(&before, &next(&before, |record| record.tie_breaker = holder("c"))),
        "assigned"
    );
    assert!(
        is_admitted(&before, &next(&before, |record| record.tie_breaker = holder("a"))),
        "taken over"
    );
}

#[test]
fn rejects_a_first_record_with_other_members() {
    assert!(check_first_record("a", &record_of(1, 1, &["a"], &[])).is_ok());
    for record in [
        record_of(1, 1, &["b"], &[]),
        record_of(1, 1, &["a", "b"], &[]),
        record_of(1, 1, &["a"], &["b"]),
        record_of(9, 9, &["a"], &[]),
    ] {
        assert!(check_first_record("a", &record).is_err());
    }
}

#[test]
fn admits_the_last_list_of_a_member_as_a_first_record() {
    let last = record_of(9, 3, &["a", "b"], &["c"]);
    for holder in [None, Some("a/0000000000000001")] {
        let created = last.created_again(3, holder, 7);
        assert!(check_first_record("a", &created).is_ok(), "a member");
        assert!(check_first_record("c", &created).is_ok(), "a joining node");
        assert!(check_first_record("d", &created).is_err(), "another node");
        assert!(is_admitted(&created, &created.with_joined()), "later changes");
    }
}

#[test]
fn rejects_a_first_record_after_which_no_node_can_write() {
    let mut created = record_of(9, 3, &["a", "b"], &[]).created_again(3, None, 7);
    created.epoch = (1 << 53) - 1;
    assert!(check_first_record("a", &created).is_err());
}

/// The garbage collector would delete a Lease whose owner does not exist. Announcers would have to create it again
/// and again.
#[test]
fn detects_metadata_that_announcers_may_not_write() {
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
