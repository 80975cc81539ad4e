use serde_json::{Value, json};
use store::Revision;

use super::super::records::{IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX};
use super::*;

fn entry(key: &str, object: &Value) -> Entry {
    Entry {
        key: key.into(),
        value: object.to_string().into(),
        created: Revision(1),
        modified: Revision(1),
    }
}

fn service(name: &str, address: &str, port: u16) -> Entry {
    let metadata = json!({"namespace": "default", "name": name});
    let spec = json!({"clusterIP": address, "clusterIPs": [address], "ports": [{"nodePort": port}], "type": "NodePort"});
    entry(
        &format!("/services/default/{name}"),
        &json!({"metadata": metadata, "spec": spec}),
    )
}

fn address(address: &str, name: &str) -> Entry {
    let parent = json!({"resource": "services", "namespace": "default", "name": name});
    entry(
        &format!("{IP_ADDRESSES_PREFIX}{address}"),
        &json!({"metadata": {"name": address}, "spec": {"parentRef": parent}}),
    )
}

fn port(port: u16, name: &str) -> Entry {
    entry(
        &format!("{NODE_PORTS_PREFIX}{port}"),
        &json!({"service": format!("default/{name}")}),
    )
}

#[test]
fn consistent_store_has_no_findings() {
    let headless = service("headless", "None", 0);
    let consistent = [
        service("a", "10.0.0.1", 30_001),
        address("10.0.0.1", "a"),
        port(30_001, "a"),
        headless,
    ];
    assert_eq!(find_inconsistencies(&consistent), []);
}

#[test]
fn reports_each_inconsistency() {
    let messages = |entries: &[Entry]| -> Vec<String> {
        find_inconsistencies(entries)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        messages(&[
            service("a", "10.0.0.1", 0),
            service("b", "10.0.0.1", 0),
            address("10.0.0.1", "a")
        ]),
        ["address 10.0.0.1 is used by several Services: default/a, default/b"]
    );
    assert_eq!(
        messages(&[service("a", "10.0.0.1", 30_001), address("10.0.0.1", "b")]),
        [
            "address 10.0.0.1 of Service default/a is recorded as default/b",
            "node port 30001 of Service default/a is recorded as free",
        ]
    );
    assert_eq!(
        messages(&[address("10.0.0.1", "a"), port(30_001, "a")]),
        [
            "address 10.0.0.1 is recorded for Service default/a, which does not use it",
            "node port 30001 is recorded for Service default/a, which does not use it",
        ]
    );
    let broken = Entry {
        value: "{".into(),
        ..address("10.0.0.1", "a")
    };
    assert!(messages(&[broken])[0].contains("cannot be read"));
    let foreign = entry("/configmaps/default/a", &json!({}));
    assert_eq!(messages(std::slice::from_ref(&foreign)), [""; 0]);
    let broken = Entry {
        value: "{".into(),
        ..foreign
    };
    assert!(messages(&[broken])[0].contains("/configmaps/default/a cannot be read"));
}
