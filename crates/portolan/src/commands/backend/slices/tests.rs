use super::*;

fn service(spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "db", "namespace": "shop", "uid": "u"}, "spec": spec}))
        .unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn rejection_names_the_reason() {
    let rejection = |spec: Value, ip: &str, name: Option<&str>| {
        let service = service(&spec);
        let error = port_of(&service, ip.parse().unwrap(), name);
        error.expect_err("a rejection").to_string()
    };
    let message = rejection(json!({"selector": {"app": "web"}}), "10.0.0.1", None);
    assert!(
        message.contains("app=web") && message.contains("spec.selector"),
        "{message}"
    );
    let message = rejection(json!({"type": "ExternalName"}), "10.0.0.1", None);
    assert!(message.contains("ExternalName"), "{message}");
    let message = rejection(json!({"ipFamilies": ["IPv4"]}), "fd00::1", None);
    assert!(
        message.contains("IPv6") && message.contains("spec.ipFamilies"),
        "{message}"
    );
    let two = json!({"ipFamilies": ["IPv4"], "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]});
    let message = rejection(two.clone(), "10.0.0.1", None);
    assert!(
        message.contains("--port") && message.contains("a, b"),
        "{message}"
    );
    let message = rejection(two, "10.0.0.1", Some("c"));
    assert!(message.contains("\"c\"") && message.contains("a, b"), "{message}");
}

#[test]
fn slice_has_the_name_of_the_service_port() {
    let spec = json!({"ipFamilies": ["IPv4"], "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}]});
    let service = service(&spec);
    let port = port_of(&service, "10.0.0.1".parse().unwrap(), None).unwrap();
    let backend = address("10.0.0.1:6432");
    let name = name_of("db", backend, port);
    assert_eq!(name, "db-sql-10-0-0-1-6432");
    let probe = Probe::default();
    let created = slice(&service, &name, backend, port, Some(&probe)).unwrap();
    assert_eq!(
        created["ports"][0],
        json!({"name": "sql", "protocol": "TCP", "port": 6432})
    );
    assert_eq!(
        created["endpoints"][0]["conditions"]["ready"], false,
        "no success yet"
    );
    assert_eq!(created["metadata"]["ownerReferences"][0]["uid"], "u");
    let parsed: EndpointSlice = serde_json::from_value(created).unwrap();
    let found: Vec<SocketAddr> = backends(&parsed).map(|backend| backend.address).collect();
    assert_eq!(found, [backend]);
    let unchecked = slice(&service, &name, backend, port, None).unwrap();
    assert_eq!(unchecked["endpoints"][0]["conditions"]["ready"], true);
    assert_eq!(
        unchecked["metadata"]["annotations"][PROBE_ANNOTATION],
        Value::Null
    );
}

#[test]
fn default_names_are_valid_names() {
    let name = name_of("db", address("[fd00::1]:53"), None);
    assert_eq!(name, "db-fd00--1-53");
}

#[test]
fn tables_are_aligned() {
    let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
    assert_eq!(
        aligned_table(&[row("A", "B"), row("long", "")]),
        "A      B\nlong\n"
    );
}
