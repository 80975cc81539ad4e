//! VXLAN links between nodes, one for each hop.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use netlink::route::{Connection, ForwardingEntry, Link, LinkChange, LinkIndex, LinkName, RouteError, Vxlan};
use plan::Family;

use super::error::TwoTierError;
use super::peers::{Peers, ethernet_of};
use super::state::HOPS;

/// UDP port of encapsulated packets, to which no relay sends. The routes to Pods use another one.
pub const UDP_PORT: u16 = relay::TWO_TIER_PORT;
/// VXLAN network identifier of the first hop; the other hops have the next ones.
pub(super) const FIRST_ID: u32 = 7_401;
/// Prefix length of the gateway addresses of all links.
const GATEWAY_PREFIX: u8 = 8;
/// State of a neighbour that a program set, as opposed to a learned one (`neighbour.h`).
const NUD_PERMANENT: u16 = 0x80;
/// Overhead of encapsulation in bytes, over IPv4 and IPv6: Ethernet, IP, UDP and VXLAN headers.
pub(super) const ENCAPSULATION_BYTES_IPV4: u32 = 50;
const ENCAPSULATION_BYTES_IPV6: u32 = 70;
/// Loose mode of the filter by reverse path: clients are behind other links (`ip-sysctl` of the kernel).
const LOOSE: &str = "2";

/// Neighbour of a link: gateway address and Ethernet address.
type Neighbour = (IpAddr, [u8; 6]);

/// Prefix of the names of the links.
pub(crate) const NAME_PREFIX: &str = "portolan.hop";

/// Returns the name of the link of a hop, from 1.
pub(crate) fn hop_name(hop: usize) -> String {
    format!("{NAME_PREFIX}{hop}")
}

/// Creates and corrects the links, and returns them in the order of the hops. `families` are those of the forwarded
/// connections.
///
/// # Errors
///
/// A [`TwoTierError`] if the kernel refuses, or if no link has the address `local` of this node.
pub(crate) fn ensure(
    connection: &mut Connection,
    own_name: &str,
    local: IpAddr,
    peers: &Peers,
    families: &[Family],
) -> Result<[LinkIndex; HOPS], TwoTierError> {
    let addresses = connection.addresses()?;
    let underlay = addresses
        .iter()
        .find(|address| address.network.addr() == local)
        .map(|address| address.link)
        .ok_or(TwoTierError::NoUnderlay(local))?;
    let mut links = [LinkIndex(0); HOPS];
    for (hop, slot) in (1..).zip(&mut links) {
        let link = ensure_link(connection, hop, own_name, local, underlay)?;
        ensure_neighbours(connection, link, peers, families)?;
        *slot = link;
    }
    Ok(links)
}

