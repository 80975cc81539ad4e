use api::object::ObjectKey;

use super::super::kinds::Kind;
use super::*;

fn owner(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: None,
        block_owner_deletion: None,
    }
}

fn candidate(solid_owners: &[&str]) -> Candidate {
    Candidate {
        uid: "dependent".to_owned(),
        phase: Phase::Live,
        solid_owners: solid_owners.iter().map(|uid| (*uid).to_owned()).collect(),
        has_only_solid_owners: false,
        dependents: Vec::new(),
    }
}

fn config_map(name: &str) -> ObjectLocation {
    ObjectLocation::new(Kind::ConfigMap, ObjectKey::new("a", name))
}

#[test]
fn location_with_many_uids_is_read_once() {
    let dependent = config_map("dependent");
    let mut owners: Vec<OwnerReference> = (0..10_000)
        .map(|number| owner("large", &number.to_string()))
        .collect();
    owners.push(owner("other", "solid"));
    let to_read = owners_to_read(&dependent, &candidate(&["solid"]), &owners);
    assert!(to_read.iter().eq([&config_map("large")]), "{to_read:?}");
}

#[test]
fn owners_of_other_uids_are_dangling() {
    let dependent = config_map("dependent");
    let found = FoundOwners::from([
        (config_map("live"), ("1".to_owned(), Phase::Live)),
        (config_map("ending"), ("2".to_owned(), Phase::Foreground)),
    ]);
    let state = |name, uid| owner_state(&dependent, &candidate(&["3"]), &found, &owner(name, uid));
    assert_eq!(state("live", "1"), OwnerState::Solid);
    assert_eq!(state("live", "2"), OwnerState::Dangling);
    assert_eq!(state("ending", "2"), OwnerState::Waiting);
    assert_eq!(state("absent", "1"), OwnerState::Dangling);
    assert_eq!(state("absent", "3"), OwnerState::Solid);
}
