//! Link-layer next hops between nodes: addresses of this node on its links, and next hops to addresses of other nodes.
//!
//! Forwarded packets keep their destination address and travel in frames to the Ethernet address of the previous owner.
//! Therefore only nodes on a common link can forward to each other.

use std::net::IpAddr;

use netlink::route::{Address, LinkIndex};

use crate::l2::frame::HardwareAddress;

#[cfg(test)]
mod tests;

/// Maximum number of advertised link addresses: both families on three links.
pub(crate) const LINK_ADDRESSES_MAX: usize = 6;

/// IP address of a node on a link, and the Ethernet address of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// IP address, global or link-local.
    pub address: IpAddr,
    /// Ethernet address.
    pub hardware: HardwareAddress,
}

/// Link and neighbour of forwarded packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NextHop {
    /// Outgoing link of this node.
    pub(crate) link: LinkIndex,
    /// IP address of the other node on the link.
    pub(crate) gateway: IpAddr,
    /// Ethernet address.
    pub(crate) hardware: HardwareAddress,
}

/// Returns the link addresses of this node: one per family on each link whose Ethernet address `hardware`
/// contains. Global addresses precede link-local ones.
pub(crate) fn link_addresses(
    addresses: &[Address],
    hardware: impl Fn(LinkIndex) -> Option<HardwareAddress>,
) -> Vec<LinkAddress> {
    let mut found: Vec<(LinkIndex, LinkAddress)> = Vec::new();
    let (global, link_local): (Vec<&Address>, Vec<&Address>) = addresses
        .iter()
        .filter(|address| is_usable(address))
        .partition(|address| address.is_global());
    for own in global.into_iter().chain(link_local) {
        let Some(hardware) = hardware(own.link) else {
            continue;
        };
        let address = own.network.addr();
        let is_same_family = |(link, known): &(LinkIndex, LinkAddress)| {
            *link == own.link && known.address.is_ipv4() == address.is_ipv4()
        };
        if found.len() < LINK_ADDRESSES_MAX && !found.iter().any(is_same_family) {
            found.push((own.link, LinkAddress { address, hardware }));
        }
    }
    found.into_iter().map(|(_, address)| address).collect()
}

/// Finds the next hop to another node, which has `link_addresses`, for packets to `address`. It considers the
/// links that `is_used` accepts; `own` are the addresses of this node. Returns `None` if the nodes have no
/// such link in common.
pub(crate) fn find(
    address: IpAddr,
    link_addresses: &[LinkAddress],
    own: &[Address],
    is_used: impl Fn(LinkIndex) -> bool,
) -> Option<NextHop> {
    let usable = || own.iter().filter(|own| is_usable(own) && is_used(own.link));
    let family_addresses = link_addresses
        .iter()
        .filter(|other| other.address.is_ipv4() == address.is_ipv4());
    family_addresses.copied().find_map(|other| {
        let gateway = other.address;
        let mut on_link =
            usable().filter(|own| own.network.contains(&gateway) && own.network.addr() != gateway);
        let link = on_link.next()?.link;
        // A link-local address is ambiguous if several links match.
        let is_unambiguous = !is_link_local(gateway) || on_link.all(|other| other.link == link);
        is_unambiguous.then_some(NextHop {
            link,
            gateway,
            hardware: other.hardware,
        })
    })
}

/// Returns true if the network of an address contains neighbours. An address with a host prefix does not.
fn is_usable(address: &Address) -> bool {
    let is_host_prefix = address.network.prefix_len() == address.network.max_prefix_len();
    !address.is_tentative && !is_host_prefix
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
