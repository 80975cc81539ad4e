//! Paths to destinations that are not a frontend of a Service: Pods, nodes, unassigned cluster IPs, hosts outside of
//! the cluster.

use std::net::IpAddr;

use plan::{Packet, Verdict as PlanVerdict};
use serde_json::Value;

use super::endpoints::declared_by;
use super::objects::Objects;
use super::report::{ChosenEndpoint, EndpointState, Path, Step, StepKind, Verdict};
use crate::finding::ObjectName;
use crate::kind::Kind;
use crate::views::{self, Pod, Service, text};
use crate::world::World;

/// Label of a Service for another proxy (API-48).
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";

/// Completes the path of a packet that no frontend gets. `named` is the Service of the name of the destination.
pub(super) fn explain(
    objects: &Objects<'_>,
    packet: &Packet,
    decided: &PlanVerdict,
    named: Option<Service<'_>>,
    path: &mut Path,
) {
    let world = objects.world();
    match decided {
        PlanVerdict::UndefinedPort => undefined_port(world, packet, path),
        PlanVerdict::Unallocated => end_at_unallocated_ip(world, packet, path),
        _ => {
            if let Some(pod) = pod_at(world, packet.destination) {
                end_at_pod(packet, pod, named, path);
            } else if let Some(node) = world
                .nodes()
                .find(|node| node.ips().contains(&packet.destination))
            {
                end_at_node(world, packet, node, path);
            } else if let Some(service) = named.filter(|service| is_endpoint(world, *service, packet)) {
                end_at_endpoint(packet, service, path);
            } else {
                end_outside_cluster(world, packet, path);
            }
        }
    }
}

fn step(result: impl Into<String>) -> Step {
    Step::new(StepKind::Route, result)
}

fn finish(path: &mut Path, verdict: Verdict, reason: impl Into<String>) {
    path.verdict = verdict;
    path.reason = reason.into();
}

/// The cluster IP belongs to a Service without the port (NFT-12).
fn undefined_port(world: &World, packet: &Packet, path: &mut Path) {
    let protocol = packet.protocol.as_str();
    let text = format!(
        "{} is a cluster IP without port {}/{protocol}",
        packet.destination, packet.port
    );
    let owner = world.services_at(packet.destination).next();
    let ports = owner.map_or_else(Vec::new, Service::ports);
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let reason = match owner {
        Some(owner) => format!(
            "Service {}/{} has no port {}/{protocol}; it has {}",
            owner.namespace,
            owner.name,
            packet.port,
            if ports.is_empty() {
                "none".to_owned()
            } else {
                ports.join(", ")
            }
        ),
        None => text.clone(),
    };
    path.steps.push(match owner {
        Some(owner) => step(text).by(owner.0, "spec.ports"),
        None => step(text),
    });
    finish(path, Verdict::Refused, reason);
}

/// The address is in a Service CIDR, and the proxy serves no Service with it (NFT-12).
fn end_at_unallocated_ip(world: &World, packet: &Packet, path: &mut Path) {
    let destination = packet.destination;
    if let Some(owner) = world.services_at(destination).next() {
        path.steps.push(step_without_frontend(owner));
        let reason = format!(
            "the proxy does not serve Service {}/{}",
            owner.namespace, owner.name
        );
        return finish(path, Verdict::Dropped, reason);
    }
    let contains = |text: &Value| {
        let net: Option<ipnet::IpNet> = text.as_str().and_then(|text| text.parse().ok());
        net.is_some_and(|net| net.contains(&destination))
    };
    let mut cidrs = world.all(Kind::ServiceCidr);
    let cidr = cidrs.find(|cidr| cidr.list("/spec/cidrs").iter().any(contains));
    let result = step("no Service has this address of the Service CIDRs");
    path.steps.push(match cidr {
        Some(cidr) => result.by(cidr, "spec.cidrs"),
        None => result,
    });
    finish(path, Verdict::Dropped, "no Service has this cluster IP");
}

