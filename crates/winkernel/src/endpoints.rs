//! Endpoints of HNS by address.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::mac::MacAddress;
use crate::schema::{Endpoint, HnsId};

/// Index of observed endpoints.
pub struct EndpointIndex<'a> {
    all: &'a [Endpoint],
    by_address: HashMap<IpAddr, &'a Endpoint>,
}

impl<'a> EndpointIndex<'a> {
    /// Indexes the endpoints of a network. If several have one address, a local one counts, and else the one with the
    /// lowest identifier: Windows Server 2019 may create two.
    pub fn new(endpoints: &'a [Endpoint], network: &HnsId) -> Self {
        let mut by_address: HashMap<IpAddr, &'a Endpoint> = HashMap::new();
        let rank = |endpoint: &'a Endpoint| (endpoint.is_remote(), &endpoint.id);
        for endpoint in endpoints.iter().filter(|of| of.host_compute_network == *network) {
            for address in addresses(endpoint) {
                let kept = by_address.entry(address).or_insert(endpoint);
                if rank(endpoint) < rank(kept) {
                    *kept = endpoint;
                }
            }
        }
        Self {
            all: endpoints,
            by_address,
        }
    }

    /// Returns the endpoint with an address.
    pub fn at(&self, address: IpAddr) -> Option<&'a Endpoint> {
        self.by_address.get(&address).copied()
    }

    /// Returns the endpoint with a name, in any network.
    pub fn named(&self, name: &str) -> Option<&'a Endpoint> {
        self.all.iter().find(|endpoint| endpoint.name == name)
    }
}

/// Returns the addresses of an endpoint.
pub(crate) fn addresses(endpoint: &Endpoint) -> impl Iterator<Item = IpAddr> {
    let texts = endpoint.ip_configurations.iter();
    texts.filter_map(|configuration| configuration.ip_address.parse().ok())
}

/// Returns true if a proxy created a remote endpoint. Its MAC address then derives from its address, or is that of
/// the host, as for the cluster IPs of an overlay network. Other programs create the endpoints of Pods.
pub(crate) fn is_of_proxy(endpoint: &Endpoint, host_mac: Option<MacAddress>) -> bool {
    let Ok(mac) = endpoint.mac_address.parse::<MacAddress>() else {
        return false;
    };
    let is_derived = addresses(endpoint).any(|address| MacAddress::of_remote_endpoint(address) == mac);
    endpoint.is_remote() && (is_derived || host_mac == Some(mac))
}

#[cfg(test)]
mod tests;
