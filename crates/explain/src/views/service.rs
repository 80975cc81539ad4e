//! View of a Service: addresses, selector, ports and their targets.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;

use serde_json::Value;

use super::fields::{port_number, protocol, text};
use crate::object::Object;

/// A Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service<'w>(pub &'w Object);

impl Deref for Service<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

/// Target port of a Service port (API-24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'w> {
    /// Number.
    Number(u16),
    /// Name of a container port.
    Name(&'w str),
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// Port of a Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port<'w> {
    /// Position in `spec.ports`.
    pub index: usize,
    /// Name, or "".
    pub name: &'w str,
    /// Port of the cluster IP.
    pub number: u16,
    /// TCP, UDP or SCTP.
    pub protocol: &'w str,
    /// Target port; the port number if the field is absent.
    pub target: Target<'w>,
    /// Node port.
    pub node_port: Option<u16>,
}

impl Port<'_> {
    /// Returns the path of a field of this port, such as `spec.ports[0].targetPort`.
    pub(crate) fn field(&self, field: &str) -> String {
        format!("spec.ports[{}].{field}", self.index)
    }

    /// Returns the JSON pointer to a field of this port.
    pub(crate) fn pointer(&self, field: &str) -> String {
        format!("/spec/ports/{}/{field}", self.index)
    }
}

/// Number and protocol, such as `80/TCP`.
impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.protocol)
    }
}

impl<'w> Service<'w> {
    /// Returns the type; ClusterIP is the default.
    pub(crate) fn kind(self) -> &'w str {
        match self.0.text("/spec/type") {
            "" => "ClusterIP",
            kind => kind,
        }
    }

    /// Returns true if the Service is a DNS alias.
    pub(crate) fn is_external_name(self) -> bool {
        self.kind() == "ExternalName"
    }

    /// Returns true if the Service has no cluster IP on purpose (`clusterIP: None`).
    pub(crate) fn is_headless(self) -> bool {
        self.0.text("/spec/clusterIP") == "None"
    }

    /// Returns the labels of the selector.
    pub(crate) fn selector(self) -> Vec<(&'w str, &'w str)> {
        self.0.pairs("/spec/selector").collect()
    }

    /// Returns true if the endpoint controller writes the endpoints: the Service has a selector and is not an alias.
    pub(crate) fn has_selector(self) -> bool {
        !self.is_external_name() && self.0.pairs("/spec/selector").next().is_some()
    }

    /// Returns the node port of the health check, for load balancers with the external policy Local.
    pub(crate) fn health_check_node_port(self) -> Option<u16> {
        port_number(self.0.at("/spec"), "healthCheckNodePort")
    }

    /// Returns true if endpoints exist before their Pods are ready.
    pub(crate) fn publishes_not_ready(self) -> bool {
        self.0.flag("/spec/publishNotReadyAddresses")
    }

    /// Returns the ports.
    pub(crate) fn ports(self) -> Vec<Port<'w>> {
        let ports = self.0.list("/spec/ports").iter().enumerate();
        ports.filter_map(|(index, port)| read_port(index, port)).collect()
    }

    /// Returns the addresses of the cluster IPs.
    pub(crate) fn cluster_ips(self) -> Vec<IpAddr> {
        let listed = self.0.list("/spec/clusterIPs").iter().filter_map(Value::as_str);
        let mut addresses: Vec<IpAddr> = listed
            .chain([self.0.text("/spec/clusterIP")])
            .filter_map(|text| text.parse().ok())
            .collect();
        addresses.dedup();
        addresses
    }

    /// Returns the external IPs.
    pub(crate) fn external_ips(self) -> Vec<IpAddr> {
        let texts = self.0.list("/spec/externalIPs").iter().filter_map(Value::as_str);
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    /// Returns the addresses in the status of the load balancer.
    pub(crate) fn ingress_ips(self) -> Vec<IpAddr> {
        let entries = self.0.list("/status/loadBalancer/ingress").iter();
        entries
            .filter_map(|entry| text(entry, "ip").parse().ok())
            .collect()
    }

    /// Returns the cluster IPs, external IPs and load balancer IPs.
    pub(crate) fn addresses(self) -> Vec<IpAddr> {
        let mut addresses = self.cluster_ips();
        addresses.extend(self.external_ips());
        addresses.extend(self.ingress_ips());
        addresses
    }

    /// Returns true if all labels of the selector are in `labels`.
    pub(crate) fn selects(self, label: impl Fn(&str) -> Option<&'w str>) -> bool {
        self.has_selector()
            && self
                .0
                .pairs("/spec/selector")
                .all(|(key, value)| label(key) == Some(value))
    }
}

fn read_port(index: usize, port: &Value) -> Option<Port<'_>> {
    let number = port_number(port, "port")?;
    let target = match port["targetPort"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => Target::Name(name),
        None => Target::Number(port_number(port, "targetPort").unwrap_or(number)),
    };
    Some(Port {
        index,
        name: text(port, "name"),
        number,
        protocol: protocol(port),
        target,
        node_port: port_number(port, "nodePort"),
    })
}
