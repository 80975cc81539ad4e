//! EndpointSlices of an input without the kind, as the controllers write them from Pods and Endpoints.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::World;
use crate::kind::Kind;
use crate::object::Object;
use crate::views::{Endpoints, Pod, SERVICE_NAME_LABEL, Service};

/// Returns the slices of all Services. They are not part of the input, so no finding is about them.
pub(super) fn slices(world: &World) -> Vec<Object> {
    let services = world.services().filter(|service| !service.is_external_name());
    services.flat_map(|service| slices_of(world, service)).collect()
}

fn slices_of(world: &World, service: Service<'_>) -> Vec<Object> {
    if service.has_selector() && world.has(Kind::Pod) {
        let pods = world.pods_with(&service.namespace, &service.selector());
        return slices_from_pods(world, service, &pods);
    }
    let endpoints = world.endpoints_of(service);
    endpoints.map_or_else(Vec::new, |endpoints| slices_from_endpoints(service, endpoints))
}

fn slices_from_pods(world: &World, service: Service<'_>, pods: &[Pod<'_>]) -> Vec<Object> {
    let endpoint = |pod: &Pod<'_>, address: IpAddr| {
        let is_ready = pod.is_ready() || service.publishes_not_ready();
        let is_terminating = pod.is_terminating();
        let mut endpoint = json!({"addresses": [address], "nodeName": pod.node(),
            "conditions": {"ready": is_ready && !is_terminating, "serving": is_ready, "terminating": is_terminating},
            "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name}});
        // The name of the endpoint in DNS (KDN-05).
        let hostname = pod.text("/spec/hostname");
        if !hostname.is_empty() && pod.text("/spec/subdomain") == service.name {
            endpoint["hostname"] = hostname.into();
        }
        if let Some(node) = world.node(pod.node()).filter(|node| !node.zone().is_empty()) {
            endpoint["zone"] = node.zone().into();
        }
        endpoint
    };
    let active: Vec<&Pod<'_>> = pods.iter().filter(|pod| !pod.is_finished()).collect();
    let resolve = |port: &crate::views::Port<'_>| {
        let mut numbers = active
            .iter()
            .filter_map(|pod| pod.resolve(port.target, port.protocol));
        Some(json!({"name": port.name, "protocol": port.protocol, "port": numbers.next()?}))
    };
    let ports: Vec<Value> = service.ports().iter().filter_map(resolve).collect();
    slices_by_family(service, "endpointslice-controller.k8s.io", &ports, |is_v6| {
        let addresses = active.iter().flat_map(|pod| {
            let addresses = pod.ips().into_iter().filter(|address| address.is_ipv6() == is_v6);
            addresses.map(|address| endpoint(pod, address))
        });
        addresses.collect()
    })
}

fn slices_from_endpoints(service: Service<'_>, endpoints: Endpoints<'_>) -> Vec<Object> {
    let ports: Vec<Value> = endpoints
        .ports()
        .map(|(name, protocol, number)| json!({"name": name, "protocol": protocol, "port": number}))
        .collect();
    slices_by_family(
        service,
        "endpointslicemirroring-controller.k8s.io",
        &ports,
        |is_v6| {
            let addresses = endpoints.addresses();
            let with_addresses = addresses.filter_map(|address| Some((address, address.ip()?)));
            with_addresses
            .filter(|(_, ip)| ip.is_ipv6() == is_v6)
            .map(|(address, ip)| {
                json!({"addresses": [ip], "nodeName": address.node(), "conditions": {"ready": address.is_ready}})
            })
            .collect()
        },
    )
}

/// Returns a slice for each family that has endpoints.
fn slices_by_family(
    service: Service<'_>,
    managed_by: &str,
    ports: &[Value],
    endpoints: impl Fn(bool) -> Vec<Value>,
) -> Vec<Object> {
    let families = [("IPv4", false), ("IPv6", true)].into_iter();
    let slice = |(family, is_v6): (&str, bool)| {
        let endpoints = endpoints(is_v6);
        let tree = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"namespace": service.namespace, "name": format!("{}-{}", service.name, family.to_lowercase()),
                "labels": {SERVICE_NAME_LABEL: service.name, "endpointslice.kubernetes.io/managed-by": managed_by}},
            "endpoints": endpoints, "ports": ports});
        Object::read(Kind::EndpointSlice, tree).filter(|_| !endpoints.is_empty())
    };
    families.filter_map(slice).collect()
}
