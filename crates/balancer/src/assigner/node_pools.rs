//! Pools of the nodes' own addresses (LBK-12): the addresses of ready nodes, and the ports that Services have there.
//!
//! The Services of such a pool share the addresses, so each Service claims its ports at them. It gets the addresses at
//! which no other Service has one of its ports, and fails if there is none. Ports of cluster components are reserved:
//! the nodes would forward them before the components get the packets. A node that is not ready has no addresses here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use api::object::{EndpointSlice, Labels, Node, ObjectKey, Protocol, SERVICE_NAME_LABEL};

#[cfg(test)]
mod tests;

/// Maximum number of addresses of one type of a node. A node reports them itself, and each Service of a pool has ports at all.
const ADDRESSES_MAX: usize = 16;

/// Ports at which components of the cluster listen on nodes by default. The nodes forward the ports of Services before
/// their programs get the packets.
const COMPONENT_PORTS: [ServicePort; 14] = [
    // BGP
    (Protocol::Tcp, 179),
    // etcd
    (Protocol::Tcp, 2_379),
    (Protocol::Tcp, 2_380),
    // API server
    (Protocol::Tcp, 6_443),
    // DNS
    (Protocol::Tcp, 10_053),
    (Protocol::Udp, 10_053),
    // agent, proxy
    (Protocol::Tcp, 10_250),
    (Protocol::Tcp, 10_256),
    // BFD
    (Protocol::Udp, 3_784),
    (Protocol::Udp, 3_785),
    (Protocol::Udp, 4_784),
    // VXLAN, announcer, two-tier forwarding
    (Protocol::Udp, 4_789),
    (Protocol::Udp, 7_947),
    (Protocol::Udp, 8_473),
];

/// Address type of a pool of node addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeAddressType {
    /// Addresses of type InternalIP.
    Internal,
    /// Addresses of type ExternalIP.
    External,
    /// Addresses of type ExternalIP if a selected node has one, otherwise of type InternalIP.
    ExternalOrInternal,
}

impl NodeAddressType {
    /// Parses the value of `spec.nodeAddresses.type`; "" is the default.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "InternalIP" => Some(Self::Internal),
            "ExternalIP" => Some(Self::External),
            "ExternalOrInternalIP" => Some(Self::ExternalOrInternal),
            _ => None,
        }
    }

    /// Returns the description of the addresses.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Internal => "InternalIP",
            Self::External => "ExternalIP",
            Self::ExternalOrInternal => "ExternalIP or InternalIP",
        }
    }
}

/// Node that takes traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeAddresses {
    labels: Labels,
    is_ready: bool,
    internal: Vec<IpAddr>,
    external: Vec<IpAddr>,
}

impl NodeAddresses {
    /// Reads a Node.
    pub(super) fn of(node: &Node) -> Self {
        let addresses_of_type = |kind: &str| {
            let addresses = node.status.addresses.iter();
            let addresses = addresses.filter(|address| address.kind == kind);
            addresses
                .filter_map(|address| address.address.parse().ok())
                .take(ADDRESSES_MAX)
                .collect()
        };
        let mut conditions = node.status.conditions.iter();
        Self {
            labels: node.metadata.labels.clone(),
            is_ready: conditions.any(|condition| condition.kind == "Ready" && condition.status == "True"),
            internal: addresses_of_type("InternalIP"),
            external: addresses_of_type("ExternalIP"),
        }
    }
}

/// Returns the addresses of the ready nodes that `is_selected` accepts, with the names of the nodes.
pub(super) fn addresses(
    nodes: &BTreeMap<String, NodeAddresses>,
    address_type: NodeAddressType,
    is_selected: impl Fn(&Labels) -> bool,
) -> Vec<(&str, IpAddr)> {
    let selected: Vec<(&str, &NodeAddresses)> = nodes
        .iter()
        .filter(|(_, node)| node.is_ready && is_selected(&node.labels))
        .map(|(name, node)| (name.as_str(), node))
        .collect();
    let has_external = selected.iter().any(|(_, node)| !node.external.is_empty());
    let is_external = match address_type {
        NodeAddressType::Internal => false,
        NodeAddressType::External => true,
        NodeAddressType::ExternalOrInternal => has_external,
    };
    let of = |node: &'_ NodeAddresses| {
        if is_external {
            node.external.clone()
        } else {
            node.internal.clone()
        }
    };
    selected
        .into_iter()
        .flat_map(|(name, node)| of(node).into_iter().map(move |address| (name, address)))
        .collect()
}

/// Protocol and number of a port.
pub(super) type ServicePort = (Protocol, u16);

/// Returns true for a port of a component. `api_server` is the port of the API server if it is not the default one.
pub(super) fn is_of_component((protocol, port): ServicePort, api_server: Option<u16>) -> bool {
    COMPONENT_PORTS.contains(&(protocol, port)) || (protocol == Protocol::Tcp && api_server == Some(port))
}

/// Another Service has a port at all addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("port {port}/{protocol} of the nodes is used by Service {holder}: choose another port, or wait")]
pub(super) struct PortConflict {
    port: u16,
    protocol: &'static str,
    holder: ObjectKey,
}

/// Ports of node addresses that Services have.
#[derive(Clone, Debug, Default)]
pub(super) struct NodePorts {
    holders: BTreeMap<(IpAddr, &'static str, u16), ObjectKey>,
    reservations: BTreeMap<ObjectKey, PortReservation>,
}

/// Ports that one Service has reserved, with their pool and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortReservation {
    pool: String,
    addresses: Vec<IpAddr>,
    ports: Vec<ServicePort>,
}