fn step_without_frontend(service: Service<'_>) -> Step {
    let name = format!("Service {}/{}", service.namespace, service.name);
    match service.label(PROXY_NAME_LABEL) {
        Some(proxy) => step(format!("{name} is for the proxy {proxy:?}"))
            .by(service.0, format!("metadata.labels[{PROXY_NAME_LABEL}]")),
        None => step(format!("{name} has no frontend with this address")).by(service.0, ""),
    }
}

fn pod_at(world: &World, address: IpAddr) -> Option<Pod<'_>> {
    let mut pods = world.all(Kind::Pod).map(Pod);
    pods.find(|pod| !pod.is_finished() && !pod.is_on_host_network() && pod.ips().contains(&address))
}

fn state_of(pod: Pod<'_>) -> EndpointState {
    let is_ready = pod.is_ready();
    EndpointState {
        pod: format!("{}/{}", pod.namespace, pod.name),
        node: pod.node().to_owned(),
        zone: String::new(),
        ready: is_ready,
        serving: is_ready,
        terminating: pod.is_terminating(),
    }
}

fn direct_endpoint(
    packet: &Packet,
    port: u16,
    state: EndpointState,
    declared_by: Option<String>,
) -> ChosenEndpoint {
    ChosenEndpoint {
        address: packet.destination,
        port,
        chance: 1.0,
        masquerade: false,
        state,
        declared_by,
    }
}

/// The packet goes to a Pod, unchanged. The objects show no listener, so only a headless Service with another port
/// shows that the Pod refuses.
fn end_at_pod(packet: &Packet, pod: Pod<'_>, named: Option<Service<'_>>, path: &mut Path) {
    let protocol = packet.protocol.as_str();
    let container = declared_by(pod, packet.port, protocol);
    path.steps
        .push(step("an address of a Pod: no proxy changes address or port").by(pod.0, "status.podIPs"));
    let headless = named.filter(|service| service.is_headless());
    if let Some((service, number)) =
        headless.and_then(|service| Some((service, other_port(service, pod, packet)?)))
        && container.is_empty()
    {
        let name = format!("{}/{}", service.namespace, service.name);
        path.steps.push(
            step(format!(
                "Service {name} is headless, and its Pods use port {number}"
            ))
            .by(service.0, "spec.ports"),
        );
        let reason = format!(
            "the Pods of headless Service {name} use port {number}, and no proxy changes port {}",
            packet.port
        );
        return finish(path, Verdict::Refused, reason);
    }
    let state = state_of(pod);
    let reason = match headless {
        Some(service) => format!(
            "endpoint of headless Service {}/{}",
            service.namespace, service.name
        ),
        None => format!("Pod {}/{}", pod.namespace, pod.name),
    };
    let endpoint = direct_endpoint(packet, packet.port, state, Some(container.to_owned()));
    path.endpoints.push(endpoint);
    finish(path, Verdict::Reaches, reason);
}

/// Returns the port of a Pod for the Service port of the packet, if it is another one.
fn other_port(service: Service<'_>, pod: Pod<'_>, packet: &Packet) -> Option<u16> {
    let protocol = packet.protocol.as_str();
    let ports = service.ports();
    let numbers = || {
        let protocol_ports = ports.iter().filter(|port| port.protocol == protocol);
        protocol_ports.filter_map(|port| Some((port.number, pod.resolve(port.target, protocol)?)))
    };
    if numbers().any(|(_, target)| target == packet.port) {
        return None;
    }
    let mut same = numbers().filter(|(number, _)| *number == packet.port);
    same.next().map(|(_, target)| target)
}

