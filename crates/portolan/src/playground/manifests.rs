//! Objects of the playground: the examples, the Service `kube-dns`, and an AddressPool.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use api::object::{Resource, Service};
use client::{Client, Config, JSON};
use http::Method;
use serde_json::{Value, json};
use testbed::Cluster;

use super::components::DNS_PORT;
use crate::error::CommandError;
use crate::runtime;

/// Cluster IP of DNS, by convention the tenth of the range (DNS-29).
pub(super) const DNS_CLUSTER_IP: &str = "10.96.0.10";
/// Time for objects that other objects depend on to appear.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);

const EXAMPLES: &[&str] = &[
    include_str!("../../../../examples/01-my-service.yaml"),
    include_str!("../../../../examples/02-named-port.yaml"),
    include_str!("../../../../examples/03-two-ports.yaml"),
    include_str!("../../../../examples/04-without-selector.yaml"),
    include_str!("../../../../examples/05-node-port.yaml"),
    include_str!("../../../../examples/06-external-name.yaml"),
    include_str!("../../../../examples/07-headless.yaml"),
    include_str!("../../../../examples/08-session-affinity.yaml"),
    include_str!("../../../../examples/09-external-ips.yaml"),
    include_str!("../../../../examples/10-dual-stack.yaml"),
    include_str!("../../../../examples/11-chosen-cluster-ip.yaml"),
    include_str!("../../../../examples/12-load-balancer.yaml"),
    include_str!("../../../../examples/13-edge.yaml"),
];
/// Example that needs a router outside.
const ROUTER_EXAMPLE: &str = include_str!("../../../../examples/14-bgp.yaml");

/// Creates all objects, from the control plane. Without a router, its objects are left out.
///
/// # Errors
///
/// An error if the API rejects an object.
pub(super) fn apply(
    cluster: &Cluster,
    kubeconfig: std::path::PathBuf,
    has_router: bool,
) -> Result<(), CommandError> {
    let mut own = dns_objects(cluster);
    own.push(pool());
    cluster
        .control_plane()?
        .enter(move || create_all(&kubeconfig, own, has_router))?
}

/// Returns the Service `kube-dns` and its endpoint on the control plane.
fn dns_objects(cluster: &Cluster) -> Vec<Value> {
    let address = cluster.topology.control_plane.address.ipv4.to_string();
    let port = |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "port": 53, "targetPort": DNS_PORT});
    let target = |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "port": DNS_PORT});
    vec![
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
               "spec": {"clusterIP": DNS_CLUSTER_IP, "ports": [port("dns", "UDP"), port("dns-tcp", "TCP")]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
               "metadata": {"name": "kube-dns-control-plane", "namespace": "kube-system",
                            "labels": {"kubernetes.io/service-name": "kube-dns"}},
               "addressType": "IPv4", "endpoints": [{"addresses": [address]}],
               "ports": [target("dns", "UDP"), target("dns-tcp", "TCP")]}),
    ]
}

fn create_all(kubeconfig: &Path, own: Vec<Value>, has_router: bool) -> Result<(), CommandError> {
    runtime::current_thread()?.block_on(async {
        let client = Client::new(Config::from_kubeconfig(kubeconfig)?)?;
        for object in own {
            create(&client, &object).await?;
        }
        let router_example = has_router.then_some(&ROUTER_EXAMPLE);
        for text in EXAMPLES.iter().chain(router_example) {
            for object in documents(text)? {
                create(&client, &object).await?;
            }
        }
        Ok(())
    })
}

/// Reads the load balancer IPs of a Service in the namespace `default`.
///
/// # Errors
///
/// An error if the Service cannot be read.
pub(super) fn load_balancer_addresses(
    cluster: &Cluster,
    kubeconfig: &Path,
    name: &str,
) -> Result<Vec<IpAddr>, CommandError> {
    cluster.control_plane()?.enter(|| {
        runtime::current_thread()?.block_on(async {
            let client = Client::new(Config::from_kubeconfig(kubeconfig)?)?;
            let path = format!("{}/{name}", Service::collection(Some("default")));
            let service: Service = client.get(&path).await?;
            let ingress = service.status.load_balancer.ingress.iter();
            ingress.map(|ingress| Ok(ingress.ip.parse()?)).collect()
        })
    })?
}

/// Returns a pool in the network of the playground, where the nodes announce its addresses.
fn pool() -> Value {
    json!({"apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "playground"},
           "spec": {"addresses": ["172.30.0.200-172.30.0.250", "fd00:30::200-fd00:30::250"]}})
}

/// Parses the documents of a manifest.
fn documents(text: &str) -> Result<Vec<Value>, CommandError> {
    let parts = text.split("\n---\n");
    parts.map(|part| Ok(serde_saphyr::from_str(part)?)).collect()
}

async fn create(client: &Client, object: &Value) -> Result<(), CommandError> {
    let path = collection_of(object)?;
    let deadline = Instant::now() + CREATE_TIMEOUT;
    loop {
        match client.request(Method::POST, &path, JSON, Some(object)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code().is_none_or(|code| code >= 500) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(format!("{}: {error}", object["metadata"]["name"]).into()),
        }
    }
}

fn collection_of(object: &Value) -> Result<String, CommandError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    match kind {
        "Service" => Ok(format!("/api/v1/namespaces/{namespace}/services")),
        "Pod" => Ok(format!("/api/v1/namespaces/{namespace}/pods")),
        "EndpointSlice" => Ok(format!(
            "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        )),
        "AddressPool" => Ok("/apis/portolan.dev/v1alpha1/addresspools".to_owned()),
        "BGPPeer" => Ok("/apis/portolan.dev/v1alpha1/bgppeers".to_owned()),
        "BGPAdvertisement" => Ok("/apis/portolan.dev/v1alpha1/bgpadvertisements".to_owned()),
        _ => Err(format!(
            "expected a Service, Pod, EndpointSlice, AddressPool, BGPPeer or BGPAdvertisement in an example, found kind {kind:?}"
        )
        .into()),
    }
}
