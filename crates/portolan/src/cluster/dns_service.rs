//! Service `kube-dns`, and its EndpointSlice with the DNS server of this process (DNS-29).

use std::net::SocketAddr;
use std::time::Duration;

use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

/// Prefix of the EndpointSlice of each control-plane node.
const SLICE: &str = "kube-dns";
const SERVICES: &str = "/api/v1/namespaces/kube-system/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices";

/// Time after which a deleted Service or EndpointSlice is back.
const KEEP_PERIOD: Duration = Duration::from_secs(10);

/// The Service and the EndpointSlice of a control-plane node.
#[derive(Clone, Debug)]
pub(super) struct DnsService {
    service: Value,
    slice: Value,
}

impl DnsService {
    /// Returns the objects with this cluster IP, and with the endpoint of a node.
    pub(super) fn new(cluster_ip: &str, node_name: &str, endpoint: SocketAddr) -> Self {
        let port = |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "port": 53, "targetPort": endpoint.port()});
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS",
                                                        "kubernetes.io/cluster-service": "true"}},
            "spec": {"clusterIP": cluster_ip, "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")]}});
        let target =
            |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "port": endpoint.port()});
        let family = if endpoint.is_ipv4() { "IPv4" } else { "IPv6" };
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"name": format!("{SLICE}-{node_name}"),
                         "labels": {"kubernetes.io/service-name": "kube-dns",
                                    "endpointslice.kubernetes.io/managed-by": "portolan.dev"}},
            "endpoints": [{"addresses": [endpoint.ip()], "nodeName": node_name}],
            "ports": [target("dns", "UDP"), target("dns-tcp", "TCP")]});
        Self { service, slice }
    }

    /// Creates the Service if it is absent, and writes the endpoint into the EndpointSlice.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if a request fails.
    pub(super) async fn publish(&self, client: &Client) -> Result<(), ClientError> {
        self.create_absent(client).await?;
        let slice_name = self.slice["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{SLICES}/{slice_name}");
        let content = json!({"endpoints": self.slice["endpoints"], "ports": self.slice["ports"]});
        client
            .request(Method::PATCH, &path, MERGE_PATCH, Some(&content))
            .await?;
        Ok(())
    }

    /// Restores the objects if a user deletes them, until it is dropped.
    pub(super) async fn keep(self, client: Client) {
        loop {
            tokio::time::sleep(KEEP_PERIOD).await;
            if let Err(error) = self.create_absent(&client).await {
                tracing::debug!(%error, "Service kube-dns not checked");
            }
        }
    }

    async fn create_absent(&self, client: &Client) -> Result<(), ClientError> {
        create_if_absent(client, SERVICES, &self.service).await?;
        create_if_absent(client, SLICES, &self.slice).await
    }
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