/// The packet goes to a node. Pods on its network, and host ports, are visible in the objects.
fn end_at_node(world: &World, packet: &Packet, node: views::Node<'_>, path: &mut Path) {
    let pods = world.all(Kind::Pod).map(Pod);
    let on_node = pods.filter(|pod| pod.is_active() && pod.node() == node.name);
    for pod in on_node {
        let Some((number, container)) = host_port(pod, packet) else {
            continue;
        };
        let text = if pod.is_on_host_network() {
            "a Pod on the network of the node declares the port"
        } else {
            "a host port of a Pod"
        };
        path.steps.push(step(text).by(pod.0, "spec.containers[].ports"));
        let endpoint = direct_endpoint(packet, number, state_of(pod), Some(container));
        path.endpoints.push(endpoint);
        return finish(
            path,
            Verdict::Reaches,
            format!("Pod {}/{}", pod.namespace, pod.name),
        );
    }
    let result = format!("an address of node {}, and no node port", node.name);
    path.steps.push(step(result).by(node.0, "status.addresses"));
    let reason = format!(
        "port {}/{} of node {} is not a node port here: a process of the node answers, if any",
        packet.port,
        packet.protocol.as_str(),
        node.name
    );
    finish(path, Verdict::NotAService, reason);
}

/// Returns the port of a Pod behind a port of its node, with the container.
fn host_port(pod: Pod<'_>, packet: &Packet) -> Option<(u16, String)> {
    let protocol = packet.protocol.as_str();
    let field = if pod.is_on_host_network() {
        "containerPort"
    } else {
        "hostPort"
    };
    pod.containers().find_map(|container| {
        let mut ports = views::list(container, "ports").iter();
        let port = ports.find(|port| {
            let of = match text(port, "protocol") {
                "" => "TCP",
                of => of,
            };
            port[field] == packet.port && of == protocol
        })?;
        let number = u16::try_from(port["containerPort"].as_u64()?).ok()?;
        Some((number, text(container, "name").to_owned()))
    })
}

fn is_endpoint(world: &World, service: Service<'_>, packet: &Packet) -> bool {
    let mut endpoints = world.slices_of(service).flat_map(|slice| slice.endpoints());
    let address = packet.destination.to_string();
    endpoints.any(|endpoint| endpoint.addresses().any(|own| own == address))
}

/// The address is an endpoint that is not a Pod of the input.
fn end_at_endpoint(packet: &Packet, service: Service<'_>, path: &mut Path) {
    let name = format!("{}/{}", service.namespace, service.name);
    path.steps.push(
        step(format!(
            "an endpoint of Service {name}: no proxy changes address or port"
        ))
        .by(service.0, ""),
    );
    path.endpoints.push(direct_endpoint(
        packet,
        packet.port,
        EndpointState::default(),
        None,
    ));
    finish(path, Verdict::Reaches, format!("endpoint of Service {name}"));
}

/// The address belongs to no object: a host outside of the cluster, or a Service that the proxy does not serve.
fn end_outside_cluster(world: &World, packet: &Packet, path: &mut Path) {
    if packet.destination.is_loopback() {
        path.steps.push(step("a loopback address of the client itself"));
        return finish(path, Verdict::NotAService, "the packet does not leave the client");
    }
    if let Some(owner) = world.services_at(packet.destination).next() {
        path.steps.push(step_without_frontend(owner));
        let port = format!("{}/{}", packet.port, packet.protocol.as_str());
        let reason = format!(
            "no proxy of the nodes serves {} port {port} of Service {}/{}",
            packet.destination, owner.namespace, owner.name
        );
        return finish(path, Verdict::LeavesTheCluster, reason);
    }
    path.steps.push(step("no object has this address"));
    finish(path, Verdict::LeavesTheCluster, "no object has this address");
}

/// Returns the path of a connection that begins without a packet: the client has no address of the family.
pub(super) fn path_without_source(address: IpAddr, client: &str) -> Path {
    let family = plan::Family::of(address);
    let reason = format!("{client} has no {family} address");
    Path {
        nodes: Vec::new(),
        addresses: vec![address],
        source: None,
        steps: vec![step(reason.clone())],
        endpoints: Vec::new(),
        excluded: Vec::new(),
        affinity_seconds: None,
        verdict: Verdict::Dropped,
        reason,
    }
}

/// Returns the step for an object that proxies cannot read.
pub(super) fn unreadable_object(object: &ObjectName) -> Step {
    let mut unreadable = step("a field has an unexpected type, so proxies ignore the object");
    unreadable.object = Some(object.clone());
    unreadable
}
