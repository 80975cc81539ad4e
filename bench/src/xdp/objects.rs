//! Plan of the node: a Service whose endpoints are on the other nodes.

use std::net::Ipv4Addr;

use api::object::{EndpointSlice, Service};
use dataplane::two_tier::NodeAddresses;
use plan::{Plan, PodDetection, Settings};
use serde_json::json;

use super::world::{NODE_ADDRESS, OTHER_NODES, other_address};
use crate::Failure;

/// Name of the measured node.
pub(super) const NODE: &str = "node";
/// Load balancer IP and port of the Service.
pub(super) const SERVICE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
pub(super) const PORT: u16 = 80;

fn other_name(number: u8) -> String {
    format!("other-{number}")
}

/// Returns the plan, and the addresses of all nodes.
pub(super) fn plan() -> Result<(Plan, NodeAddresses), Failure> {
    let mut plan = Plan::new(Settings {
        node_name: NODE.to_owned(),
        pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse()?]),
        node_addresses: vec![NODE_ADDRESS.into()],
        supports_two_tier: true,
        ..Settings::default()
    });
    let ports = json!([
        {"name": "tcp", "port": PORT, "protocol": "TCP"},
        {"name": "udp", "port": PORT, "protocol": "UDP"},
    ]);
    let service: Service = serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": "balanced",
            "annotations": {"service.portolan.dev/two-tier-forwarding": "true"},
        },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"],
            "ipFamilies": ["IPv4"], "ports": ports,
        },
        "status": {"loadBalancer": {"ingress": [{"ip": SERVICE}]}},
    }))?;
    let endpoints: Vec<_> = (1..=OTHER_NODES)
        .map(|number| {
            json!({"addresses": [Ipv4Addr::new(10, 244, number, 2)], "nodeName": other_name(number)})
        })
        .collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": "balanced-1",
            "labels": {"kubernetes.io/service-name": "balanced"},
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": endpoints,
    }))?;
    plan.apply_service(&service);
    plan.apply_slice(&slice);
    plan.take_changes();
    let others =
        (1..=OTHER_NODES).map(|number| (other_name(number).into(), vec![other_address(number).into()]));
    let nodes = others.chain([(NODE.into(), vec![NODE_ADDRESS.into()])]);
    Ok((plan, nodes.collect()))
}
