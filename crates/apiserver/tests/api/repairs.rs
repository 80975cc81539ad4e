//! Repair of cluster IPs and of the default ServiceCIDR while the server runs.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Api, TIMEOUT};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

async fn reasons(api: &Api) -> Vec<String> {
    let events = api.get(EVENTS).await.expect(200);
    let all = events["items"].as_array().expect("list items").iter();
    all.map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Creates a Service and deletes the record of its cluster IP; returns the cluster IP.
async fn create_unrecorded(api: &Api, name: &str) -> String {
    let created = api.post(SERVICES, &service(name)).await.expect(201);
    let address = created["spec"]["clusterIP"].as_str().expect("a cluster IP");
    api.delete(&format!("{ADDRESSES}/{address}")).await.expect(200);
    address.to_owned()
}

/// Waits until the IPAddress references the Service.
async fn wait_for_holder(api: &Api, address: &str, name: &str) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let reply = api.get(&format!("{ADDRESSES}/{address}")).await;
        if reply.code == 200 && reply.json()["spec"]["parentRef"]["name"] == name {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{address} is not recorded for {name}: {reply:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn deleted_address_records_are_restored() {
    let api = Api::start().await;
    let address = create_unrecorded(&api, "a").await;
    wait_for_holder(&api, &address, "a").await;
    assert!(reasons(&api).await.contains(&"ClusterIPNotAllocated".to_owned()));
    // The address is taken, and released with the Service.
    let mut same_address = service("b");
    same_address["spec"]["clusterIP"] = json!(address);
    api.post(SERVICES, &same_address).await.expect(422);
    api.delete(&format!("{SERVICES}/a")).await.expect(200);
    api.get(&format!("{ADDRESSES}/{address}")).await.expect(404);
    let metrics = api.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = "kube_apiserver_clusterip_repair_ip_errors_total{type=\"repair\"} 1";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn address_records_without_service_are_replaced() {
    let api = Api::start().await;
    let address = create_unrecorded(&api, "a").await;
    let foreign = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": address},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "nobody"}},
    });
    // If the repair is first, the creation conflicts; otherwise the repair replaces this record.
    let reply = api.post(ADDRESSES, &foreign).await;
    assert!(matches!(reply.code.as_u16(), 201 | 409), "{reply:?}");
    wait_for_holder(&api, &address, "a").await;
}

#[tokio::test]
async fn deleted_default_service_cidr_is_restored() {
    let api = Api::start().await;
    let path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let before = api.get(path).await.expect(200);
    api.delete(path).await.expect(200);
    let deadline = Instant::now() + TIMEOUT;
    let after = loop {
        let reply = api.get(path).await;
        if reply.code == 200 && reply.json()["status"]["conditions"][0]["status"] == "True" {
            break reply.json();
        }
        assert!(
            Instant::now() < deadline,
            "the ServiceCIDR is not restored: {reply:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
}
