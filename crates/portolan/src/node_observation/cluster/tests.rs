use explain::World;
use serde_json::json;

use super::*;

fn builder() -> WorldBuilder {
    let mut builder = World::builder();
    builder.add(json!([
        {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"clusterIP": "10.96.0.7",
            "clusterIPs": ["10.96.0.7", "fd00::7"], "externalIPs": ["192.0.2.7", "x"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}, {"hostname": "a"}]}}},
        {"kind": "Service", "metadata": {"name": "db"}, "spec": {"clusterIP": "None"}},
        {"kind": "EndpointSlice", "metadata": {"name": "web-1", "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": ["10.244.1.2"], "nodeName": "node-a", "targetRef": {"kind": "Pod", "name": "web-1"}},
                {"addresses": ["10.244.1.3"], "conditions": {"ready": false}}]},
        {"kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop"}, "spec": {"nodeName": "node-a"},
            "status": {"podIP": "10.244.1.2", "podIPs": [{"ip": "10.244.1.2"}, {"ip": "fd00::2"}]}},
        {"kind": "Pod", "metadata": {"name": "agent"}, "spec": {"hostNetwork": true}, "status": {"podIP": "192.0.2.1"}},
        {"kind": "Pod", "metadata": {"name": "done"}, "status": {"phase": "Succeeded", "podIP": "10.244.1.9"}},
        {"kind": "Node", "metadata": {"name": "node-a"}},
    ]));
    builder
}

#[test]
fn objects_of_the_node_are_read() {
    let cluster = Cluster::read(&builder(), None);
    assert!(cluster.has_services && cluster.node("node-a").is_some());
    assert_eq!((cluster.services.len(), cluster.examined().len()), (2, 2));
    assert_eq!(cluster.services[0].metadata.namespace, "default");
    let pods: Vec<String> = cluster.pods.iter().map(|pod| pod.pod.to_string()).collect();
    assert_eq!(pods, ["shop/web-1"]);
    assert_eq!(cluster.pods[0].addresses.len(), 2);
    let web = ObjectKey::new("shop", "web");
    let endpoints = cluster.endpoints_of(&web);
    assert_eq!(
        endpoints[0].pod.as_ref().map(|pod| pod.name.as_str()),
        Some("web-1")
    );
    let states: Vec<_> = endpoints.iter().map(|endpoint| endpoint.is_ready).collect();
    assert_eq!(states, [true, false]);
    let address = "10.244.1.3:8080".parse().expect("an address");
    assert!(cluster.endpoint_addresses().contains(&address));
}

#[test]
fn selects_one_service() {
    let web = ObjectKey::new("shop", "web");
    let cluster = Cluster::read(&builder(), Some(&web));
    assert!(cluster.node("node-b").is_none());
    let examined = cluster.examined();
    let [service] = examined.as_slice() else {
        panic!("one Service: {examined:?}");
    };
    let addresses: Vec<String> = frontend_addresses(service)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(addresses, ["10.96.0.7", "192.0.2.7", "203.0.113.7", "fd00::7"]);
}
