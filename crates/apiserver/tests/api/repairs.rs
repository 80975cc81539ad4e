//! What is wrong with cluster IPs is told and mended while the server runs.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Api, PATIENCE};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

async fn reasons(api: &Api) -> Vec<String> {
    let events = api.get(EVENTS).await.expect(200);
    let all = events["items"].as_array().expect("items").iter();
    all.map(|event| event["reason"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Makes a Service and deletes the record of its cluster IP; the cluster IP.
async fn make_unrecorded(api: &Api, name: &str) -> String {
    let created = api.post(SERVICES, &service(name)).await.expect(201);
    let address = created["spec"]["clusterIP"].as_str().expect("an address");
    api.delete(&format!("{ADDRESSES}/{address}")).await.expect(200);
    address.to_owned()
}

/// Looks again until the IPAddress refers to the Service.
async fn wait_for_holder(api: &Api, address: &str, name: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = api.get(&format!("{ADDRESSES}/{address}")).await;
        if reply.code == 200 && reply.json()["spec"]["parentRef"]["name"] == name {
            return;
        }
        assert!(
            Instant::now() < end,
            "{address} does not become {name}'s: {reply:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_address_whose_record_was_deleted_is_recorded_again() {
    let api = Api::start().await;
    let address = make_unrecorded(&api, "a").await;
    wait_for_holder(&api, &address, "a").await;
    assert!(reasons(&api).await.contains(&"ClusterIPNotAllocated".to_owned()));
    // It is taken, and goes with the Service.
    let mut wanted = service("b");
    wanted["spec"]["clusterIP"] = json!(address);
    api.post(SERVICES, &wanted).await.expect(422);
    api.delete(&format!("{SERVICES}/a")).await.expect(200);
    api.get(&format!("{ADDRESSES}/{address}")).await.expect(404);
    let metrics = api.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = "kube_apiserver_clusterip_repair_ip_errors_total{type=\"repair\"} 1";
    assert!(text.contains(line), "{text}");
}

#[tokio::test]
async fn a_record_that_refers_to_no_service_is_made_anew_for_its_own() {
    let api = Api::start().await;
    let address = make_unrecorded(&api, "a").await;
    let foreign = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": address},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "nobody"}},
    });
    // Whoever is first: the record of before, or this one, which is replaced.
    let reply = api.post(ADDRESSES, &foreign).await;
    assert!(matches!(reply.code.as_u16(), 201 | 409), "{reply:?}");
    wait_for_holder(&api, &address, "a").await;
}

#[tokio::test]
async fn the_default_range_that_was_deleted_is_made_again_and_ready() {
    let api = Api::start().await;
    let path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let before = api.get(path).await.expect(200);
    api.delete(path).await.expect(200);
    let end = Instant::now() + PATIENCE;
    let after = loop {
        let reply = api.get(path).await;
        if reply.code == 200 && reply.json()["status"]["conditions"][0]["status"] == "True" {
            break reply.json();
        }
        assert!(Instant::now() < end, "it is not made again: {reply:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["spec"], before["spec"]);
}
