//! Plan of a node from a list of objects, as the proxy of the node computes it. It serves comparisons with the kernel by
//! another process.

use std::net::IpAddr;

use api::object::{EndpointSlice, Node, Service, ServiceCidr};
use ipnet::IpNet;
use plan::{Plan, Settings};

use crate::config::Config;
use crate::node;

/// Objects that the plan of a node depends on.
#[derive(Clone, Debug, Default)]
pub struct NodeObjects {
    /// All Services.
    pub services: Vec<Service>,
    /// All EndpointSlices.
    pub slices: Vec<EndpointSlice>,
    /// Node of the proxy.
    pub node: Option<Node>,
    /// All ServiceCIDRs.
    pub service_cidrs: Vec<ServiceCidr>,
    /// All addresses of the node in the kernel.
    pub own_addresses: Vec<IpAddr>,
}

/// Computes the plan of a proxy with these settings.
pub fn plan_of_node(config: &Config, objects: &NodeObjects) -> Plan {
    let node = objects.node.as_ref();
    let mut plan = Plan::new(Settings {
        node_name: config.node_name.clone(),
        pods: node::pods(&config.pods, node),
        masquerade_all: config.masquerade_all,
        ignores_external_ips: !config.allows_external_ips,
        default_scheduler: config.default_scheduler,
        answers_ping: config.answers_ping,
        ..Settings::default()
    });
    let facts = node::facts(node, config.bind_address);
    let node_ports = node::node_ports(&config.node_port_addresses, &facts.ips);
    plan.set_node(facts);
    plan.set_node_addresses(objects.own_addresses.clone(), node_ports);
    let ranges = objects.service_cidrs.iter().flat_map(|cidr| &cidr.spec.cidrs);
    let mut ranges: Vec<IpNet> = ranges.filter_map(|text| text.parse().ok()).collect();
    ranges.sort_unstable();
    ranges.dedup();
    plan.set_service_cidrs(ranges);
    for service in &objects.services {
        plan.apply_service(service);
    }
    for slice in &objects.slices {
        plan.apply_slice(slice);
    }
    plan.take_changes();
    plan
}

#[cfg(test)]
mod tests;
