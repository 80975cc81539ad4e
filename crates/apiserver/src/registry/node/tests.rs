use super::*;

fn faults(errors: &FieldErrors) -> Vec<(&str, &str)> {
    errors
        .iter()
        .map(|error| (error.path.as_str(), error.reason.as_str()))
        .collect()
}

fn node(spec: Value, status: Value) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec, "status": status});
    default_on_write(&mut node);
    node
}

#[test]
fn new_node_has_the_fields_that_clients_expect() {
    let plain = node(json!({}), Value::Null);
    assert_eq!(plain["spec"], json!({}));
    assert_eq!(plain["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 0);
    assert_eq!(plain["status"]["nodeInfo"]["osImage"], "");
    let reported = json!({"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}, "nodeInfo": {"osImage": "x"}});
    let reported = node(json!({}), reported);
    assert_eq!(reported["status"]["allocatable"], json!({"cpu": "1"}));
    assert_eq!(
        reported["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"],
        10250
    );
    assert_eq!(reported["status"]["nodeInfo"]["osImage"], "x");
    assert_eq!(
        reported["status"]["conditions"][0]["lastHeartbeatTime"],
        Value::Null
    );
}

// The expectations are responses of kube-apiserver 1.36.2.
#[test]
fn deprecated_fields_are_dropped_or_warned_of() {
    let mut node = node(
        json!({"configSource": {"configMap": {}}, "externalID": "x"}),
        json!({}),
    );
    let mut updated = node.clone();
    prepare_create(&mut node);
    assert_eq!(node["spec"], json!({"externalID": "x"}));
    prepare_update(&mut updated, &node);
    assert_eq!(updated, node);
    assert_eq!(
        warnings(&node),
        ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
    );
    assert!(warnings(&json!({"spec": {}})).is_empty());
}

#[test]
fn first_range_takes_precedence() {
    let ranges = |spec| {
        let spec = node(spec, json!({}))["spec"].clone();
        (spec["podCIDR"].clone(), spec["podCIDRs"].clone())
    };
    let one = (json!("10.1.0.0/24"), json!(["10.1.0.0/24"]));
    assert_eq!(ranges(json!({"podCIDR": "10.1.0.0/24"})), one);
    assert_eq!(ranges(json!({"podCIDRs": ["10.1.0.0/24"]})), one);
    assert_eq!(
        ranges(json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.2.0.0/24"]})),
        one
    );
    let both = json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]});
    assert_eq!(ranges(both).1, json!(["10.1.0.0/24", "fd00::/64"]));
}

#[test]
fn rejects_invalid_ranges() {
    let of = |ranges: Value| validate(&node(json!({"podCIDRs": ranges}), json!({})));
    assert_eq!(faults(&of(json!(["10.1.0.0/24", "fd00::/64"]))), []);
    assert_eq!(
        faults(&of(json!(["10.1.0.5/24"]))),
        [("spec.podCIDRs[0]", "FieldValueInvalid")]
    );
    assert_eq!(
        faults(&of(json!(["10.1.0.0/24", "10.2.0.0/24"]))),
        [("spec.podCIDRs", "FieldValueInvalid")]
    );
}

#[test]
fn rejects_invalid_taints() {
    let of = |taints: Value| validate(&node(json!({"taints": taints}), json!({})));
    let twice =
        json!([{"key": "a", "effect": "NoExecute"}, {"key": "a", "value": "b", "effect": "NoExecute"}]);
    let errors = of(twice);
    assert_eq!(faults(&errors), [("metadata.taints[1]", "FieldValueDuplicate")]);
    assert!(
        errors[0]
            .message
            .ends_with(": taints must be unique by key and effect pair")
    );
    let errors = of(json!([{"key": "", "effect": ""}, {"key": "a", "value": "b c", "effect": "x"}]));
    let expected = [
        ("metadata.taints[0].key", "FieldValueInvalid"),
        ("metadata.taints[0].key", "FieldValueInvalid"),
        ("metadata.taints[0].effect", "FieldValueRequired"),
        ("metadata.taints[1].value", "FieldValueInvalid"),
        ("metadata.taints[1].effect", "FieldValueNotSupported"),
    ];
    assert_eq!(faults(&errors), expected);
}

#[test]
fn rejects_negative_and_fractional_amounts() {
    let status = json!({"capacity": {"cpu": "-1", "x.example/y": "1500m", "memory": "1Gi", "pods": "110", "x.example/large": "10P"}, "allocatable": {}});
    let errors = validate(&node(json!({}), status));
    let expected = [
        ("status.capacity.cpu", "FieldValueInvalid"),
        ("status.capacity.x.example/y", "FieldValueInvalid"),
        ("status.allocatable.cpu", "FieldValueInvalid"),
        ("status.allocatable.x.example/y", "FieldValueInvalid"),
    ];
    assert_eq!(faults(&errors), expected);
}

#[test]
fn ranges_and_provider_stay() {
    let old = node(
        json!({"podCIDR": "10.1.0.0/24", "providerID": "a://b"}),
        json!({}),
    );
    let changed = node(
        json!({"podCIDR": "10.2.0.0/24", "providerID": "a://c"}),
        json!({}),
    );
    let expected = [
        ("spec.podCIDRs", "FieldValueForbidden"),
        ("spec.providerID", "FieldValueForbidden"),
    ];
    assert_eq!(faults(&validate_update(&changed, &old)), expected);
    assert_eq!(
        faults(&validate_update(&changed, &node(json!({}), json!({})))),
        []
    );
}

#[test]
fn rejects_an_address_twice() {
    let address = json!({"type": "InternalIP", "address": "192.0.2.1"});
    let new = node(json!({}), json!({"addresses": [address, address]}));
    let expected = [("status.addresses[1]", "FieldValueDuplicate")];
    assert_eq!(
        faults(&validate_update(&new, &node(json!({}), json!({})))),
        expected
    );
}

/// A node can send as many addresses as fit into a request. A quadratic comparison would take minutes.
#[test]
fn finds_duplicates_among_many_addresses_and_taints() {
    let numbers = || (0..300_000).chain([7]);
    let addresses: Vec<Value> = numbers()
        .map(|number| json!({"type": "InternalIP", "address": number.to_string()}))
        .collect();
    let mut errors = FieldErrors::new();
    validate_addresses(&mut errors, &json!({"status": {"addresses": addresses}}));
    assert_eq!(
        faults(&errors),
        [("status.addresses[300000]", "FieldValueDuplicate")]
    );
    let taints: Vec<Value> = numbers()
        .map(|number| json!({"key": format!("k{number}"), "effect": "NoSchedule"}))
        .collect();
    let mut errors = FieldErrors::new();
    validate_taints(&mut errors, &json!({"spec": {"taints": taints}}));
    assert_eq!(
        faults(&errors),
        [("metadata.taints[300000]", "FieldValueDuplicate")]
    );
}

/// The response of kube-apiserver 1.36.2.
#[test]
fn empty_fields_are_not_stored() {
    let empty = node(
        json!({"taints": [], "unschedulable": false}),
        json!({"addresses": [], "allocatable": {}, "capacity": {}, "conditions": [], "images": [],
            "volumesAttached": [], "volumesInUse": []}),
    );
    assert_eq!(empty, node(json!({}), json!({})));
}

/// The response of kube-apiserver 1.36.2.
#[test]
fn items_of_the_status_have_their_required_fields() {
    let reported = node(
        json!({}),
        json!({
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname"}, {"address": "192.0.2.2"}],
            "images": [{}, {"names": ["a"], "sizeBytes": 1}, {"names": [], "sizeBytes": 0}],
            "runtimeHandlers": [{}, {"name": "a", "features": {}}],
            "volumesAttached": [{}, {"name": "x"}, {"devicePath": "y"}],
            "conditions": [{"type": "Ready"}],
        }),
    );
    let status = &reported["status"];
    assert_eq!(
        status["addresses"],
        json!([
            {"type": "InternalIP", "address": "192.0.2.1"},
            {"type": "Hostname", "address": ""},
            {"type": "", "address": "192.0.2.2"},
        ])
    );
    assert_eq!(
        status["images"],
        json!([{"names": null}, {"names": ["a"], "sizeBytes": 1}, {"names": null}])
    );
    assert_eq!(
        status["runtimeHandlers"],
        json!([{"name": ""}, {"name": "a", "features": {}}])
    );
    assert_eq!(
        status["volumesAttached"],
        json!([{"name": "", "devicePath": ""}, {"name": "x", "devicePath": ""}, {"name": "", "devicePath": "y"}])
    );
    assert_eq!(
        status["conditions"],
        json!([{"type": "Ready", "status": "", "lastHeartbeatTime": null, "lastTransitionTime": null}])
    );
}
