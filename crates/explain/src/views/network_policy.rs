//! View of a NetworkPolicy: selected Pods and permitted peers.

use std::net::IpAddr;
use std::ops::Deref;

use api::field::Path;
use api::selector::LabelSelector;
use ipnet::IpNet;
use serde_json::Value;

use super::fields::{list, port_number, protocol, text};
use super::pod::Pod;
use super::service::{Port, Target};
use crate::object::Object;

/// Label with the name of a namespace, which every namespace has.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// A NetworkPolicy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkPolicy<'w>(pub &'w Object);

impl Deref for NetworkPolicy<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

/// Direction of connections, as seen from the selected Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Connections to the selected Pods.
    Ingress,
    /// Connections of the selected Pods.
    Egress,
}

/// Rule of a NetworkPolicy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyRule<'w> {
    value: &'w Value,
    direction: Direction,
    /// Namespace of the policy.
    namespace: &'w str,
}

impl<'w> NetworkPolicy<'w> {
    /// Returns true if the policy selects a Pod. An invalid selector selects nothing.
    pub(crate) fn selects(self, pod: Pod<'_>) -> bool {
        let is_selected = match selector(self.0.at("/spec/podSelector")) {
            Some(selector) => matches(&selector, pod.0),
            None => false,
        };
        self.0.namespace == pod.0.namespace && is_selected
    }

    /// Returns true if the policy restricts a direction. Without `policyTypes` that is Ingress, and Egress if there are
    /// rules for it.
    pub(crate) fn restricts(self, direction: Direction) -> bool {
        let types = self.0.list("/spec/policyTypes");
        match direction {
            Direction::Ingress => types.is_empty() || types.iter().any(|name| name == "Ingress"),
            Direction::Egress => {
                let has_rules = types.is_empty() && !self.0.list("/spec/egress").is_empty();
                has_rules || types.iter().any(|name| name == "Egress")
            }
        }
    }

    /// Returns the rules of a direction.
    pub(crate) fn rules(self, direction: Direction) -> impl Iterator<Item = PolicyRule<'w>> {
        let pointer = match direction {
            Direction::Ingress => "/spec/ingress",
            Direction::Egress => "/spec/egress",
        };
        let rules = self.0.list(pointer).iter();
        rules.map(move |value| PolicyRule {
            value,
            direction,
            namespace: &self.0.namespace,
        })
    }
}

impl<'w> PolicyRule<'w> {
    /// Returns true if the rule permits a port of a Pod. Names are resolved in the Pod.
    pub(crate) fn permits_port(self, number: u16, of_protocol: &str, pod: Pod<'_>) -> bool {
        let ports = list(self.value, "ports");
        let permits = |port: &Value| {
            if protocol(port) != of_protocol {
                return false;
            }
            if let Some(name) = port["port"].as_str() {
                return pod.resolve(Target::Name(name), of_protocol) == Some(number);
            }
            match (port_number(port, "port"), port_number(port, "endPort")) {
                (None, _) => true,
                (Some(first), Some(last)) => (first..=last).contains(&number),
                (Some(only), None) => only == number,
            }
        };
        ports.is_empty() || ports.iter().any(permits)
    }

