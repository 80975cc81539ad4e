use api::object::{ObjectKey, ObjectMeta, OwnerReference};

use super::OwnerState::{Dangling, Solid, Waiting};
use super::{Decision, Propagation, decide};
use crate::garbage_collector::graph::{Dependent, FOREGROUND, ORPHAN};
use crate::garbage_collector::kinds::{Kind, ObjectLocation};

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
        location: ObjectLocation::new(Kind::Pod, ObjectKey::new("ns", "p")),
        is_blocking,
        is_foreground,
    }
}

fn deletion(propagation: Propagation, unblocks: bool) -> Decision {
    Decision::Delete {
        propagation,
        unblocks,
    }
}

#[test]
fn objects_are_deleted_with_their_last_owner() {
    let meta = owned(&["a", "b"], &[]);
    assert_eq!(decide(&meta, &[Solid, Solid], &[]), Decision::Leave);
    assert_eq!(
        decide(&meta, &[Solid, Dangling], &[]),
        Decision::RemoveReferences(vec!["b".into()])
    );
    assert_eq!(
        decide(&meta, &[Waiting, Solid], &[]),
        Decision::RemoveReferences(vec!["a".into()])
    );
    assert_eq!(
        decide(&meta, &[Dangling, Dangling], &[]),
        deletion(Propagation::Background, false)
    );
    assert_eq!(decide(&owned(&[], &[]), &[], &[]), Decision::Leave);
}

#[test]
fn propagation_follows_finalizers_and_owners() {
    let judge_one = |finalizers: &[&str], owner_state, dependents: &[Dependent]| {
        decide(&owned(&["a"], finalizers), &[owner_state], dependents)
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
    // Its dependent blocks it, and its owner would be blocked by both.
    let waits = dependent(true, true);
    assert_eq!(
        judge_one(&[], Waiting, &[waits]),
        deletion(Propagation::Foreground, true)
    );
}

#[test]
fn deleted_owners_wait_for_blocking_dependents() {
    let foreground = deleted(owned(&[], &[FOREGROUND]));
    let both = [dependent(false, false), dependent(true, false)];
    assert_eq!(decide(&foreground, &[], &both), Decision::Leave);
    assert_eq!(
        decide(&foreground, &[], &both[..1]),
        Decision::RemoveFinalizer(FOREGROUND)
    );
    assert_eq!(
        decide(&deleted(owned(&[], &[ORPHAN])), &[], &both),
        Decision::Orphan
    );
    let others = deleted(owned(&["a"], &["example.com/other"]));
    assert_eq!(decide(&others, &[Dangling], &[]), Decision::Leave);
}
