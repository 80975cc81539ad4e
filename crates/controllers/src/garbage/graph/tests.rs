use api::object::{ObjectKey, ObjectMeta, OwnerReference};
use proptest::prelude::*;

use super::{Dependent, FOREGROUND, Graph, ORPHAN, Phase};
use crate::garbage::kinds::{Kind, Place};

fn service(name: &str) -> Place {
    Place::new(Kind::Service, ObjectKey::new("ns", name))
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
fn a_dependent_is_open_once_its_owner_is_gone_or_another() {
    let mut graph = Graph::default();
    assert!(graph.apply(&service("o"), &meta("1", &[])).is_empty());
    let dependent = meta("2", &[owner("o", "1", true)]);
    assert_eq!(graph.apply(&service("d"), &dependent), [service("d")].into());
    assert!(!graph.case(&service("d")).expect("a case").is_open());
    // The owner without owners is not kept, and telling the same again asks for nothing.
    assert_eq!(graph.len(), 1);
    assert!(graph.apply(&service("d"), &dependent).is_empty());
    assert_eq!(graph.remove(&service("o")), [service("d")].into());
    assert_eq!(graph.open_cases(), [service("d")]);
    assert_eq!(graph.apply(&service("o"), &meta("9", &[])), [service("d")].into());
    assert_eq!(graph.open_cases(), [service("d")]);
    assert_eq!(graph.apply(&service("o"), &meta("1", &[])), [service("d")].into());
    assert!(graph.open_cases().is_empty());
}

#[test]
fn an_owner_that_waits_is_looked_at_when_a_dependent_goes() {
    let mut graph = Graph::default();
    graph.apply(&service("o"), &meta("1", &[]));
    graph.apply(&service("d"), &meta("2", &[owner("o", "1", true)]));
    let looks = graph.apply(&service("o"), &deleting(FOREGROUND, meta("1", &[])));
    assert_eq!(looks, [service("d"), service("o")].into());
    let case = graph.case(&service("o")).expect("a case");
    let waited_for = Dependent {
        place: service("d"),
        is_blocking: true,
        is_foreground: false,
    };
    assert_eq!(
        (case.phase, case.dependents),
        (Phase::Foreground, vec![waited_for])
    );
    // The owner no longer holds it.
    assert!(graph.case(&service("d")).expect("a case").is_open());
    assert_eq!(graph.remove(&service("d")), [service("o")].into());
    assert!(graph.case(&service("o")).expect("a case").dependents.is_empty());
    graph.remove(&service("o"));
    assert!(graph.is_empty());
}

#[test]
fn an_owner_of_an_unknown_kind_holds_for_ever() {
    let mut graph = Graph::default();
    let unknown = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "StatefulSet".to_owned(),
        ..owner("o", "1", true)
    };
    graph.apply(&service("d"), &meta("2", &[unknown]));
    assert!(!graph.case(&service("d")).expect("a case").is_open());
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
    /// However it came about, the graph knows what one that was told only the end knows; and every case
    /// that a change opened, or changed, was among the places to look at.
    #[test]
    fn the_graph_is_what_is_there(
        changes in prop::collection::vec((0..NAMES.len(), prop::option::of(any_meta())), 0..40),
    ) {
        let mut graph = Graph::default();
        let mut present = std::collections::BTreeMap::new();
        for (name, change) in changes {
            let place = service(NAMES[name]);
            let before: Vec<_> = NAMES.map(|name| graph.case(&service(name))).into();
            let looks = match &change {
                Some(meta) => graph.apply(&place, meta),
                None => graph.remove(&place),
            };
            for (name, before) in NAMES.iter().zip(before) {
                let after = graph.case(&service(name));
                let gained = |case: &super::Case| before.as_ref().is_none_or(|before| {
                    before.uid != case.uid
                        || before.phase != case.phase
                        || !case.solid_owners.is_superset(&before.solid_owners)
                        || (case.phase == Phase::Foreground
                            && case.dependents.len() < before.dependents.len())
                });
                if after.as_ref().is_some_and(|case| case.is_open() && gained(case)) {
                    prop_assert!(looks.contains(&service(name)), "{name} not in {looks:?}");
                }
            }
            match change {
                Some(meta) => present.insert(place, meta),
                None => present.remove(&place),
            };
        }
        let mut told_once = Graph::default();
        for (place, meta) in &present {
            told_once.apply(place, meta);
        }
        for name in NAMES {
            prop_assert_eq!(graph.case(&service(name)), told_once.case(&service(name)));
        }
        prop_assert_eq!(graph.present.len(), told_once.present.len());
        prop_assert_eq!(graph.dependents.len(), told_once.dependents.len());
    }
}
