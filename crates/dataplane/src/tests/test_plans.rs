//! Plans for the tests of data planes.

use api::object::{EndpointSlice, Service};
use plan::{Plan, PodDetection, Settings};
use serde_json::json;

/// Returns the settings of node `node-a` in a dual-stack cluster.
pub(crate) fn settings() -> Settings {
    Settings {
        node_name: "node-a".to_owned(),
        pods: PodDetection::Ranges(vec![
            "10.244.0.0/16".parse().unwrap(),
            "fd00:244::/32".parse().unwrap(),
        ]),
        service_cidrs: vec![
            "10.96.0.0/16".parse().unwrap(),
            "fd00:10:96::/112".parse().unwrap(),
        ],
        ..Settings::default()
    }
}

/// Adds a Service with affinity and a node port. Its first endpoint is on this node.
pub(crate) fn put(plan: &mut Plan, number: usize, endpoints: usize) {
    let ip = format!("10.96.0.{}", number + 1);
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": format!("s{number}")},
        "spec": {
            "type": "NodePort", "clusterIP": ip, "clusterIPs": [ip], "sessionAffinity": "ClientIP",
            "ports": [{"name": "http", "port": 80, "nodePort": 30_000 + number}],
        },
    }))
    .unwrap();
    let endpoints: Vec<_> = (0..endpoints)
        .map(|index| {
            let node = if index == 0 { "node-a" } else { "node-b" };
            json!({"addresses": [format!("10.244.{number}.{}", index + 1)], "nodeName": node})
        })
        .collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": format!("s{number}"),
            "labels": {"kubernetes.io/service-name": format!("s{number}")},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": endpoints,
    }))
    .unwrap();
    plan.apply_service(&service);
    plan.apply_slice(&slice);
}

/// Returns a plan with this many Services of three endpoints each.
pub(crate) fn planned(services: usize) -> Plan {
    let mut plan = Plan::new(settings());
    for number in 0..services {
        put(&mut plan, number, 3);
    }
    plan
}
