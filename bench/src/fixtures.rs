//! Services and EndpointSlices for benchmarks.

use std::net::{IpAddr, Ipv4Addr};

use client::{Client, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::Failure;

/// Maximum number of requests in flight.
const CONCURRENT_REQUESTS_MAX: usize = 32;

/// Creates Services `s-0`, `s-1`, …, each with an EndpointSlice of `endpoints` unused addresses.
pub(crate) async fn create_services(
    clients: &[Client],
    services: usize,
    endpoints: usize,
) -> Result<(), Failure> {
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..services {
        if tasks.len() >= CONCURRENT_REQUESTS_MAX
            && let Some(done) = tasks.join_next().await
        {
            done??;
        }
        let client = clients[index % clients.len()].clone();
        tasks.spawn(async move {
            post(&client, &service(&format!("s-{index}"))).await?;
            let addresses: Vec<IpAddr> = (0..endpoints)
                .map(|endpoint| unused_address(index * endpoints + endpoint))
                .collect();
            post(&client, &slice(&format!("s-{index}"), &addresses)).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Creates a Service or EndpointSlice in the namespace `default` and returns it.
pub(crate) async fn post(client: &Client, object: &Value) -> Result<Value, Failure> {
    let path = match object["kind"].as_str() {
        Some("EndpointSlice") => "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        _ => "/api/v1/namespaces/default/services",
    };
    Ok(client.request(Method::POST, path, JSON, Some(object)).await?)
}

/// Creates a Node with these internal addresses.
pub(crate) async fn create_node(client: &Client, name: &str, addresses: &[IpAddr]) -> Result<(), Failure> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    client
        .request(Method::POST, "/api/v1/nodes", JSON, Some(&node))
        .await?;
    let addresses: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    let path = format!("/api/v1/nodes/{name}/status");
    let status = json!({"status": {"addresses": addresses}});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&status))
        .await?;
    Ok(())
}

/// Service with one port and without selector.
pub(crate) fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"app": name}},
           "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

/// EndpointSlice of a Service.
pub(crate) fn slice(service: &str, addresses: &[IpAddr]) -> Value {
    let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
           "metadata": {"name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
           "addressType": "IPv4", "endpoints": endpoints,
           "ports": [{"name": "http", "protocol": "TCP", "port": 8080}]})
}

/// Ready endpoint.
pub(crate) fn endpoint(address: &IpAddr) -> Value {
    json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": "elsewhere"})
}

/// Unused address in the Pod CIDR; `number` selects one of a million.
pub(crate) fn unused_address(number: usize) -> IpAddr {
    let number = u32::try_from(number).unwrap_or(u32::MAX) & 0x000f_ffff;
    IpAddr::V4(Ipv4Addr::from(0x0a10_0000 | number))
}
