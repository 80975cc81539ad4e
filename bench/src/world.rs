//! Worlds of a given size, made through the API.

use std::net::{IpAddr, Ipv4Addr};

use client::{Client, JSON};
use http::Method;
use serde_json::{Value, json};

use crate::Failure;

/// Objects that are being created at the same time.
const IN_FLIGHT: usize = 32;

/// Creates `services` Services named `s-0` …, each with a slice of `endpoints` endpoints that nobody serves.
pub async fn create(clients: &[Client], services: usize, endpoints: usize) -> Result<(), Failure> {
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..services {
        if tasks.len() >= IN_FLIGHT
            && let Some(done) = tasks.join_next().await
        {
            done??;
        }
        let client = clients[index % clients.len()].clone();
        tasks.spawn(async move {
            post(&client, &service(&format!("s-{index}"))).await?;
            let addresses: Vec<IpAddr> = (0..endpoints).map(|e| nobody(index * endpoints + e)).collect();
            post(&client, &slice(&format!("s-{index}"), &addresses)).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Creates an object in the namespace default and returns the server's answer.
pub async fn post(client: &Client, object: &Value) -> Result<Value, Failure> {
    let path = match object["kind"].as_str() {
        Some("EndpointSlice") => "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        _ => "/api/v1/namespaces/default/services",
    };
    Ok(client.request(Method::POST, path, JSON, Some(object)).await?)
}

/// A Service with one port and no selector.
pub fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"app": name}},
           "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

/// A slice of that Service with these addresses.
pub fn slice(service: &str, addresses: &[IpAddr]) -> Value {
    let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
           "metadata": {"name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
           "addressType": "IPv4", "endpoints": endpoints,
           "ports": [{"name": "http", "protocol": "TCP", "port": 8080}]})
}

/// One ready endpoint.
pub fn endpoint(address: &IpAddr) -> Value {
    json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": "elsewhere"})
}

/// The `number`th address that nobody has, in the range of Pods.
pub fn nobody(number: usize) -> IpAddr {
    let number = u32::try_from(number).unwrap_or(u32::MAX) & 0x000f_ffff;
    IpAddr::V4(Ipv4Addr::from(0x0a10_0000 | number))
}
