//! The network of Pods: a veth pair between the node's namespace and the Pod's, and routes, no bridge. So every
//! packet of a Pod passes the node's routing, where Services are, even between two Pods of one node.
//!
//! Node: `<gateway>/32` on the near end, route `<pod>/32` to it. Pod: `<pod>/32` on `eth0`, route to the gateway
//! on the link, default route by the gateway. Likewise for IPv6.

pub mod addresses;
pub mod sources;

use std::net::IpAddr;
use std::os::fd::AsFd;

use ipnet::IpNet;
use netlink::route::{
    Action, Connection, LinkChange, LinkIndex, LinkName, NetworkNamespace, Route, RouteError,
};

#[cfg(test)]
mod tests;

/// Begins the name of every near end.
const LINK_PREFIX: &str = "pod";
/// The Pod's own link.
const POD_LINK: &str = "eth0";

/// Settings in a Pod's namespace: addresses usable at once, no routes but ours, any port for any user.
const POD_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv4/ip_unprivileged_port_start", "0"),
];

/// Settings of a node that has Pods.
const NODE_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
];

/// The name of the near end of a Pod's pair: the same for the same UID, so that a leftover is found.
pub fn link_name(uid: &str) -> Result<LinkName, RouteError> {
    // FNV-1a, 48 bits of it: names have 15 bytes, and a node has a hundred Pods.
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{LINK_PREFIX}{:012x}", hash & 0xffff_ffff_ffff).parse()
}

