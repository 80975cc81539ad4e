//! Networks of the addresses in the objects, collected once for all rules.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::kind::Kind;
use crate::object::Object;
use crate::views::{EndpointSlice, Node, Pod, Service};

/// Prefix lengths of the ranges that are assumed around cluster IPs.
const PREFIX_LENGTH_V4: u8 = 16;
const PREFIX_LENGTH_V6: u8 = 108;

/// Networks of cluster IPs, and those of other addresses of the cluster.
#[derive(Debug, Default)]
pub(super) struct Networks {
    service_networks: BTreeSet<IpNet>,
    host_networks: BTreeSet<IpNet>,
}

impl Networks {
    /// Adds the addresses of an object.
    pub(super) fn insert(&mut self, object: &Object) {
        match object.kind {
            Kind::Service => {
                let addresses = Service(object).cluster_ips().into_iter();
                self.service_networks.extend(addresses.filter_map(network));
            }
            Kind::Node => {
                let addresses = Node(object).ips().into_iter();
                self.host_networks.extend(addresses.filter_map(network));
            }
            Kind::Pod => {
                let addresses = Pod(object).ips().into_iter();
                self.host_networks.extend(addresses.filter_map(network));
            }
            Kind::EndpointSlice if EndpointSlice(object).is_from_selector() => {
                let addresses = EndpointSlice(object)
                    .endpoints()
                    .filter_map(|endpoint| endpoint.ip());
                self.host_networks.extend(addresses.filter_map(network));
            }
            _ => {}
        }
    }

    /// Networks of cluster IPs without an address of a node or Pod.
    pub(super) fn networks_of_services_only(&self) -> Vec<IpNet> {
        self.service_networks
            .difference(&self.host_networks)
            .copied()
            .collect()
    }
}

fn network(address: IpAddr) -> Option<IpNet> {
    let length = if address.is_ipv4() {
        PREFIX_LENGTH_V4
    } else {
        PREFIX_LENGTH_V6
    };
    IpNet::new(address, length).ok().map(|net| net.trunc())
}
