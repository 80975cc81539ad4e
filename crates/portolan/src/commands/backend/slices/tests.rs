use super::*;

fn service(spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "db", "namespace": "shop", "uid": "u"}, "spec": spec}))
        .unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn a_service_says_why_it_takes_no_backend() {
    let refused = |spec: Value, ip: &str, name: Option<&str>| {
        let service = service(&spec);
        let refused = port_of(&service, ip.parse().unwrap(), name).expect_err("refused");
        refused.to_string()
    };
    let said = refused(json!({"selector": {"app": "web"}}), "10.0.0.1", None);
    assert!(
        said.contains("app=web") && said.contains("spec.selector"),
        "{said}"
    );
    let said = refused(json!({"type": "ExternalName"}), "10.0.0.1", None);
    assert!(said.contains("ExternalName"), "{said}");
    let said = refused(json!({"ipFamilies": ["IPv4"]}), "fd00::1", None);
    assert!(
        said.contains("IPv6") && said.contains("spec.ipFamilies"),
        "{said}"
    );
    let two = json!({"ipFamilies": ["IPv4"], "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]});
    let said = refused(two.clone(), "10.0.0.1", None);
    assert!(said.contains("--port") && said.contains("a, b"), "{said}");
    let said = refused(two, "10.0.0.1", Some("c"));
    assert!(said.contains("\"c\"") && said.contains("a, b"), "{said}");
}

#[test]
fn a_slice_serves_the_port_of_the_service() {
    let spec = json!({"ipFamilies": ["IPv4"], "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]});
    let service = service(&spec);
    let port = port_of(&service, "10.0.0.1".parse().unwrap(), None).unwrap();
    let backend = address("10.0.0.1:6432");
    let name = name_of("db", backend, port);
    assert_eq!(name, "db-sql-10-0-0-1-6432");
    let probe = Probe::default();
    let made = slice(&service, &name, backend, port, Some(&probe)).unwrap();
    assert_eq!(
        made["ports"][0],
        json!({"name": "sql", "protocol": "TCP", "port": 6432})
    );
    assert_eq!(
        made["endpoints"][0]["conditions"]["ready"], false,
        "not yet asked"
    );
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u");
    let read: EndpointSlice = serde_json::from_value(made).unwrap();
    let found: Vec<SocketAddr> = backends(&read).map(|backend| backend.address).collect();
    assert_eq!(found, [backend]);
    let unchecked = slice(&service, &name, backend, port, None).unwrap();
    assert_eq!(unchecked["endpoints"][0]["conditions"]["ready"], true);
    assert_eq!(
        unchecked["metadata"]["annotations"][PROBE_ANNOTATION],
        Value::Null
    );
}

#[test]
fn names_of_slices_are_names() {
    let name = name_of("db", address("[fd00::1]:53"), None);
    assert_eq!(name, "db-fd00--1-53");
}

#[test]
fn tables_are_aligned() {
    let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
    assert_eq!(aligned(&[row("A", "B"), row("long", "")]), "A      B\nlong\n");
}
