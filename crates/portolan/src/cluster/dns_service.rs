//! Service `kube-dns`, and its EndpointSlice with the DNS server of this process (DNS-29).

use std::net::SocketAddr;

use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

/// Prefix of the EndpointSlice of each control-plane node.
const SLICE: &str = "kube-dns";
const SERVICES: &str = "/api/v1/namespaces/kube-system/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices";

/// Creates the Service if it is absent, and writes the endpoint into the EndpointSlice of a node.
///
/// # Errors
///
/// [`ClientError`] if a request fails.
pub async fn publish(
    client: &Client,
    cluster_ip: &str,
    node_name: &str,
    endpoint: SocketAddr,
) -> Result<(), ClientError> {
    let slice_name = format!("{SLICE}-{node_name}");
    let port = |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "port": 53, "targetPort": endpoint.port()});
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}},
        "spec": {"clusterIP": cluster_ip, "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")]}});
    create_if_absent(client, SERVICES, &service).await?;
    let target =
        |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "port": endpoint.port()});
    let family = if endpoint.is_ipv4() { "IPv4" } else { "IPv6" };
    let content = json!({"endpoints": [{"addresses": [endpoint.ip()], "nodeName": node_name}],
                         "ports": [target("dns", "UDP"), target("dns-tcp", "TCP")]});
    let mut slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {"name": slice_name, "labels": {"kubernetes.io/service-name": "kube-dns",
                                               "endpointslice.kubernetes.io/managed-by": "portolan.dev"}}});
    slice["endpoints"] = content["endpoints"].clone();
    slice["ports"] = content["ports"].clone();
    create_if_absent(client, SLICES, &slice).await?;
    client
        .request(
            Method::PATCH,
            &format!("{SLICES}/{slice_name}"),
            MERGE_PATCH,
            Some(&content),
        )
        .await?;
    Ok(())
}

async fn create_if_absent(client: &Client, collection: &str, object: &Value) -> Result<(), ClientError> {
    // Creation is not enough: the server checks the cluster IP, which is taken, before the name.
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let existing = client.get::<Value>(&format!("{collection}/{name}")).await;
    match existing {
        Err(error) if error.is_not_found() => {}
        existing => return existing.map(drop),
    }
    match client.request(Method::POST, collection, JSON, Some(object)).await {
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
