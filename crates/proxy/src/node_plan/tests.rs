use plan::{NodePortAddresses, PodDetection};
use serde_json::json;

use super::*;
use crate::config::{NodePortSelection, PodSelection};

fn read<T: serde::de::DeserializeOwned>(tree: serde_json::Value) -> T {
    serde_json::from_value(tree).expect("an object")
}

#[test]
fn settings_depend_on_the_node_and_the_configuration() {
    let objects = NodeObjects {
        services: vec![read(json!({"metadata": {"namespace": "shop", "name": "web"},
            "spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": [{"port": 80}]}}))],
        slices: vec![read(json!({"metadata": {"namespace": "shop", "name": "web-1",
            "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": ["10.244.1.2"]}]}))],
        node: Some(read(
            json!({"metadata": {"name": "node-a"}, "spec": {"podCIDRs": ["10.244.1.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}}),
        )),
        service_cidrs: vec![read(
            json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16", "x"]}}),
        )],
        own_addresses: vec!["192.0.2.1".parse().expect("an address")],
    };
    let config = Config {
        node_name: "node-a".to_owned(),
        pods: PodSelection::NodeCidrs,
        node_port_addresses: NodePortSelection::Primary,
        ..Config::default()
    };
    let plan = plan_of_node(&config, &objects);
    let settings = plan.settings();
    let range = |text: &str| text.parse::<IpNet>().expect("a range");
    assert_eq!(settings.pods, PodDetection::Ranges(vec![range("10.244.1.0/24")]));
    assert_eq!(settings.service_cidrs, [range("10.96.0.0/16")]);
    assert_eq!(
        settings.node_port_addresses,
        NodePortAddresses::Primary(objects.own_addresses.clone())
    );
    assert_eq!(plan.services().count(), 1);
}
