//! Dependents of deleted owners, for each propagation policy.

use serde_json::{Value, json};

use crate::driver::Driver;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn map(name: &str, owners: &[(&str, &Value)]) -> Value {
    let owner = |(name, owner): &(&str, &Value)| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"],
               "blockOwnerDeletion": true})
    };
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

fn path(name: &str) -> String {
    format!("{MAPS}/{name}")
}

fn options(propagation: &str) -> Value {
    json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation})
}

fn owners(object: &Value) -> usize {
    object["metadata"]["ownerReferences"]
        .as_array()
        .map_or(0, Vec::len)
}

#[test]
fn background_deletion_removes_descendants_without_other_owners() {
    let cluster = Driver::start(&[]);
    let root = cluster.create(MAPS, &map("root", &[]));
    let other = cluster.create(MAPS, &map("other", &[]));
    let child = cluster.create(MAPS, &map("child", &[("root", &root)]));
    cluster.create(MAPS, &map("grandchild", &[("child", &child)]));
    cluster.create(MAPS, &map("shared", &[("root", &root), ("other", &other)]));
    cluster.delete(&path("root"), &options("Background"));
    for name in ["root", "child", "grandchild"] {
        cluster.wait_until(&format!("deletion of {name}"), &path(name), |map| map.is_none());
    }
    cluster.wait_until("shared with one owner", &path("shared"), |map| {
        map.is_some_and(|map| owners(map) == 1)
    });
    assert!(cluster.get(&path("other")).is_some());
}

#[test]
fn foreground_deletion_removes_the_owner_last() {
    let cluster = Driver::start(&[]);
    let root = cluster.create(MAPS, &map("root", &[]));
    let mut child = map("child", &[("root", &root)]);
    child["metadata"]["finalizers"] = json!(["example.com/wait"]);
    cluster.create(MAPS, &child);
    cluster.delete(&path("root"), &options("Foreground"));
    cluster.wait_until("the deletion of the child", &path("child"), |map| {
        map.is_some_and(|map| map["metadata"]["deletionTimestamp"].is_string())
    });
    let root = cluster
        .get(&path("root"))
        .expect("an owner that waits for its dependent");
    assert_eq!(root["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    cluster.merge(&path("child"), &json!({"metadata": {"finalizers": null}}));
    for name in ["child", "root"] {
        cluster.wait_until(&format!("deletion of {name}"), &path(name), |map| map.is_none());
    }
}

#[test]
fn orphans_stay_without_owner_references() {
    let cluster = Driver::start(&[]);
    let root = cluster.create(MAPS, &map("root", &[]));
    cluster.create(MAPS, &map("child", &[("root", &root)]));
    cluster.delete(&path("root"), &options("Orphan"));
    cluster.wait_until("deletion of root", &path("root"), |map| map.is_none());
    let child = cluster.get(&path("child")).expect("an orphan");
    assert_eq!(owners(&child), 0);
}

#[test]
fn slices_are_deleted_with_their_service_or_orphaned() {
    let cluster = Driver::start(&[]);
    for name in ["deleted", "orphans"] {
        let spec = json!({"selector": {"app": name}, "ports": [{"port": 80}]});
        cluster.create(
            SERVICES,
            &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}),
        );
    }
    let slices = |name: &str| format!("{SLICES}?labelSelector=kubernetes.io/service-name%3D{name}");
    let items = |list: Option<&Value>| {
        list.and_then(|list| list["items"].as_array().cloned())
            .unwrap_or_default()
    };
    for name in ["deleted", "orphans"] {
        cluster.wait_until("a slice", &slices(name), |list| items(list).len() == 1);
    }
    cluster.delete(&format!("{SERVICES}/orphans"), &options("Orphan"));
    cluster.wait_until("deletion of orphans", &format!("{SERVICES}/orphans"), |object| {
        object.is_none()
    });
    cluster.delete(&format!("{SERVICES}/deleted"), &options("Background"));
    cluster.wait_until("deletion of its slice", &slices("deleted"), |list| {
        items(list).is_empty()
    });
    let remaining = items(cluster.get(&slices("orphans")).as_ref());
    assert_eq!(
        remaining.iter().map(owners).collect::<Vec<_>>(),
        [0],
        "{remaining:?}"
    );
}
