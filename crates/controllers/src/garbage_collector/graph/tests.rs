use std::sync::Arc;

use api::object::{ObjectKey, ObjectMeta, OwnerReference};
use proptest::prelude::*;

use super::{Dependent, FOREGROUND, Graph, ORPHAN, Phase};
use crate::garbage_collector::kinds::{Kind, ObjectLocation};

fn service(name: &str) -> ObjectLocation {
    ObjectLocation::new(Kind::Service, ObjectKey::new("ns", name))
}

fn owner(name: &str, uid: &str, blocks: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: None,
        block_owner_deletion: Some(blocks),
    }
}

fn meta(uid: &str, owners: &[OwnerReference]) -> ObjectMeta {
    ObjectMeta {
        uid: uid.to_owned(),
        owner_references: owners.to_vec(),
        ..ObjectMeta::default()
    }
}

fn deleting(finalizer: &str, meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        deletion_timestamp: Some("2030-01-01T00:00:00Z".to_owned()),
        finalizers: vec![finalizer.to_owned()],
        ..meta
    }
}

#[test]
fn dependents_need_work_after_their_owner_is_deleted_or_replaced() {
    let mut graph = Graph::default();
    assert!(graph.apply(&service("o"), &meta("1", &[])).is_empty());
    let dependent = meta("2", &[owner("o", "1", true)]);
    assert_eq!(graph.apply(&service("d"), &dependent), [service("d")].into());
    assert!(!graph.candidate(&service("d")).expect("a candidate").needs_work());
    // An owner without owners has no node, and a repeated event affects nothing.
    assert_eq!(graph.nodes.len(), 1);
    assert!(graph.apply(&service("d"), &dependent).is_empty());
    assert_eq!(graph.remove(&service("o")), [service("d")].into());
    assert_eq!(graph.open_candidates(), [service("d")]);
    assert_eq!(graph.apply(&service("o"), &meta("9", &[])), [service("d")].into());
    assert_eq!(graph.open_candidates(), [service("d")]);
    assert_eq!(graph.apply(&service("o"), &meta("1", &[])), [service("d")].into());
    assert!(graph.open_candidates().is_empty());
}

#[test]
fn waiting_owners_are_affected_by_deleted_dependents() {
    let mut graph = Graph::default();
    graph.apply(&service("o"), &meta("1", &[]));
    graph.apply(&service("d"), &meta("2", &[owner("o", "1", true)]));
    let affected = graph.apply(&service("o"), &deleting(FOREGROUND, meta("1", &[])));
    assert_eq!(affected, [service("d"), service("o")].into());
    let candidate = graph.candidate(&service("o")).expect("a candidate");
    let waited_for = Dependent {
        location: service("d"),
        is_blocking: true,
        is_foreground: false,
    };
    assert_eq!(
        (candidate.phase, candidate.dependents),
        (Phase::Foreground, vec![waited_for])
    );
    // The owner no longer holds the dependent.
    assert!(graph.candidate(&service("d")).expect("a candidate").needs_work());
    assert_eq!(graph.remove(&service("d")), [service("o")].into());
    assert!(
        graph
            .candidate(&service("o"))
            .expect("a candidate")
            .dependents
            .is_empty()
    );
    graph.remove(&service("o"));
    assert!(graph.nodes.is_empty());
}

#[test]
fn owners_of_unknown_kinds_are_solid() {
    let mut graph = Graph::default();
    let unknown = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "CronJob".to_owned(),
        ..owner("o", "1", true)
    };
    graph.apply(&service("d"), &meta("2", &[unknown]));
    assert!(!graph.candidate(&service("d")).expect("a candidate").needs_work());
}

#[test]
fn dependents_share_the_location_of_their_owner() {
    let mut graph = Graph::default();
    for name in ["d", "e"] {
        graph.apply(&service(name), &meta(name, &[owner("o", "1", true)]));
    }
    let owner_of = |name| {
        let owner = &graph.nodes[&service(name)].owners[0];
        owner.location.clone().expect("a location")
    };
    assert!(Arc::ptr_eq(&owner_of("d").key.name, &owner_of("e").key.name));
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn any_meta() -> impl Strategy<Value = ObjectMeta> {
    let uid = prop::sample::select(vec!["1", "2", "3"]);
    let owners = prop::collection::vec((0..NAMES.len(), uid.clone(), any::<bool>()), 0..3);
    (uid, owners, 0..4_u8).prop_map(|(uid, owners, phase)| {
        let owners: Vec<_> = owners
            .into_iter()
            .map(|(name, uid, blocks)| owner(NAMES[name], uid, blocks))
            .collect();
        let meta = meta(uid, &owners);
        match phase {
            0 => deleting(FOREGROUND, meta),
            1 => deleting(ORPHAN, meta),
            2 => deleting("example.com/other", meta),
            _ => meta,
        }
    })
}

proptest! {
    /// The graph depends only on the final state, not on the events. Every candidate that a change creates or
    /// affects is returned.
    #[test]
    fn graph_depends_on_the_final_state_only(
        changes in prop::collection::vec((0..NAMES.len(), prop::option::of(any_meta())), 0..40),
    ) {
        let mut graph = Graph::default();
        let mut present = std::collections::BTreeMap::new();
        for (name, change) in changes {
            let location = service(NAMES[name]);
            let before: Vec<_> = NAMES.map(|name| graph.candidate(&service(name))).into();
            let affected = match &change {
                Some(meta) => graph.apply(&location, meta),
                None => graph.remove(&location),
            };
            for (name, before) in NAMES.iter().zip(before) {
                let after = graph.candidate(&service(name));
                let gained = |candidate: &super::Candidate| before.as_ref().is_none_or(|before| {
                    before.uid != candidate.uid
                        || before.phase != candidate.phase
                        || !candidate.solid_owners.is_superset(&before.solid_owners)
                        || (candidate.phase == Phase::Foreground
                            && candidate.dependents.len() < before.dependents.len())
                });
                if after.as_ref().is_some_and(|candidate| candidate.needs_work() && gained(candidate)) {
                    prop_assert!(affected.contains(&service(name)), "{name} not in {affected:?}");
                }
            }
            match change {
                Some(meta) => present.insert(location, meta),
                None => present.remove(&location),
            };
        }
        let mut rebuilt = Graph::default();
        for (location, meta) in &present {
            rebuilt.apply(location, meta);
        }
        for name in NAMES {
            prop_assert_eq!(graph.candidate(&service(name)), rebuilt.candidate(&service(name)));
        }
        prop_assert_eq!(graph.present.len(), rebuilt.present.len());
        prop_assert_eq!(graph.dependents.len(), rebuilt.dependents.len());
    }
}
