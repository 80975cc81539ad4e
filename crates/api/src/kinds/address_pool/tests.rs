use serde_json::json;

use super::*;

fn pool(spec: Value) -> Value {
    let mut pool = json!({"metadata": {"name": "p"}, "spec": spec});
    default_on_write(&mut pool);
    pool
}

fn causes(errors: &FieldErrors) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}", error.reason.as_str(), error.path))
        .collect()
}

#[test]
fn address_pool_gets_defaults() {
    let pool = pool(json!({"addresses": ["192.0.2.0/24"], "scope": null}));
    assert_eq!(
        pool["spec"],
        json!({"addresses": ["192.0.2.0/24"], "autoAssign": true, "avoidBuggyIPs": false, "priority": 0,
               "scope": "External"})
    );
    assert!(validate(&pool).is_empty());
}

#[test]
fn addresses_of_a_pool_are_validated() {
    let of = |addresses: Value| causes(&validate(&pool(json!({ "addresses": addresses }))));
    assert!(
        of(json!([
            "192.0.2.0/24",
            "198.51.100.7-198.51.100.9",
            "2001:db8::/64"
        ]))
        .is_empty()
    );
    assert!(of(json!(["192.0.2.1-192.0.2.1"])).is_empty());
    assert_eq!(of(json!([])), ["FieldValueRequired spec.addresses"]);
    for invalid in [
        "x",
        "192.0.2.1",
        "192.0.2.1/24",
        "192.0.2.9-192.0.2.8",
        "192.0.2.9-2001:db8::1",
        "127.0.0.0/8",
        "224.0.0.0/24",
        "0.0.0.0/0",
        "::/0",
        "fe80::/64",
        "-",
    ] {
        assert_eq!(
            of(json!([invalid])),
            ["FieldValueInvalid spec.addresses[0]"],
            "{invalid}"
        );
    }
    assert_eq!(
        of(json!(["192.0.2.0/24", "192.0.2.255-192.0.3.1"])),
        ["FieldValueInvalid spec.addresses[1]"]
    );
    let many: Vec<String> = (0..=ADDRESSES_MAX)
        .map(|at| format!("10.0.{}.{}/32", at / 256, at % 256))
        .collect();
    assert_eq!(of(json!(many)), ["FieldValueTooMany spec.addresses"]);
}

#[test]
fn validates_scope_and_priority() {
    let with = |field: &str, value: Value| {
        let mut spec = json!({"addresses": ["192.0.2.0/24"]});
        spec[field] = value;
        causes(&validate(&pool(spec)))
    };
    assert!(with("scope", json!("Internal")).is_empty());
    assert_eq!(
        with("scope", json!("Both")),
        ["FieldValueNotSupported spec.scope"]
    );
    assert_eq!(
        with("priority", json!(1_000_001)),
        ["FieldValueInvalid spec.priority"]
    );
    assert!(with("serviceSelector", json!({"matchLabels": {"a": "b"}})).is_empty());
    assert_eq!(
        with("namespaceSelector", json!({"matchLabels": {"-a": "b"}})),
        ["FieldValueInvalid spec.namespaceSelector.matchLabels"]
    );
}

#[test]
fn validates_node_selectors_and_interfaces() {
    let with = |field: &str, value: Value| {
        let mut spec = json!({"addresses": ["192.0.2.0/24"]});
        spec[field] = value;
        causes(&validate(&pool(spec)))
    };
    let nodes = json!([{"matchLabels": {"role": "edge"}}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]);
    assert!(with("nodeSelectors", nodes).is_empty());
    assert!(with("nodeSelectors", json!([])).is_empty() && with("nodeSelectors", Value::Null).is_empty());
    assert_eq!(
        with(
            "nodeSelectors",
            json!([{}, {"matchLabels": {"-a": "b"}}, {"matchExpressions": [{"key": "zone", "operator": "Has"}]}])
        ),
        [
            "FieldValueInvalid spec.nodeSelectors[1].matchLabels",
            "FieldValueInvalid spec.nodeSelectors[2].matchExpressions[0].operator"
        ]
    );
    assert_eq!(
        with("nodeSelectors", json!(vec![json!({}); SELECTORS_MAX + 1])),
        ["FieldValueTooMany spec.nodeSelectors"]
    );
    assert!(
        with(
            "interfaces",
            json!(["eth1", "bond*", "eth1.100", "fifteen-bytes15", "*"])
        )
        .is_empty()
    );
    let invalid = json!(["", "eth*1", "a/b", "a b", "sixteen-bytes-16", "eth0", "eth0"]);
    let expected = [0, 1, 2, 3, 4].map(|index| format!("FieldValueInvalid spec.interfaces[{index}]"));
    let mut expected = expected.to_vec();
    expected.push("FieldValueDuplicate spec.interfaces[6]".to_owned());
    assert_eq!(with("interfaces", invalid), expected);
    assert_eq!(
        with("interfaces", json!(vec!["eth0"; SELECTORS_MAX + 1])),
        ["FieldValueTooMany spec.interfaces"]
    );
}

#[test]
fn patterns_match_names_or_prefixes() {
    let matches = |pattern: &str, link: &str| pattern.parse::<LinkPattern>().unwrap().matches(link);
    assert!(matches("eth1", "eth1") && !matches("eth1", "eth10") && !matches("eth1", "veth1"));
    assert!(matches("eth1*", "eth1") && matches("eth1*", "eth10") && !matches("eth1*", "eth2"));
    assert!(matches("*", "anything"));
    for text in ["eth1", "bond*", "*"] {
        assert_eq!(text.parse::<LinkPattern>().unwrap().to_string(), text);
    }
}

#[test]
fn changed_spec_increments_the_generation_and_keeps_the_status() {
    let mut old = pool(json!({"addresses": ["192.0.2.0/24"]}));
    old["metadata"]["generation"] = json!(1);
    old["status"] = json!({"usage": [{"family": "IPv4", "total": 256, "assigned": 1}]});
    let mut same = old.clone();
    same["status"] = json!({});
    prepare_update(&mut same, &old);
    assert_eq!(same, old);
    let mut other = old.clone();
    other["spec"]["priority"] = json!(5);
    prepare_update(&mut other, &old);
    assert_eq!(other["metadata"]["generation"], 2);
}

#[test]
fn pool_has_either_addresses_or_those_of_nodes() {
    let of = |spec: Value| causes(&validate(&pool(spec)));
    let nodes = pool(json!({"addresses": null, "nodeAddresses": {}}));
    assert_eq!(nodes["spec"]["nodeAddresses"]["type"], "InternalIP");
    assert!(validate(&nodes).is_empty());
    assert!(of(json!({"nodeAddresses": {"type": "ExternalOrInternalIP"}})).is_empty());
    assert_eq!(of(json!({})), ["FieldValueRequired spec.addresses"]);
    assert_eq!(
        of(json!({"nodeAddresses": {"type": "Hostname"}})),
        ["FieldValueNotSupported spec.nodeAddresses.type"]
    );
    assert_eq!(
        of(json!({"nodeAddresses": {}, "addresses": ["192.0.2.0/24"], "interfaces": ["eth0"]})),
        [
            "FieldValueForbidden spec.addresses",
            "FieldValueForbidden spec.interfaces"
        ]
    );
}
