//! Links of this host that have an address. Links of several VRFs may have the same one.

use std::net::IpAddr;

use netlink::route::{Address, Link, LinkIndex};

#[cfg(test)]
mod tests;

/// Kind of the link of a VRF.
const VRF_KIND: &str = "vrf";

/// Returns an address of this host in a VRF, or outside of VRFs. If no link there has the address, returns that of another
/// link. Routes may lead from one VRF to another, and a socket can be bound to a link that is no VRF.
pub(super) fn address_in<'a>(
    addresses: &'a [Address],
    links: &[Link],
    address: IpAddr,
    vrf: Option<&str>,
) -> Option<&'a Address> {
    let same = || {
        addresses
            .iter()
            .filter(move |found| found.network.addr() == address)
    };
    same()
        .find(|found| vrf_of(links, found.link) == vrf)
        .or_else(|| same().next())
}

/// Returns the VRF of a link; `None` outside of VRFs.
fn vrf_of(links: &[Link], index: LinkIndex) -> Option<&str> {
    let find = |index| links.iter().find(|link| link.index == index);
    let link = find(index)?;
    let vrf = if link.kind == VRF_KIND {
        link
    } else {
        find(link.master?)?
    };
    (vrf.kind == VRF_KIND).then_some(vrf.name.as_str())
}
