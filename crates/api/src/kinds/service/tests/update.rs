use serde_json::{Value, json};

use super::{causes, stored};
use crate::kinds::service::{
    default_on_read, default_on_write, normalize_cluster_ips, patch_allocated_values, prepare_update,
    validate_update,
};

fn normalized(old: Value, new: Value) -> Value {
    let mut new = json!({"spec": new});
    normalize_cluster_ips(&mut new, Some(&json!({"spec": old})));
    new["spec"].clone()
}

#[test]
fn normalization_aligns_singular_and_plural() {
    let old = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]});
    let both = |ip: &str, ips: Value| json!({"clusterIP": ip, "clusterIPs": ips});
    assert_eq!(
        normalized(old.clone(), json!({"clusterIP": "10.0.0.1"}))["clusterIPs"],
        old["clusterIPs"]
    );
    assert_eq!(
        normalized(old.clone(), both("", old["clusterIPs"].clone())).get("clusterIPs"),
        None
    );
    assert_eq!(
        normalized(old.clone(), both("10.0.0.2", old["clusterIPs"].clone()))["clusterIPs"],
        json!(["10.0.0.2"])
    );
    let changed = both("10.0.0.2", json!(["10.0.0.3"]));
    assert_eq!(normalized(old, changed.clone()), changed);
}

#[test]
fn update_keeps_allocated_values() {
    let old = json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30003,
        "ports": [{"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 81, "nodePort": 30002}]}});
    let mut new = json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "ports": [{"name": "b", "port": 81}, {"name": "a", "port": 80}]}});
    patch_allocated_values(&mut new, &old);
    assert_eq!(new["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(new["spec"]["healthCheckNodePort"], 30003);
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30002);
    let mut new = json!({"spec": {"type": "NodePort",
        "ports": [{"name": "a", "port": 80}, {"name": "c", "port": 82, "nodePort": 30001}]}});
    patch_allocated_values(&mut new, &old);
    assert_eq!(new["spec"]["ports"][0].get("nodePort"), None);
}

#[test]
fn omitted_node_port_is_removed_without_allocation() {
    let old = json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30001}]}});
    let mut new = json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
        "ports": [{"port": 80}]}});
    patch_allocated_values(&mut new, &old);
    assert_eq!(new["spec"]["ports"][0].get("nodePort"), None);
}

#[test]
fn change_of_type_drops_unchanged_fields_of_the_old_type() {
    let old = stored(
        json!({"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30000}],
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001, "loadBalancerClass": "x"}),
    );
    let mut new = old.clone();
    new["spec"]["type"] = "ClusterIP".into();
    default_on_write(&mut new);
    prepare_update(&mut new, &old);
    assert!(
        validate_update(&new, &old).is_empty(),
        "{:?}",
        validate_update(&new, &old)
    );
    for field in [
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "loadBalancerClass",
        "allocateLoadBalancerNodePorts",
    ] {
        assert_eq!(new["spec"].get(field), None, "{field}");
    }
    assert_eq!(new["spec"]["ports"][0].get("nodePort"), None);
    let mut new = old.clone();
    new["spec"]["type"] = "NodePort".into();
    new["spec"]["loadBalancerClass"] = "y".into();
    prepare_update(&mut new, &old);
    let expected = ["FieldValueForbidden spec.loadBalancerClass"; 2];
    assert_eq!(causes(&validate_update(&new, &old)), expected);
}

#[test]
fn rejects_changes_of_addresses_and_families() {
    let old = stored(json!({"ports": [{"port": 80}]}));
    let faults = |change: Value| {
        let mut new = old.clone();
        for (field, value) in change.as_object().expect("a change") {
            new["spec"][field] = value.clone();
        }
        causes(&validate_update(&new, &old))
    };
    assert!(faults(json!({})).is_empty());
    let changed = json!({"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.8"]});
    assert_eq!(faults(changed), ["FieldValueInvalid spec.clusterIPs[0]"]);
    let unset = json!({"clusterIP": "", "clusterIPs": []});
    assert_eq!(faults(unset), ["FieldValueInvalid spec.clusterIPs[0]"]);
    let more = json!({"clusterIPs": ["10.96.0.9", "fd00::9"], "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "RequireDualStack"});
    assert!(faults(more).is_empty());
    let class = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Cluster",
        "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "x"});
    assert!(faults(class).is_empty(), "a class may be set with the type");
}

#[test]
fn read_defaults_complete_old_objects() {
    let read = |spec: Value| {
        let mut service = json!({"spec": spec});
        default_on_read(&mut service, crate::machinery::ip::Family::V4);
        service["spec"].clone()
    };
    let spec = read(json!({"clusterIP": "10.0.0.1"}));
    assert_eq!(spec["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(
        (&spec["ipFamilies"], &spec["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &json!("SingleStack"))
    );
    let spec = read(json!({"clusterIP": "None"}));
    assert_eq!(spec["ipFamilies"], json!(["IPv4", "IPv6"]));
    let spec = read(json!({"clusterIP": "None", "selector": {"a": "b"}}));
    assert_eq!(spec["ipFamilies"], json!(["IPv4"]));
    let spec = read(json!({"type": "ExternalName", "internalTrafficPolicy": "Cluster"}));
    assert_eq!(spec, json!({"type": "ExternalName"}));
}

#[test]
fn updates_of_services_with_many_source_ranges_take_linear_time() {
    let ranges: Vec<String> = (0..60_000)
        .map(|number| format!("10.{}.{}.{}/32", number >> 16, number >> 8 & 255, number & 255))
        .collect();
    let old =
        stored(json!({"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": ranges}));
    // The pairwise comparison of all ranges would take a minute.
    assert_eq!(causes(&validate_update(&old, &old)), Vec::<String>::new());
}

#[test]
fn node_port_that_another_port_takes_over_is_not_restored() {
    let port = |name: &str, node_port: u16| json!({"name": name, "port": node_port, "nodePort": node_port});
    let old = stored(json!({"type": "NodePort", "ports": [port("a", 30_001), port("b", 30_002)]}));
    let mut new = old.clone();
    new["spec"]["ports"][0]["nodePort"] = 30_002.into();
    new["spec"]["ports"][1]["nodePort"] = 0.into();
    patch_allocated_values(&mut new, &old);
    assert_eq!(new["spec"]["ports"][1]["nodePort"], 0);
    new["spec"]["ports"][0]["nodePort"] = 30_001.into();
    patch_allocated_values(&mut new, &old);
    assert_eq!(new["spec"]["ports"][1]["nodePort"], 30_002);
}
