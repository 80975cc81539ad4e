//! The HNS network of the Pods.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use crate::schema::{HnsId, Network, POLICY_REMOTE_SUBNET_ROUTE, RemoteSubnetRoute};

/// Kind of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// `Overlay`: VXLAN between hosts.
    Overlay,
    /// `L2Bridge` and all others.
    Bridged,
}

/// Range of the Pods of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RemoteSubnet {
    pods: IpNet,
    /// Address of the host.
    host: IpAddr,
}

/// A network, as far as load balancers depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HnsNetwork {
    /// Identifier.
    pub id: HnsId,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: NetworkKind,
    subnets: Vec<IpNet>,
    remote_subnets: Vec<RemoteSubnet>,
}

impl HnsNetwork {
    /// Reads a network. Subnets and policies that are not valid are ignored.
    pub fn read(network: &Network) -> Self {
        let kind = if network.kind.eq_ignore_ascii_case("overlay") {
            NetworkKind::Overlay
        } else {
            NetworkKind::Bridged
        };
        let subnets = network.ipams.iter().flat_map(|ipam| &ipam.subnets);
        let routes = network
            .policies
            .iter()
            .filter(|policy| policy.kind == POLICY_REMOTE_SUBNET_ROUTE);
        let remote_subnets = routes.filter_map(|policy| {
            let route = RemoteSubnetRoute::deserialize(&policy.settings).ok()?;
            Some(RemoteSubnet {
                pods: route.destination_prefix.parse().ok()?,
                host: route.provider_address.parse().ok()?,
            })
        });
        Self {
            id: network.id.clone(),
            name: network.name.clone(),
            kind,
            subnets: subnets
                .filter_map(|subnet| subnet.ip_address_prefix.parse().ok())
                .collect(),
            remote_subnets: remote_subnets.collect(),
        }
    }

    /// Returns the host of an address in an overlay network: the address itself if it is a host; `None` outside of the
    /// cluster. The last matching policy counts, as upstream.
    pub fn provider_address(&self, address: IpAddr) -> Option<IpAddr> {
        let mut latest_first = self.remote_subnets.iter().rev();
        let found = latest_first.find(|subnet| subnet.host == address || subnet.pods.contains(&address));
        found.map(|subnet| subnet.host)
    }

    /// Returns true if an address may be one of this host. It is in a subnet of the network, or the network names
    /// none.
    pub fn may_be_local(&self, address: IpAddr) -> bool {
        self.subnets.is_empty() || self.subnets.iter().any(|subnet| subnet.contains(&address))
    }
}

#[cfg(test)]
mod tests;
