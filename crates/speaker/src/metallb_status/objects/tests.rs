//! Differences between reported and present status objects (LBM-16).

use std::collections::{BTreeMap, BTreeSet};

use api::object::ObjectKey;
use serde_json::{Value, json};

use super::super::ReportedNode;
use super::{Change, ConfigurationState, ServiceBgpStatus, changes, state_object, state_status};

/// A Service that is announced to peers.
fn announced(peers: &[&str]) -> BTreeMap<ObjectKey, BTreeSet<String>> {
    let peers = peers.iter().map(|peer| (*peer).to_owned()).collect();
    BTreeMap::from([(ObjectKey::new("default", "web"), peers)])
}

fn reported() -> ReportedNode {
    ReportedNode {
        node: "n1".to_owned(),
        node_uid: "uid".to_owned(),
        services: announced(&["r1", "r2"]),
        faults: Vec::new(),
    }
}

/// Applies changes as an API server does.
fn apply(objects: &mut Vec<Value>, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Create(object) => objects.push(object),
            Change::SetStatus(name, patch) => {
                let object = objects
                    .iter_mut()
                    .find(|object| object["metadata"]["name"] == name);
                object.expect("an object")["status"] = patch["status"].clone();
            }
            Change::Delete(name) => objects.retain(|object| object["metadata"]["name"] != name),
        }
    }
}

fn views(objects: &[Value]) -> Vec<ServiceBgpStatus> {
    let view = |object: &Value| serde_json::from_value(object.clone()).expect("an object");
    objects.iter().map(view).collect()
}

#[test]
fn announced_services_have_one_object() {
    let mut objects = Vec::new();
    let mut reported = reported();
    apply(&mut objects, changes(&reported, &[]));
    assert_eq!(objects.len(), 1);
    assert_eq!(
        objects[0]["status"],
        json!({"node": "n1", "serviceName": "web", "serviceNamespace": "default", "peers": ["r1", "r2"]})
    );
    assert_eq!(objects[0]["metadata"]["labels"]["metallb.io/node"], "n1");
    assert_eq!(objects[0]["metadata"]["ownerReferences"][0]["uid"], "uid");
    assert_eq!(changes(&reported, &views(&objects)), []);

    reported.services = announced(&["r1"]);
    let next = changes(&reported, &views(&objects));
    assert!(matches!(next.as_slice(), [Change::SetStatus(_, _)]), "{next:?}");
    apply(&mut objects, next);
    assert_eq!(objects[0]["status"]["peers"], json!(["r1"]));

    reported.services.clear();
    let next = changes(&reported, &views(&objects));
    apply(&mut objects, next);
    assert!(objects.is_empty());
}

#[test]
fn nodes_use_different_names() {
    let mut other = reported();
    other.node = "n2".to_owned();
    let name = |reported: &ReportedNode| match changes(reported, &[]).remove(0) {
        Change::Create(object) => object["metadata"]["name"].clone(),
        other => panic!("{other:?}"),
    };
    assert_ne!(name(&reported()), name(&other));
}

#[test]
fn state_changes_with_the_faults() {
    let mut reported = reported();
    assert_eq!(state_object(&reported)["metadata"]["name"], "speaker-n1");
    let empty = ConfigurationState::default();
    let valid = state_status(&reported, &empty, "2026-01-01T00:00:00Z").expect("a status");
    assert_eq!(valid["status"]["result"], "Valid");
    let present: ConfigurationState = serde_json::from_value(valid).expect("a state");
    assert_eq!(state_status(&reported, &present, "2026-01-02T00:00:00Z"), None);

    reported.faults = vec!["BGPPeer a of metallb.io is ignored".to_owned()];
    let invalid = state_status(&reported, &present, "2026-01-02T00:00:00Z").expect("a status");
    assert_eq!(invalid["status"]["result"], "Invalid");
    let condition = &invalid["status"]["conditions"][0];
    assert_eq!(condition["reason"], "ConfigurationError");
    assert_eq!(condition["lastTransitionTime"], "2026-01-02T00:00:00Z");

    // Another fault is not a transition.
    let present: ConfigurationState = serde_json::from_value(invalid).expect("a state");
    reported.faults.push("another".to_owned());
    let next = state_status(&reported, &present, "2026-01-03T00:00:00Z").expect("a status");
    let condition = &next["status"]["conditions"][0];
    assert_eq!(condition["lastTransitionTime"], "2026-01-02T00:00:00Z");
}
