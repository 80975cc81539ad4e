//! Where a node takes packets that others send on to it: its own addresses on the links of the network.
//!
//! Packets go to the machine, not to the address that they are for: by the Ethernet address that this entrance has. So an entrance
//! is of use to those only that are on the same link.

use std::net::IpAddr;

use netlink::route::{Address, LinkIndex};

use crate::l2::frame::HardwareAddress;
use crate::protocol::message::ENTRANCES_MAX;

#[cfg(test)]
mod tests;

/// An address of a node on a link, and the link's Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The node's own address; of a network that the link leads to, or for the link only.
    pub address: IpAddr,
    /// What frames from there come from.
    pub hardware: HardwareAddress,
}

/// How a packet gets to an entrance of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// By which link of this machine.
    pub link: LinkIndex,
    /// The other node's address there.
    pub gateway: IpAddr,
    /// What frames from there come from.
    pub hardware: HardwareAddress,
}

/// The entrances of this machine: on each of its links of the network that `hardware` knows, one of each family. Addresses
/// that reach beyond the link go first.
pub fn own(addresses: &[Address], hardware: impl Fn(LinkIndex) -> Option<HardwareAddress>) -> Vec<Entrance> {
    let mut found: Vec<(LinkIndex, Entrance)> = Vec::new();
    let (global, of_link): (Vec<&Address>, Vec<&Address>) = addresses
        .iter()
        .filter(|address| is_usable(address))
        .partition(|address| address.is_global());
    for own in global.into_iter().chain(of_link) {
        let Some(hardware) = hardware(own.link) else {
            continue;
        };
        let address = own.network.addr();
        let is_known = |(link, known): &(LinkIndex, Entrance)| {
            *link == own.link && known.address.is_ipv4() == address.is_ipv4()
        };
        if found.len() < ENTRANCES_MAX && !found.iter().any(is_known) {
            found.push((own.link, Entrance { address, hardware }));
        }
    }
    found.into_iter().map(|(_, entrance)| entrance).collect()
}

/// How packets for `address` get to one of another node's entrances, by the links that `is_used` knows; `own` are this
/// machine's addresses. `None` if the two have no such link in common.
pub fn towards(
    address: IpAddr,
    entrances: &[Entrance],
    own: &[Address],
    is_used: impl Fn(LinkIndex) -> bool,
) -> Option<Way> {
    let usable = || own.iter().filter(|own| is_usable(own) && is_used(own.link));
    let of_family = entrances
        .iter()
        .filter(|entrance| entrance.address.is_ipv4() == address.is_ipv4());
    of_family.copied().find_map(|entrance| {
        let gateway = entrance.address;
        let mut on_link =
            usable().filter(|own| own.network.contains(&gateway) && own.network.addr() != gateway);
        let link = on_link.next()?.link;
        // An address for a link only says nothing of which link it is.
        let is_clear = !is_of_link(gateway) || on_link.all(|other| other.link == link);
        is_clear.then_some(Way {
            link,
            gateway,
            hardware: entrance.hardware,
        })
    })
}

/// Whether an address tells where others are: one that is a network of its own does not.
fn is_usable(address: &Address) -> bool {
    let is_alone = address.network.prefix_len() == address.network.max_prefix_len();
    !address.is_tentative && !is_alone
}

fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}