    /// Returns a port name of the rule that the containers of a Pod do not declare with its protocol.
    pub(crate) fn undeclared_name(self, pod: Pod<'_>) -> Option<&'w str> {
        let mut ports = list(self.value, "ports").iter();
        ports.find_map(|port| {
            let name = port["port"].as_str()?;
            let is_declared = pod.resolve(Target::Name(name), protocol(port)).is_some();
            (!is_declared).then_some(name)
        })
    }

    /// Returns true if the rule lists the port of the Service by its number.
    pub(crate) fn lists_port(self, port: Port<'_>) -> bool {
        let mut ports = list(self.value, "ports").iter();
        ports.any(|listed| {
            protocol(listed) == port.protocol && port_number(listed, "port") == Some(port.number)
        })
    }

    /// Returns true if the rule permits a Pod as the other end. `namespace` is the Namespace of the Pod, if it is
    /// known. Parts that cannot be judged count as permitted.
    pub(crate) fn permits_pod(self, pod: Pod<'_>, namespace: Option<&Object>) -> bool {
        let peers = self.peers();
        peers.is_empty() || peers.iter().any(|peer| self.permits(peer, pod, namespace))
    }

    /// Returns true if the rule permits some Pod of a namespace as the other end. Labels of a namespace that is absent
    /// from the input are unknown, except for its name.
    pub(crate) fn permits_namespace(self, name: &str, namespace: Option<&Object>) -> bool {
        let permits = |peer: &Value| {
            if peer["namespaceSelector"].is_null() {
                return self.namespace == name || peer["ipBlock"].is_object();
            }
            let selected = selector(&peer["namespaceSelector"]);
            selected.is_none_or(|selected| match namespace {
                Some(namespace) => matches(&selected, namespace) || is_named(&selected, name),
                None => selects_by_other_labels(&peer["namespaceSelector"]) || is_named(&selected, name),
            })
        };
        self.peers().is_empty() || self.peers().iter().any(permits)
    }

    /// Returns true if a range of the rule contains the address.
    pub(crate) fn has_range_with(self, address: IpAddr) -> bool {
        self.peers()
            .iter()
            .any(|peer| range_contains(&peer["ipBlock"], address))
    }

    /// Returns true if the rule permits Pods of the namespace of the policy only.
    pub(crate) fn permits_only_neighbours(self) -> bool {
        let is_neighbour = |peer: &Value| {
            peer["podSelector"].is_object()
                && peer["namespaceSelector"].is_null()
                && peer["ipBlock"].is_null()
        };
        !self.peers().is_empty() && self.peers().iter().all(is_neighbour)
    }

    /// Returns true if the rule permits all peers, or has a range.
    pub(crate) fn permits_others(self) -> bool {
        let peers = self.peers();
        peers.is_empty() || peers.iter().any(|peer| peer["ipBlock"].is_object())
    }

    fn peers(self) -> &'w [Value] {
        let field = match self.direction {
            Direction::Ingress => "from",
            Direction::Egress => "to",
        };
        list(self.value, field)
    }

    fn permits(self, peer: &Value, pod: Pod<'_>, namespace: Option<&Object>) -> bool {
        if peer["ipBlock"].is_object() {
            return pod
                .ips()
                .into_iter()
                .any(|ip| range_contains(&peer["ipBlock"], ip));
        }
        let is_in_namespace = if peer["namespaceSelector"].is_null() {
            pod.0.namespace == self.namespace
        } else {
            let selected = selector(&peer["namespaceSelector"]);
            selected.is_none_or(|selected| match namespace {
                Some(namespace) => matches(&selected, namespace) || is_named(&selected, &namespace.name),
                None => {
                    selects_by_other_labels(&peer["namespaceSelector"])
                        || is_named(&selected, &pod.0.namespace)
                }
            })
        };
        let is_pod = peer["podSelector"].is_null()
            || selector(&peer["podSelector"]).is_none_or(|selected| matches(&selected, pod.0));
        is_in_namespace && is_pod
    }
}

/// Reads a selector; `None` if it is invalid.
fn selector(value: &Value) -> Option<LabelSelector> {
    LabelSelector::from_object(&Path::new("selector"), value).ok()
}

fn matches(selector: &LabelSelector, object: &Object) -> bool {
    selector.matches(|key| object.label(key))
}

/// Returns true if the selector matches a namespace by its name alone.
fn is_named(selector: &LabelSelector, name: &str) -> bool {
    selector.matches(|key| (key == NAMESPACE_LABEL).then_some(name))
}

/// Returns true if a selector of namespaces has labels other than the name.
fn selects_by_other_labels(selector: &Value) -> bool {
    let mut labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = list(selector, "matchExpressions").iter();
    labels.any(|(key, _)| key != NAMESPACE_LABEL)
        || expressions.any(|expression| text(expression, "key") != NAMESPACE_LABEL)
}

fn range_contains(block: &Value, address: IpAddr) -> bool {
    let contains = |text: &str| text.parse::<IpNet>().is_ok_and(|range| range.contains(&address));
    let mut except = list(block, "except").iter().filter_map(Value::as_str);
    contains(text(block, "cidr")) && !except.any(contains)
}

#[cfg(test)]
mod tests;
