use api::object::ReplicaSet;
use serde_json::json;

use super::*;

fn set(name: &str, owner: Option<&str>, version: u64) -> ReplicaSet {
    let owners = owner.map(|uid| json!({"kind": "Deployment", "uid": uid, "controller": true}));
    let set = json!({"metadata": {
        "name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string(),
        "labels": {"app": "web"}, "ownerReferences": owners.into_iter().collect::<Vec<_>>(),
    }});
    serde_json::from_value(set).expect("a ReplicaSet")
}

fn names<'a>(sets: impl Iterator<Item = &'a ReplicaSet>) -> Vec<&'a str> {
    sets.map(|set| &*set.metadata.name).collect()
}

fn web() -> LabelSelector {
    LabelSelector::parse("app=web").expect("a selector")
}

#[test]
fn objects_are_indexed_by_their_current_owner() {
    let mut sets = OwnedObjects::default();
    sets.apply(set("a", Some("d"), 1));
    let affected = sets.apply(set("b", None, 2));
    assert_eq!(
        affected.orphan.map(|(key, _)| key.to_string()),
        Some("n/b".to_owned())
    );
    assert_eq!(
        (names(sets.of("n", "d")), sets.orphans("n", &web()).len()),
        (vec!["a"], 1)
    );
    assert!(sets.orphans("other", &web()).is_empty());
    let affected = sets.apply(set("a", Some("e"), 3));
    assert_eq!(affected.owners, BTreeSet::from(["d".to_owned(), "e".to_owned()]));
    assert_eq!(
        (names(sets.of("n", "d")), names(sets.of("n", "e"))),
        (Vec::new(), vec!["a"])
    );
    assert_eq!(
        sets.remove(&ObjectKey::new("n", "a")).owners,
        BTreeSet::from(["e".to_owned()])
    );
    assert!(names(sets.of("n", "e")).is_empty());
}

#[test]
fn objects_of_other_namespaces_are_not_owned() {
    let mut sets = OwnedObjects::default();
    for namespace in ["m", "n", "o"] {
        let mut foreign = set(namespace, Some("d"), 1);
        foreign.metadata.namespace = namespace.to_owned();
        sets.apply(foreign);
        let mut orphan = set("orphan", None, 1);
        orphan.metadata.namespace = namespace.to_owned();
        sets.apply(orphan);
    }
    assert_eq!(names(sets.of("n", "d")), ["n"]);
    let orphans = sets.orphans("n", &web()).into_iter();
    let namespaces: Vec<&str> = orphans.map(|set| &*set.metadata.namespace).collect();
    assert_eq!(namespaces, ["n"]);
}

#[test]
fn responses_are_not_reverted_by_older_events() {
    let mut sets = OwnedObjects::default();
    sets.apply(set("a", Some("d"), 1));
    sets.apply_response(set("a", None, 5));
    sets.apply(set("a", Some("d"), 3));
    assert_eq!(
        (names(sets.of("n", "d")).len(), sets.orphans("n", &web()).len()),
        (0, 1)
    );
    sets.confirm_deletion(&set("a", None, 5).metadata);
    assert_eq!(sets.apply(set("a", Some("d"), 4)), AffectedOwners::default());
    assert!(sets.get(&ObjectKey::new("n", "a")).is_none());
}

#[test]
fn objects_missing_in_a_complete_list_are_removed() {
    let mut sets = OwnedObjects::default();
    sets.apply(set("a", Some("d"), 1));
    sets.apply(set("b", Some("d"), 2));
    // Created after the list was read.
    sets.apply_response(set("c", Some("d"), 9));
    let listed = ObjectList {
        items: vec![set("b", Some("d"), 2)],
        revision: 7,
    };
    let owner = ObjectMeta {
        namespace: "n".to_owned(),
        uid: "d".to_owned(),
        ..ObjectMeta::default()
    };
    sets.apply_list(&owner, &web(), listed);
    assert_eq!(names(sets.of("n", "d")), ["b", "c"]);
    let affected = sets.complete_list(10);
    assert_eq!(affected.len(), 1, "the watch never reported c");
    assert_eq!(names(sets.of("n", "d")), ["b"]);
}