/// Whether a link of that name is the near end of a Pod's pair.
pub fn is_pod_link(name: &str) -> bool {
    name.strip_prefix(LINK_PREFIX)
        .is_some_and(|hash| hash.len() == 12 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Makes the node forward between its links, and drop what Pods send under addresses that are not theirs. What cannot be
/// done is logged: settings may be right as they are, and a kernel without nftables runs Pods for tests.
pub fn prepare_node() {
    write_sysctls(NODE_SYSCTLS);
    if let Err(error) = sources::protect() {
        tracing::error!(%error, "Pods can send under addresses that are not theirs");
    }
}

/// Makes the sources of those Pods' links checked that an agent of before has made.
///
/// # Errors
/// The kernel refuses.
pub fn protect_links() -> Result<(), RouteError> {
    let mut node = Connection::open()?;
    for link in node.links()? {
        if is_pod_link(&link.name) && link.kind == "veth" && link.group != sources::LINK_GROUP {
            absent_is_fine(node.change_link(link.index, &in_group()))?;
        }
    }
    Ok(())
}

fn in_group() -> LinkChange<'static> {
    LinkChange {
        group: Some(sources::LINK_GROUP),
        ..LinkChange::default()
    }
}

/// Makes a namespace for a Pod and joins it with the node's, which the calling thread is in.
///
/// # Errors
/// The kernel refuses.
pub fn connect(
    link: &LinkName,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<NetworkNamespace, RouteError> {
    let namespace = NetworkNamespace::create()?;
    connect_to(&namespace, link, addresses, gateways)?;
    Ok(namespace)
}

/// Joins a Pod's namespace with the node's, which the calling thread is in.
///
/// # Errors
/// The kernel refuses.
pub fn connect_to(
    namespace: &NetworkNamespace,
    link: &LinkName,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<(), RouteError> {
    let mut node = Connection::open()?;
    // Left by an agent that was killed between the two ends of its work.
    absent_is_fine(node.delete_link(link))?;
    namespace.enter(|| write_sysctls(POD_SYSCTLS))?;
    let far: LinkName = POD_LINK.parse()?;
    node.add_veth(link, &far, Some(namespace.as_fd()))?;
    let near = node.link_index(link)?;
    write_sysctl(&format!("net/ipv6/conf/{link}/accept_dad"), "0");
    write_sysctl(&format!("net/ipv6/conf/{link}/accept_ra"), "0");
    let joined = join_pod(namespace, &far, addresses, gateways)
        .and_then(|()| join_node(&mut node, near, addresses, gateways));
    if let Err(error) = joined {
        absent_is_fine(node.delete_link(link))?;
        return Err(error);
    }
    Ok(())
}

/// Takes a Pod's pair away, and so its addresses and routes. Fine if it is gone.
pub fn disconnect(link: &LinkName) -> Result<(), RouteError> {
    absent_is_fine(Connection::open()?.delete_link(link))
}

/// Takes away the near ends of Pods that are not `known`; their names.
pub fn remove_unknown(known: &[LinkName]) -> Result<Vec<String>, RouteError> {
    let mut node = Connection::open()?;
    let mut removed = Vec::new();
    for link in node.links()? {
        let is_known = known.iter().any(|name| name.as_str() == link.name);
        if is_pod_link(&link.name) && link.kind == "veth" && !is_known {
            absent_is_fine(node.delete_link(&link.name.parse()?))?;
            removed.push(link.name);
        }
    }
    Ok(removed)
}

/// The node's own addresses, one of each family: on the link of the default route first, and none of a Pod's link.
pub fn node_addresses() -> Result<Vec<IpAddr>, RouteError> {
    let mut node = Connection::open()?;
    let links: Vec<LinkIndex> = node
        .links()?
        .into_iter()
        .filter(|link| link.is_up && !link.is_loopback && !is_pod_link(&link.name))
        // What wraps packets for other nodes has no address that they know this one by.
        .filter(|link| link.kind != "vxlan")
        .map(|link| link.index)
        .collect();
    let routes = node.routes()?;
    let is_default = |link: LinkIndex, address: &IpAddr| {
        routes.iter().any(|route| {
            let leads_there = matches!(route.action, Action::Via { link: Some(l), .. } if l == link);
            route.destination.prefix_len() == 0
                && route.destination.addr().is_ipv4() == address.is_ipv4()
                && leads_there
        })
    };
    let mut found: Vec<(bool, IpAddr)> = node
        .addresses()?
        .into_iter()
        .filter(|address| address.is_global() && links.contains(&address.link))
        .map(|address| {
            (
                !is_default(address.link, &address.network.addr()),
                address.network.addr(),
            )
        })
        .collect();
    // Stable: of equals the kernel's own order stays, in which the primary address comes first.
    found.sort_by_key(|(elsewhere, _)| *elsewhere);
    let first = |is_ipv4: bool| found.iter().map(|(_, ip)| *ip).find(|ip| ip.is_ipv4() == is_ipv4);
    Ok(first(true).into_iter().chain(first(false)).collect())
}

fn join_pod(
    namespace: &NetworkNamespace,
    far: &LinkName,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<(), RouteError> {
    let mut pod = Connection::open_in(namespace)?;
    let loopback = pod.link_index(&"lo".parse()?)?;
    pod.change_link(loopback, &LinkChange::up())?;
    let link = pod.link_index(far)?;
    pod.change_link(link, &LinkChange::up())?;
    for address in addresses {
        pod.add_address(link, IpNet::from(*address))?;
    }
    for gateway in gateways {
        pod.replace_route(&Route::on_link(IpNet::from(*gateway), link))?;
        pod.replace_route(&Route::default_via(*gateway))?;
    }
    Ok(())
}

fn join_node(
    node: &mut Connection,
    near: LinkIndex,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<(), RouteError> {
    // In the group before anything can be sent.
    node.change_link(near, &in_group())?;
    node.change_link(near, &LinkChange::up())?;
    for gateway in gateways {
        node.add_address(near, IpNet::from(*gateway))?;
    }
    for address in addresses {
        node.replace_route(&Route::on_link(IpNet::from(*address), near))?;
    }
    Ok(())
}

fn absent_is_fine(result: Result<(), RouteError>) -> Result<(), RouteError> {
    match result {
        Err(error) if error.is_absent() => Ok(()),
        other => other,
    }
}

fn write_sysctls(settings: &[(&str, &str)]) {
    for (name, value) in settings {
        write_sysctl(name, value);
    }
}

fn write_sysctl(name: &str, value: &str) {
    let path = format!("/proc/sys/{name}");
    // Written only if needed: a read-only /proc/sys with the right values is fine.
    if std::fs::read_to_string(&path).is_ok_and(|present| present.trim() == value) {
        return;
    }
    if let Err(error) = std::fs::write(&path, value) {
        tracing::warn!(setting = name, value, %error, "a kernel setting could not be written");
    }
}
