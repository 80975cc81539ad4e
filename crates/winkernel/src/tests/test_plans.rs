//! Plans, networks and settings for tests. The node is `node-a` with the Pods of 10.244.1.0/24.

use std::collections::HashSet;

use api::object::{EndpointSlice, ObjectKey, Service};
use plan::{Plan, PodDetection};
use serde_json::{Value, json};

use crate::features::Features;
use crate::schema::{Endpoint, HnsId, HnsVersion, IpConfiguration, Network};
use crate::settings::Settings;

pub(crate) const NETWORK_ID: &str = "A0000000-0000-0000-0000-000000000001";
pub(crate) const NODE_IP: &str = "172.30.0.11";
pub(crate) const SOURCE_VIP: &str = "10.244.1.2";
/// A Pod of this node, and one of another node.
pub(crate) const LOCAL_POD: &str = "10.244.1.7";
pub(crate) const REMOTE_POD: &str = "10.244.2.7";
pub(crate) const SECOND_REMOTE_POD: &str = "10.244.2.8";
pub(crate) const CLUSTER_IP: &str = "10.96.0.10";

/// HNS with all features.
pub(crate) const VERSION: HnsVersion = HnsVersion { major: 15, minor: 4 };

pub(crate) fn features() -> Features {
    Features::of(VERSION)
}

pub(crate) fn settings() -> Settings {
    Settings {
        network_name: "pods".to_owned(),
        source_vip: Some(SOURCE_VIP.parse().unwrap()),
        node_ips: vec![NODE_IP.parse().unwrap(), "fd00:30::11".parse().unwrap()],
        host_mac: Some("00-15-5d-00-00-01".parse().unwrap()),
        ..Settings::default()
    }
}

pub(crate) fn network(kind: &str) -> Network {
    serde_json::from_value(json!({
        "ID": NETWORK_ID, "Name": "pods", "Type": kind,
        "Policies": [{
            "Type": "RemoteSubnetRoute",
            "Settings": {
                "DestinationPrefix": "10.244.2.0/24", "IsolationId": 4096, "ProviderAddress": "172.30.0.12",
                "DistributedRouterMacAddress": "00-15-5d-00-00-02",
            },
        }],
        "Ipams": [{"Type": "Static", "Subnets": [
            {"IpAddressPrefix": "10.244.1.0/24"}, {"IpAddressPrefix": "fd00:244:1::/64"},
        ]}],
    }))
    .unwrap()
}

/// The endpoint of a Pod on this node, as the plugin of the network creates it.
pub(crate) fn pod_endpoint(number: u32, addresses: &[&str]) -> Endpoint {
    let configuration = |address: &&str| IpConfiguration {
        ip_address: (*address).to_owned(),
        prefix_length: 24,
    };
    Endpoint {
        id: HnsId::from(format!("B0000000-0000-0000-0000-{number:012}")),
        name: format!("pod-{number}"),
        host_compute_network: NETWORK_ID.into(),
        ip_configurations: addresses.iter().map(configuration).collect(),
        mac_address: "00-15-5D-00-01-07".to_owned(),
        ..Endpoint::default()
    }
}

pub(crate) fn empty_plan() -> Plan {
    Plan::new(plan::Settings {
        node_name: "node-a".to_owned(),
        pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse().unwrap()]),
        node_addresses: vec![NODE_IP.parse().unwrap()],
        ..plan::Settings::default()
    })
}

/// Adds a Service with the port 80; `spec` replaces and adds fields.
pub(crate) fn put_service(plan: &mut Plan, name: &str, cluster_ips: &[&str], spec: &Value, status: &Value) {
    let family = |address: &&str| if address.contains(':') { "IPv6" } else { "IPv4" };
    let families: Vec<&str> = cluster_ips.iter().map(family).collect();
    let mut full = json!({
        "type": "ClusterIP", "clusterIP": cluster_ips[0], "clusterIPs": cluster_ips, "ipFamilies": families,
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
    });
    for (field, value) in spec.as_object().unwrap() {
        full[field] = value.clone();
    }
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name}, "spec": full, "status": status,
    }))
    .unwrap();
    plan.apply_service(&service);
}

/// Adds the endpoints of a Service: address, node ("" for no node) and conditions.
pub(crate) fn put_endpoints(plan: &mut Plan, name: &str, endpoints: &[(&str, &str, Value)]) {
    let is_v6 = endpoints
        .first()
        .is_some_and(|(address, ..)| address.contains(':'));
    let family = if is_v6 { "IPv6" } else { "IPv4" };
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(address, node, conditions)| {
            let mut endpoint = json!({"addresses": [address], "conditions": conditions});
            if !node.is_empty() {
                endpoint["nodeName"] = json!(node);
            }
            endpoint
        })
        .collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": format!("{name}-{family}"), "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": family,
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        "endpoints": endpoints,
    }))
    .unwrap();
    plan.apply_slice(&slice);
}

/// Conditions of an endpoint that is ready, or that terminates and serves.
pub(crate) fn ready() -> Value {
    json!({"ready": true, "serving": true, "terminating": false})
}

pub(crate) fn terminating() -> Value {
    json!({"ready": false, "serving": true, "terminating": true})
}

/// A plan with the Service `web`, and a Pod on each of both nodes.
pub(crate) fn web(spec: &Value, status: &Value) -> Plan {
    let mut plan = empty_plan();
    put_service(&mut plan, "web", &[CLUSTER_IP], spec, status);
    put_endpoints(
        &mut plan,
        "web",
        &[(LOCAL_POD, "node-a", ready()), (REMOTE_POD, "node-b", ready())],
    );
    plan.take_changes();
    plan
}

/// Status with a load balancer IP.
pub(crate) fn ingress(address: &str) -> Value {
    json!({"loadBalancer": {"ingress": [{"ip": address}]}})
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

pub(crate) fn none_preserving() -> HashSet<ObjectKey> {
    HashSet::new()
}