/// Deletes the links. Returns true if one existed.
///
/// # Errors
///
/// A [`RouteError`] if the kernel refuses.
pub(crate) fn remove(connection: &mut Connection) -> Result<bool, RouteError> {
    let mut is_removed = false;
    let links = connection.links()?;
    for name in (1..=HOPS).map(hop_name) {
        if links.iter().all(|link| link.name != name) {
            continue;
        }
        match connection.delete_link(&name.parse()?) {
            Ok(()) => is_removed = true,
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(is_removed)
}

/// Returns the link to a hop, which is up. A link with other settings is replaced.
fn ensure_link(
    connection: &mut Connection,
    hop: u8,
    own_name: &str,
    local: IpAddr,
    underlay: LinkIndex,
) -> Result<LinkIndex, TwoTierError> {
    let name: LinkName = hop_name(usize::from(hop)).parse()?;
    let links = connection.links()?;
    let overhead_bytes = if local.is_ipv4() {
        ENCAPSULATION_BYTES_IPV4
    } else {
        ENCAPSULATION_BYTES_IPV6
    };
    let underlay_link = links.iter().find(|link| link.index == underlay);
    let mtu_bytes = underlay_link
        .map_or(0, |link| link.mtu_bytes)
        .saturating_sub(overhead_bytes);
    let vxlan = Vxlan {
        id: FIRST_ID + u32::from(hop) - 1,
        port: UDP_PORT,
        local,
        underlay,
    };
    let ethernet = ethernet_of(own_name);
    let fits = |link: &Link| link.vxlan == Some(vxlan) && link.ethernet == Some(ethernet);
    let present = links.iter().find(|link| link.name == name.as_str());
    if !present.is_some_and(fits) {
        if present.is_some() {
            connection.delete_link(&name)?;
        }
        connection.add_vxlan(&name, &vxlan, ethernet, mtu_bytes)?;
        accept_all_clients(&name);
    }
    let index = connection.link_index(&name)?;
    let is_current = present.is_some_and(|link| fits(link) && link.is_up && link.mtu_bytes == mtu_bytes);
    if !is_current {
        let change = LinkChange {
            mtu_bytes: Some(mtu_bytes),
            ..LinkChange::up()
        };
        connection.change_link(index, &change)?;
    }
    // The route to the gateways, and an address: the filter by reverse path drops all packets of a link without one.
    let own = Ipv4Net::new_assert(Ipv4Addr::new(240, hop, 0, 1), GATEWAY_PREFIX);
    match connection.add_link_address(index, IpNet::V4(own)) {
        Err(error) if !error.is_already_present() => Err(error.into()),
        _ => Ok(index),
    }
}

/// Accepts packets of clients behind other links. Where `/proc/sys` is read-only, the owner of the node sets this.
fn accept_all_clients(link: &LinkName) {
    let path = format!("/proc/sys/net/ipv4/conf/{link}/rp_filter");
    if let Err(error) = std::fs::write(&path, LOOSE) {
        tracing::warn!(%path, %error, "setting not written; forwarded packets may be dropped");
    }
}

/// Adds the neighbours of a VXLAN link for the peers, and removes all others.
fn ensure_neighbours(
    connection: &mut Connection,
    link: LinkIndex,
    peers: &Peers,
    families: &[Family],
) -> Result<(), RouteError> {
    let entries: BTreeSet<ForwardingEntry> = peers
        .iter()
        .map(|peer| ForwardingEntry {
            ethernet: peer.ethernet,
            host: peer.host,
        })
        .collect();
    let gateways = |family: &Family| {
        let is_ipv6 = *family == Family::V6;
        peers
            .iter()
            .map(move |peer| (peer.number.gateway(is_ipv6), peer.ethernet))
    };
    let neighbours: BTreeSet<Neighbour> = families.iter().flat_map(gateways).collect();
    let present_entries: BTreeSet<ForwardingEntry> =
        connection.forwarding_entries(link)?.into_iter().collect();
    let present_neighbours: BTreeSet<Neighbour> = connection
        .neighbours()?
        .into_iter()
        .filter(|neighbour| neighbour.link == link && neighbour.state & NUD_PERMANENT != 0)
        .filter_map(|neighbour| Some((neighbour.address, neighbour.ethernet?)))
        .collect();
    // A peer may have a new address. The Ethernet address is the key of an entry, so deletions come first.
    for entry in present_entries.difference(&entries) {
        ignore_absent(connection.delete_forwarding_entry(link, entry))?;
    }
    for entry in entries.difference(&present_entries) {
        connection.replace_forwarding_entry(link, entry)?;
    }
    for (gateway, _) in present_neighbours.difference(&neighbours) {
        ignore_absent(connection.delete_neighbour(link, *gateway))?;
    }
    for (gateway, ethernet) in neighbours.difference(&present_neighbours) {
        connection.replace_neighbour(link, *gateway, *ethernet)?;
    }
    Ok(())
}

fn ignore_absent(result: Result<(), RouteError>) -> Result<(), RouteError> {
    match result {
        Err(error) if error.is_absent() => Ok(()),
        other => other,
    }
}