impl NodePorts {
    /// Claims ports at the addresses at which no other Service has one of the ports. Returns these addresses.
    ///
    /// # Errors
    /// [`PortConflict`] if there is no such address. Then the Service has no ports.
    pub(super) fn claim(
        &mut self,
        service: &ObjectKey,
        pool: &str,
        addresses: &[IpAddr],
        ports: &[ServicePort],
    ) -> Result<Vec<IpAddr>, PortConflict> {
        self.release(service);
        let holder = |address: &IpAddr| {
            ports.iter().find_map(|(protocol, port)| {
                let holder = self.holders.get(&(*address, protocol.as_str(), *port))?;
                Some(PortConflict {
                    port: *port,
                    protocol: protocol.as_str(),
                    holder: holder.clone(),
                })
            })
        };
        let free: Vec<IpAddr> = addresses
            .iter()
            .copied()
            .filter(|address| holder(address).is_none())
            .collect();
        if free.is_empty()
            && let Some(conflict) = addresses.iter().find_map(holder)
        {
            return Err(conflict);
        }
        for address in &free {
            for (protocol, port) in ports {
                self.holders
                    .insert((*address, protocol.as_str(), *port), service.clone());
            }
        }
        let reservation = PortReservation {
            pool: pool.to_owned(),
            addresses: free.clone(),
            ports: ports.to_vec(),
        };
        self.reservations.insert(service.clone(), reservation);
        Ok(free)
    }

    /// Releases the ports of a Service; returns true if there were any.
    pub(super) fn release(&mut self, service: &ObjectKey) -> bool {
        let Some(reservation) = self.reservations.remove(service) else {
            return false;
        };
        for address in reservation.addresses {
            for (protocol, port) in &reservation.ports {
                self.holders.remove(&(address, protocol.as_str(), *port));
            }
        }
        true
    }

    /// Returns the ports of a Service.
    pub(super) fn of(&self, service: &ObjectKey) -> Option<&PortReservation> {
        self.reservations.get(service)
    }

    /// Returns the pool of a Service.
    pub(super) fn pool_of(&self, service: &ObjectKey) -> Option<&str> {
        self.reservations
            .get(service)
            .map(|reservation| reservation.pool.as_str())
    }

    /// Returns the Services with ports.
    pub(super) fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.reservations.keys()
    }

    /// Returns the addresses at which Services of a pool have ports.
    pub(super) fn addresses_in(&self, pool: &str) -> BTreeSet<IpAddr> {
        let reservations = self
            .reservations
            .values()
            .filter(|reservation| reservation.pool == pool);
        reservations
            .flat_map(|reservation| reservation.addresses.iter().copied())
            .collect()
    }
}

/// Nodes with endpoints, by Service, from EndpointSlices.
#[derive(Clone, Debug, Default)]
pub(super) struct EndpointNodes {
    slices: HashMap<ObjectKey, SliceNodes>,
    by_service: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// True once all EndpointSlices were read.
    pub(super) is_synced: bool,
}

/// Nodes with endpoints of one EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SliceNodes {
    service: ObjectKey,
    ready: BTreeSet<String>,
    serving: BTreeSet<String>,
}

impl EndpointNodes {
    /// Adds or replaces an EndpointSlice. Returns the Services whose nodes changed.
    pub(super) fn apply_slice(&mut self, slice: &EndpointSlice) -> Vec<ObjectKey> {
        let key = slice.metadata.key();
        let Some(name) = slice.metadata.labels.get(SERVICE_NAME_LABEL) else {
            return self.remove_slice(&key);
        };
        let mut nodes = SliceNodes {
            service: ObjectKey::new(&slice.metadata.namespace, name),
            ready: BTreeSet::new(),
            serving: BTreeSet::new(),
        };
        for endpoint in &slice.endpoints {
            let Some(node) = &endpoint.node_name else { continue };
            let conditions = &endpoint.conditions;
            if conditions.ready != Some(false) {
                nodes.ready.insert(node.to_string());
            }
            if conditions.serving.or(conditions.ready) != Some(false) {
                nodes.serving.insert(node.to_string());
            }
        }
        if self.slices.get(&key) == Some(&nodes) {
            return Vec::new();
        }
        let mut changed = self.remove_slice(&key);
        changed.push(nodes.service.clone());
        self.by_service
            .entry(nodes.service.clone())
            .or_default()
            .insert(key.clone());
        self.slices.insert(key, nodes);
        changed
    }

    /// Removes an EndpointSlice. Returns the Services whose nodes changed.
    pub(super) fn remove_slice(&mut self, key: &ObjectKey) -> Vec<ObjectKey> {
        let Some(nodes) = self.slices.remove(key) else {
            return Vec::new();
        };
        if let Some(slices) = self.by_service.get_mut(&nodes.service) {
            slices.remove(key);
            if slices.is_empty() {
                self.by_service.remove(&nodes.service);
            }
        }
        vec![nodes.service]
    }

    /// Returns the Nodes with ready endpoints of a Service, or without any those whose endpoints still serve while they
    /// terminate (KEP-1669).
    pub(super) fn of(&self, service: &ObjectKey) -> BTreeSet<&str> {
        let slices = || {
            let keys = self.by_service.get(service).into_iter().flatten();
            keys.filter_map(|key| self.slices.get(key))
        };
        let ready: BTreeSet<&str> = slices()
            .flat_map(|slice| slice.ready.iter().map(String::as_str))
            .collect();
        if !ready.is_empty() {
            return ready;
        }
        slices()
            .flat_map(|slice| slice.serving.iter().map(String::as_str))
            .collect()
    }
}
