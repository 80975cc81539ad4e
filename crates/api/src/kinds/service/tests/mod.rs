mod families;
mod update;

use serde_json::{Value, json};

use super::*;
use crate::machinery::ip::Family;

/// A Service after defaults, families and an allocation of `10.96.0.9`.
fn stored(spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
    default_on_write(&mut service);
    normalize_cluster_ips(&mut service, None);
    let dual = ConfiguredFamilies {
        primary: Family::V4,
        is_dual_stack: true,
    };
    initialize_families(&mut service, None, dual).expect("families");
    if View::of(&service).needs_cluster_ip() && View::of(&service).cluster_ip().is_empty() {
        service["spec"]["clusterIP"] = "10.96.0.9".into();
        service["spec"]["clusterIPs"] = json!(["10.96.0.9"]);
    }
    prepare_create(&mut service);
    service
}

fn causes(errors: &[crate::machinery::field::FieldError]) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}", error.reason.as_str(), error.path))
        .collect()
}

fn causes_of(spec: Value) -> Vec<String> {
    causes(&validate(&stored(spec)))
}

#[test]
fn minimal_service_gets_defaults() {
    let service = stored(json!({"ports": [{"port": 80}], "selector": {}, "externalName": ""}));
    assert_eq!(
        service["spec"],
        json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "sessionAffinity": "None",
            "type": "ClusterIP", "internalTrafficPolicy": "Cluster", "ipFamilyPolicy": "SingleStack",
            "ipFamilies": ["IPv4"], "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]})
    );
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    assert!(validate(&service).is_empty());
}

#[test]
fn defaults_depend_on_type_and_affinity() {
    let spec = stored(
        json!({"type": "LoadBalancer", "ports": [{"port": 80, "targetPort": ""}],
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": {}}),
    )["spec"]
        .clone();
    assert_eq!(spec["allocateLoadBalancerNodePorts"], true);
    assert_eq!(spec["externalTrafficPolicy"], "Cluster");
    assert_eq!(spec["ports"][0]["targetPort"], 80);
    assert_eq!(
        spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"],
        10_800
    );
    let spec = stored(json!({"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"],
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}))["spec"]
        .clone();
    assert_eq!(spec["externalTrafficPolicy"], "Cluster");
    assert_eq!(spec.get("sessionAffinityConfig"), None);
}

#[test]
fn rules_accept_trees_of_any_type() {
    for spec in [
        json!(null),
        json!(7),
        json!([]),
        json!({"ports": {}, "clusterIPs": "x", "type": 3}),
        json!({"ports": [null, 3, {"port": {}}], "sessionAffinityConfig": [], "ipFamilies": [1]}),
    ] {
        let mut service = json!({"metadata": 3, "spec": spec, "status": []});
        default_on_write(&mut service);
        let old = service.clone();
        patch_allocated_values(&mut service, &old);
        normalize_cluster_ips(&mut service, Some(&old));
        prepare_update(&mut service, &old);
        default_on_read(&mut service, Family::V4);
        assert!(!validate(&service).is_empty());
        let _shown = (
            validate_update(&service, &old),
            warnings(&service),
            status_warnings(&service),
        );
    }
}

#[test]
fn rejects_duplicate_ports() {
    let faults =
        causes_of(json!({"ports": [{"port": 80}, {"name": "a", "port": 80}, {"name": "a", "port": 0}]}));
    assert_eq!(
        faults,
        [
            "FieldValueRequired spec.ports[0].name",
            "FieldValueDuplicate spec.ports[2].name",
            "FieldValueInvalid spec.ports[2].port",
            "FieldValueInvalid spec.ports[2].targetPort",
            "FieldValueDuplicate spec.ports[1]",
        ]
    );
    let faults = causes_of(json!({"type": "NodePort", "ports": [
        {"name": "a", "port": 80, "nodePort": 30000}, {"name": "b", "port": 81, "nodePort": 30000}]}));
    assert_eq!(faults, ["FieldValueDuplicate spec.ports[1].nodePort"]);
    let faults = causes_of(json!({"ports": [{"port": 80, "nodePort": 30000}]}));
    assert_eq!(faults, ["FieldValueForbidden spec.ports[0].nodePort"]);
}

#[test]
fn types_exclude_fields_of_other_types() {
    let faults = causes_of(json!({"clusterIP": "None", "type": "NodePort", "ports": [{"port": 80}]}));
    assert_eq!(faults, ["FieldValueInvalid spec.clusterIPs[0]"]);
    let faults = causes_of(json!({"type": "ExternalName", "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"]}));
    assert_eq!(
        faults,
        [
            "FieldValueForbidden spec.clusterIPs",
            "FieldValueForbidden spec.ipFamilies",
            "FieldValueRequired spec.externalName",
        ]
    );
    let faults = causes_of(json!({"ports": [{"port": 80}], "loadBalancerClass": "x",
        "allocateLoadBalancerNodePorts": false, "loadBalancerSourceRanges": ["10.0.0.1/8"],
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000}));
    assert_eq!(
        faults,
        [
            "FieldValueForbidden spec.LoadBalancerSourceRanges",
            "FieldValueInvalid spec.LoadBalancerSourceRanges[0]",
            "FieldValueForbidden spec.allocateLoadBalancerNodePorts",
            "FieldValueForbidden spec.loadBalancerClass",
            "FieldValueInvalid spec.externalTrafficPolicy",
            "FieldValueInvalid spec.healthCheckNodePort",
        ]
    );
}

