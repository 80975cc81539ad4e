use api::object::{EndpointSlice, Service};
use plan::Settings;
use serde_json::{Value, json};

use super::*;
use crate::tests::test_plans::settings;

/// Returns the groups of a Service with these fields and two endpoints, the first one on this node.
fn groups_of(settings: Settings, spec: Value, annotations: Value) -> Vec<Group> {
    let features = KernelFeatures {
        can_refuse: true,
        can_destroy: false,
    };
    groups_with(features, settings, spec, annotations)
}

fn groups_with(features: KernelFeatures, settings: Settings, spec: Value, annotations: Value) -> Vec<Group> {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": "web", "annotations": annotations},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
            "ports": [{"name": "http", "port": 80}]},
    });
    for (name, value) in spec.as_object().unwrap() {
        if name == "status" {
            object["status"] = value.clone();
        } else {
            object["spec"][name] = value.clone();
        }
    }
    let service: Service = serde_json::from_value(object).unwrap();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [
            {"addresses": ["10.244.1.1"], "nodeName": "node-a"},
            {"addresses": ["10.244.2.1"], "nodeName": "node-b"},
        ],
    }))
    .unwrap();
    let mut plan = Plan::new(settings);
    plan.apply_service(&service);
    plan.apply_slice(&slice);
    plan.take_changes();
    groups(&plan, &ObjectKey::new("ns", "web"), features)
}

fn frontends(groups: &[Group]) -> Vec<String> {
    let frontends = groups.iter().flat_map(|group| &group.frontends);
    frontends.map(ToString::to_string).collect()
}

#[test]
fn cluster_ip_is_served() {
    let groups = groups_of(settings(), json!({}), json!({}));
    assert_eq!(frontends(&groups), ["10.96.0.1:80"]);
    assert_eq!(groups[0].endpoints.len(), 2);
}

/// KPF-18: Pods would have to be masqueraded.
#[test]
fn masquerade_all_leaves_frontends_to_nftables() {
    let settings = Settings {
        masquerade_all: true,
        ..settings()
    };
    assert_eq!(groups_of(settings, json!({}), json!({})), []);
}

/// EPT-07: the set of the policy.
#[test]
fn internal_policy_local_has_local_endpoints() {
    let groups = groups_of(settings(), json!({"internalTrafficPolicy": "Local"}), json!({}));
    assert_eq!(groups[0].set, Some(EndpointSet::Local));
    assert_eq!(groups[0].endpoints, ["10.244.1.1:8080".parse().unwrap()]);
}

/// EPT-11: affinity needs the address of the client.
#[test]
fn affinity_leaves_frontends_to_nftables() {
    assert_eq!(
        groups_of(settings(), json!({"sessionAffinity": "ClientIP"}), json!({})),
        []
    );
}

#[test]
fn annotations_that_end_connections_leave_frontends_to_nftables() {
    for (name, value) in [
        ("service.portolan.dev/drain-seconds", "5"),
        ("service.portolan.dev/max-connection-age-seconds", "60"),
        ("service.portolan.dev/rebalance-percent", "50"),
        ("service.portolan.dev/scheduler", "rr"),
    ] {
        assert_eq!(
            groups_of(settings(), json!({}), json!({name: value})),
            [],
            "{name}"
        );
    }
}

#[test]
fn draining_services_are_served_if_sockets_can_be_destroyed() {
    let features = KernelFeatures {
        can_refuse: true,
        can_destroy: true,
    };
    let groups_of = |annotations| groups_with(features, settings(), json!({}), annotations);
    let drained = groups_of(json!({"service.portolan.dev/drain-seconds": "5"}));
    assert_eq!(frontends(&drained), ["10.96.0.1:80"]);
    let aged = groups_of(json!({
        "service.portolan.dev/drain-seconds": "5", "service.portolan.dev/max-connection-age-seconds": "60",
    }));
    assert_eq!(aged, []);
}

/// EPT-13, EPT-08: with policy Cluster, Pods are masqueraded; with policy Local, clients that are not detected as Pods
/// reach other endpoints.
#[test]
fn load_balancer_ip_is_left_to_nftables() {
    let spec = |policy: &str| {
        json!({"type": "LoadBalancer", "externalTrafficPolicy": policy,
            "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
            "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}})
    };
    for policy in ["Cluster", "Local"] {
        let groups = groups_of(settings(), spec(policy), json!({}));
        assert_eq!(frontends(&groups), ["10.96.0.1:80"], "{policy}");
    }
}

#[test]
fn udp_is_left_to_nftables() {
    let spec = json!({"ports": [{"name": "http", "port": 80, "protocol": "UDP"}]});
    assert_eq!(groups_of(settings(), spec, json!({})), []);
}

/// EPT-09: no endpoint has the port.
#[test]
fn service_without_endpoints_is_refused() {
    let spec = json!({"ports": [{"name": "other", "port": 80}]});
    let groups = groups_of(settings(), spec, json!({}));
    assert_eq!((groups[0].set, groups[0].endpoints.len()), (None, 0));
    let spec = json!({"ports": [{"name": "other", "port": 80}]});
    let groups = groups_with(KernelFeatures::default(), settings(), spec, json!({}));
    assert_eq!(groups, [], "the kernel cannot refuse");
}
