use api::object::{ObjectKey, ObjectMeta, OwnerReference};

use super::Standing::{Dangling, Solid, Waiting};
use super::{Propagation, Verdict, judge};
use crate::garbage::graph::{Dependent, FOREGROUND, ORPHAN};
use crate::garbage::kinds::{Kind, Place};

fn owned(owners: &[&str], finalizers: &[&str]) -> ObjectMeta {
    let owner = |uid: &&str| OwnerReference {
        uid: (*uid).to_owned(),
        ..OwnerReference::default()
    };
    ObjectMeta {
        owner_references: owners.iter().map(owner).collect(),
        finalizers: finalizers.iter().map(|name| (*name).to_owned()).collect(),
        ..ObjectMeta::default()
    }
}

fn deleted(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        deletion_timestamp: Some("2030-01-01T00:00:00Z".to_owned()),
        ..meta
    }
}

fn dependent(is_blocking: bool, is_foreground: bool) -> Dependent {
    Dependent {
        place: Place::new(Kind::Pod, ObjectKey::new("ns", "p")),
        is_blocking,
        is_foreground,
    }
}

fn deletion(propagation: Propagation, unblocks: bool) -> Verdict {
    Verdict::Delete {
        propagation,
        unblocks,
    }
}

#[test]
fn an_object_goes_with_its_last_owner() {
    let meta = owned(&["a", "b"], &[]);
    assert_eq!(judge(&meta, &[Solid, Solid], &[]), Verdict::Leave);
    assert_eq!(
        judge(&meta, &[Solid, Dangling], &[]),
        Verdict::Disown(vec!["b".into()])
    );
    assert_eq!(
        judge(&meta, &[Waiting, Solid], &[]),
        Verdict::Disown(vec!["a".into()])
    );
    assert_eq!(
        judge(&meta, &[Dangling, Dangling], &[]),
        deletion(Propagation::Background, false)
    );
    assert_eq!(judge(&owned(&[], &[]), &[], &[]), Verdict::Leave);
}

#[test]
fn a_deletion_goes_on_as_the_finalizers_and_the_owners_say() {
    let judge_one = |finalizers: &[&str], standing, dependents: &[Dependent]| {
        judge(&owned(&["a"], finalizers), &[standing], dependents)
    };
    let kept = dependent(false, false);
    assert_eq!(
        judge_one(&[ORPHAN], Dangling, &[]),
        deletion(Propagation::Orphan, false)
    );
    assert_eq!(
        judge_one(&[FOREGROUND], Dangling, &[]),
        deletion(Propagation::Foreground, false)
    );
    assert_eq!(
        judge_one(&[], Waiting, &[]),
        deletion(Propagation::Background, false)
    );
    assert_eq!(
        judge_one(&[], Waiting, &[kept]),
        deletion(Propagation::Foreground, false)
    );
    // Its dependent waits for it, and its owner would wait for both.
    let waits = dependent(true, true);
    assert_eq!(
        judge_one(&[], Waiting, &[waits]),
        deletion(Propagation::Foreground, true)
    );
}

#[test]
fn a_deleted_owner_waits_for_those_that_block_it() {
    let foreground = deleted(owned(&[], &[FOREGROUND]));
    let both = [dependent(false, false), dependent(true, false)];
    assert_eq!(judge(&foreground, &[], &both), Verdict::Leave);
    assert_eq!(judge(&foreground, &[], &both[..1]), Verdict::Release(FOREGROUND));
    assert_eq!(
        judge(&deleted(owned(&[], &[ORPHAN])), &[], &both),
        Verdict::Orphan
    );
    let others = deleted(owned(&["a"], &["example.com/other"]));
    assert_eq!(judge(&others, &[Dangling], &[]), Verdict::Leave);
}
