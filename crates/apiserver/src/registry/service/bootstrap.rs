//! Objects by which a cluster refers to its own API: the default ServiceCIDR and the `kubernetes` Service (CIDR-05,
//! KSVC-01 to KSVC-04). They have the form in which a client would send them.

use std::net::IpAddr;

use api::ip::Family;
use ipam::{AddressRange, UnusableRange};
use ipnet::IpNet;
use serde_json::{Value, json};

/// Name of the ServiceCIDR that is created from the configuration.
pub const DEFAULT_SERVICE_CIDR: &str = "kubernetes";

/// Port of the `kubernetes` Service.
const SERVICE_PORT: u16 = 443;
const PORT_NAME: &str = "https";

/// Returns the default ServiceCIDR, which is ready from the start (CIDR-08).
pub fn default_service_cidr(ranges: &[IpNet], now: jiff::Timestamp) -> Value {
    let cidrs: Vec<String> = ranges.iter().map(|net| net.trunc().to_string()).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": DEFAULT_SERVICE_CIDR},
        "spec": {"cidrs": cidrs},
        "status": {"conditions": [{
            "type": "Ready",
            "status": "True",
            "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }]},
    })
}

/// Returns the `kubernetes` Service. Its cluster IP is the first usable address of the primary range, its target
/// port is `secure_port`. With a node port the API is reachable on every node as well (KSVC-02).
///
/// # Errors
/// Fails if the range has no usable address.
///
/// # Examples
/// ```
/// let range = "10.96.0.0/16".parse()?;
/// let service = apiserver::service::kubernetes_service(range, 6443, None)?;
/// assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
/// assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn kubernetes_service(
    primary_range: IpNet,
    secure_port: u16,
    node_port: Option<u16>,
) -> Result<Value, UnusableRange> {
    let first = AddressRange::new(primary_range)?
        .first()
        .ok_or(UnusableRange { net: primary_range })?;
    let mut port =
        json!({"name": PORT_NAME, "protocol": "TCP", "port": SERVICE_PORT, "targetPort": secure_port});
    if let Some(node_port) = node_port {
        port["nodePort"] = node_port.into();
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": if node_port.is_some() { "NodePort" } else { "ClusterIP" },
            "clusterIP": first.to_string(),
            "ipFamilies": [Family::of(first).name()],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [port],
        },
    }))
}

/// Returns the Endpoints of the `kubernetes` Service. They are not mirrored, because the server writes the
/// EndpointSlice.
pub fn kubernetes_endpoints(addresses: &[IpAddr], secure_port: u16) -> Value {
    let addresses: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"ip": address.to_string()}))
        .collect();
    let port = json!({"name": PORT_NAME, "port": secure_port, "protocol": "TCP"});
    let subsets = if addresses.is_empty() {
        json!([])
    } else {
        json!([{"addresses": addresses, "ports": [port]}])
    };
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": subsets,
    })
}

/// Returns the EndpointSlice of the `kubernetes` Service with the addresses of one family.
pub fn kubernetes_endpoint_slice(addresses: &[IpAddr], family: Family, secure_port: u16) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .filter(|address| Family::of(**address) == family)
        .map(|address| json!({"addresses": [address.to_string()], "conditions": {"ready": true}}))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": family.name(),
        "endpoints": endpoints,
        "ports": [{"name": PORT_NAME, "port": secure_port, "protocol": "TCP"}],
    })
}