#[test]
fn rejects_contradicting_topology_annotations() {
    let mut service = stored(json!({"ports": [{"port": 80}]}));
    service["metadata"]["annotations"] =
        json!({TOPOLOGY_MODE_ANNOTATION: "Auto", TOPOLOGY_HINTS_ANNOTATION: "auto"});
    assert_eq!(
        causes(&validate(&service)),
        ["FieldValueInvalid metadata.annotations[service.kubernetes.io/topology-mode]"]
    );
    assert_eq!(warnings(&service).len(), 1);
}

#[test]
fn ports_of_the_load_balancer_status_are_complete() {
    let mut service = stored(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
    service["status"] =
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ports": [{"error": null}]}]}});
    default_on_write(&mut service);
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"][0]["ports"],
        json!([{"port": 0, "protocol": ""}])
    );
}

#[test]
fn validates_the_load_balancer_status() {
    let old = stored(json!({"type": "LoadBalancer", "ports": [{"port": 80}]}));
    let faults_of = |ingress: Value| {
        let mut new = old.clone();
        new["status"] = json!({"loadBalancer": {"ingress": [ingress]}});
        default_on_write(&mut new);
        prepare_status_update(&mut new, &old);
        causes(&validate_status_update(&new, &old))
    };
    assert!(faults_of(json!({"ip": "192.0.2.1"})).is_empty());
    let at = |reason: &str, field: &str| vec![format!("{reason} status.loadBalancer.ingress[0].{field}")];
    assert_eq!(faults_of(json!({"ip": "x"})), at("FieldValueInvalid", "ip"));
    assert_eq!(
        faults_of(json!({"ip": "192.0.2.1", "ipMode": "X"})),
        at("FieldValueNotSupported", "ipMode")
    );
    assert_eq!(
        faults_of(json!({"hostname": "h", "ipMode": "VIP"})),
        at("FieldValueForbidden", "ipMode")
    );
    assert_eq!(
        faults_of(json!({"hostname": "192.0.2.1"})),
        at("FieldValueInvalid", "hostname")
    );
}

#[test]
fn warns_of_accepted_services() {
    let of = |spec: Value| warnings(&stored(spec));
    assert!(of(json!({"ports": [{"port": 80}]})).is_empty());
    assert_eq!(
        of(json!({"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]})).len(),
        1
    );
    assert_eq!(
        of(json!({"type": "ExternalName", "externalName": "a", "externalIPs": ["192.0.2.1"]})).len(),
        1
    );
    let headless = json!({"clusterIP": "None", "ports": [{"port": 80}], "externalIPs": ["192.0.2.1"],
        "loadBalancerIP": "192.0.2.1", "sessionAffinity": "ClientIP"});
    assert_eq!(of(headless).len(), 3);
    assert_eq!(
        of(json!({"ports": [{"port": 80}], "trafficDistribution": "PreferClose"})).len(),
        1
    );
    assert_eq!(
        of(json!({"ports": [{"port": 80}], "loadBalancerIP": "192.0.2.01"})).len(),
        1
    );
}

#[test]
fn warnings_have_the_order_of_upstream() {
    let service = stored(json!({
        "type": "LoadBalancer", "clusterIP": "2001:DB8::1", "clusterIPs": ["2001:DB8::1"],
        "externalIPs": ["192.0.2.01"], "loadBalancerIP": "192.0.2.02", "externalName": "x",
        "loadBalancerSourceRanges": ["10.0.0.1/8"], "trafficDistribution": "PreferClose",
    }));
    let about: Vec<String> = warnings(&service)
        .iter()
        .map(|warning| warning.split([' ', ':']).next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        about,
        [
            "spec.clusterIPs[0]",
            "spec.externalIPs[0]",
            "spec.externalIPs",
            "spec.loadBalancerIP",
            "spec.loadBalancerSourceRanges[0]",
            "spec.externalName",
            "spec.trafficDistribution",
        ]
    );
}
