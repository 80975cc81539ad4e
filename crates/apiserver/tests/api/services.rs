//! Services: cluster IPs and node ports are allocated, released, and survive restarts.

use serde_json::{Value, json};

use crate::harness::Api;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["ports"] = json!([{"port": 80}]);
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn addresses_and_ports_are_allocated_and_released_with_the_service() {
    let api = Api::start().await;
    let created = api
        .post(SERVICES, &service("a", json!({"type": "NodePort"})))
        .await
        .expect(201);
    let address = created["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let port = created["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    let record = api.get(&format!("{ADDRESSES}/{address}")).await.expect(200);
    assert_eq!(record["spec"]["parentRef"]["name"], "a");
    let same_address = service("b", json!({"clusterIP": address}));
    let taken = api.post(SERVICES, &same_address).await.expect(422);
    assert_eq!(taken["details"]["causes"][0]["field"], "spec.clusterIPs");
    assert_eq!(
        api.delete(&format!("{SERVICES}/a")).await.expect(200)["kind"],
        "Service"
    );
    api.get(&format!("{ADDRESSES}/{address}")).await.expect(404);
    api.post(SERVICES, &same_address).await.expect(201);
    let mut same_port = service("c", json!({"type": "NodePort"}));
    same_port["spec"]["ports"][0]["nodePort"] = json!(port);
    api.post(SERVICES, &same_port).await.expect(201);
}

#[tokio::test]
async fn manually_created_ip_addresses_are_not_allocated() {
    let api = Api::start().await;
    let address = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.96.0.77"},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "other"}},
    });
    api.post(ADDRESSES, &address).await.expect(201);
    let same_address = service("a", json!({"clusterIP": "10.96.0.77"}));
    api.post(SERVICES, &same_address).await.expect(422);
    api.delete(&format!("{ADDRESSES}/10.96.0.77")).await.expect(200);
    api.post(SERVICES, &same_address).await.expect(201);
}

#[tokio::test]
async fn allocations_survive_a_restart() {
    let api = Api::start().await;
    let created = api.post(SERVICES, &service("a", json!({}))).await.expect(201);
    let api = Api::start_in(api.stop().await).await;
    assert_eq!(api.get(&format!("{SERVICES}/a")).await.expect(200), created);
    let same = service("b", json!({"clusterIP": created["spec"]["clusterIP"]}));
    api.post(SERVICES, &same).await.expect(422);
}

#[tokio::test]
async fn update_takes_no_port_of_a_shared_address_from_another_namespace() {
    const OTHERS: &str = "/api/v1/namespaces/other/services";
    let api = Api::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
    let (old, young) = (format!("{SERVICES}/web"), format!("{OTHERS}/web"));
    let ports = |port: u16| json!({"spec": {"ports": [{"port": port}]}});
    for (collection, path, port) in [(SERVICES, &old, 80), (OTHERS, &young, 443)] {
        let balanced = service("web", json!({"type": "LoadBalancer"}));
        api.post(collection, &balanced).await.expect(201);
        api.merge(path, &ports(port)).await.expect(200);
        let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}});
        let patch = json!({"status": status});
        api.merge(&format!("{path}/status"), &patch).await.expect(200);
    }
    let refused = api.merge(&old, &ports(443)).await.expect(403);
    assert_eq!(
        refused["message"],
        "services \"web\" is forbidden: ports of its load balancer IP belong to other namespaces, from whose younger Services \
         this one would take them: 443/TCP; use other ports, or create a new Service"
    );
    api.merge(&old, &ports(8080)).await.expect(200);
    let ranges = json!({"metadata": {"annotations": {"service.portolan.dev/port-ranges": "all"}}});
    api.merge(&young, &ranges).await.expect(200);
    api.merge(&old, &ranges).await.expect(403);
    // The younger Service takes nothing from the older one.
    api.merge(&young, &ports(8080)).await.expect(200);
    let without_address = json!({"status": {"loadBalancer": {"ingress": null}}});
    api.merge(&format!("{young}/status"), &without_address)
        .await
        .expect(200);
    api.merge(&old, &ranges).await.expect(200);
}
