//! View of a Pod: phase, readiness, addresses, containers and declared ports.

use std::net::IpAddr;
use std::ops::Deref;

use serde_json::Value;

use super::fields::{list, port_number, protocol, text};
use super::service::Target;
use crate::object::Object;

/// A Pod.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'w>(pub &'w Object);

impl Deref for Pod<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

/// Declared port of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerPort<'w> {
    /// Name, or "".
    pub name: &'w str,
    /// Number.
    pub number: u16,
    /// TCP, UDP or SCTP.
    pub protocol: &'w str,
}

impl<'w> Pod<'w> {
    /// Returns the phase, or "" if the status is absent.
    pub fn phase(self) -> &'w str {
        self.0.text("/status/phase")
    }

    /// Returns true if the Pod has finished.
    pub fn is_finished(self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// Returns true if the Pod runs or will run: it has not finished and is not deleted.
    pub fn is_active(self) -> bool {
        !self.is_finished() && !self.0.is_terminating()
    }

    /// Returns true if the condition `Ready` is true.
    pub fn is_ready(self) -> bool {
        self.0.has_condition("Ready", "True")
    }

    /// Returns the Node, or "" before scheduling.
    pub fn node(self) -> &'w str {
        self.0.text("/spec/nodeName")
    }

    /// Returns true if the Pod uses the network of its node.
    pub fn is_on_host_network(self) -> bool {
        self.0.flag("/spec/hostNetwork")
    }

    /// Returns the addresses.
    pub fn ips(self) -> Vec<IpAddr> {
        let listed = self
            .0
            .list("/status/podIPs")
            .iter()
            .map(|entry| text(entry, "ip"));
        let mut addresses: Vec<IpAddr> = listed
            .chain([self.0.text("/status/podIP")])
            .filter_map(|text| text.parse().ok())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Returns the containers, with the restartable init containers.
    pub fn containers(self) -> impl Iterator<Item = &'w Value> {
        let sidecars = self.0.list("/spec/initContainers").iter();
        let sidecars = sidecars.filter(|container| text(container, "restartPolicy") == "Always");
        self.0.list("/spec/containers").iter().chain(sidecars)
    }

    /// Returns the declared ports of the containers (EPC-06).
    pub fn ports(self) -> Vec<ContainerPort<'w>> {
        let ports = self.containers().flat_map(|container| list(container, "ports"));
        let read = |port: &'w Value| {
            Some(ContainerPort {
                name: text(port, "name"),
                number: port_number(port, "containerPort")?,
                protocol: protocol(port),
            })
        };
        ports.filter_map(read).collect()
    }

    /// Returns the port number of a target. A number needs no declaration; a name needs a container port with that
    /// name and protocol (EPC-06).
    pub fn resolve(self, target: Target<'_>, protocol: &str) -> Option<u16> {
        match target {
            Target::Number(number) => Some(number),
            Target::Name(name) => {
                let mut ports = self.ports().into_iter();
                let port = ports.find(|port| port.name == name && port.protocol == protocol)?;
                Some(port.number)
            }
        }
    }

    /// Returns the scheme of a readiness probe by HTTP at a port of the Pod: `HTTP`, the default, or `HTTPS`.
    pub(crate) fn readiness_scheme(self, number: u16) -> Option<&'w str> {
        let mut probes = self
            .containers()
            .map(|container| &container["readinessProbe"]["httpGet"]);
        let probe = probes.find(|probe| {
            let target = match probe["port"].as_str() {
                Some(name) => self.resolve(Target::Name(name), "TCP"),
                None => port_number(probe, "port"),
            };
            // A probe with a host can be about another application.
            text(probe, "host").is_empty() && target == Some(number)
        })?;
        Some(match text(probe, "scheme") {
            "" => "HTTP",
            scheme => scheme,
        })
    }

    /// Returns the states of the containers, with the init containers first.
    pub fn container_statuses(self) -> impl Iterator<Item = &'w Value> {
        let init = self.0.list("/status/initContainerStatuses").iter();
        init.chain(self.0.list("/status/containerStatuses"))
    }
}
