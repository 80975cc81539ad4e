//! Network of Pods: a veth pair between the node's namespace and the Pod's, and routes, without a bridge. Every packet
//! of a Pod therefore passes the node's routing and the rules of Services, even between two Pods of one node.
//!
//! Node: `<gateway>/32` on its end, route `<pod>/32` to it. Pod: `<pod>/32` on `eth0`, route to the gateway on the
//! link, default route through the gateway. Likewise for IPv6.

pub mod addresses;
pub mod host_ports;
pub(crate) mod hosts_file;
pub mod resolv_conf;
pub mod source_validation;

use std::net::IpAddr;
use std::os::fd::AsFd;

use api::hash::fnv1a_64;
use ipnet::IpNet;
use netlink::route::{
    Action, Connection, LinkChange, LinkIndex, LinkName, NetworkNamespace, Route, RouteError,
};

#[cfg(test)]
mod tests;

/// Prefix of the link names on the node.
const LINK_PREFIX: &str = "pod";
/// Name of the link in the Pod.
const POD_LINK: &str = "eth0";

/// Kernel settings in the namespace of a Pod: addresses are usable at once, no routes from router advertisements, every
/// user may listen on any port.
const POD_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv4/ip_unprivileged_port_start", "0"),
];

/// Kernel settings of a node with Pods.
const NODE_SYSCTLS: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
];

/// Returns the name of the node's end of a Pod's link. It is a hash of the UID, so that a later agent finds it.
///
/// # Errors
/// [`RouteError`] if the name is invalid.
pub fn link_name(uid: &str) -> Result<LinkName, RouteError> {
    // Truncated to 48 bits: names have at most 15 bytes, and a node has about a hundred Pods.
    let hash = fnv1a_64(uid.bytes()) & 0xffff_ffff_ffff;
    format!("{LINK_PREFIX}{hash:012x}").parse()
}

/// Returns true if a link with that name is the node's end of a Pod's link.
pub fn is_pod_link(name: &str) -> bool {
    name.strip_prefix(LINK_PREFIX)
        .is_some_and(|hash| hash.len() == 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Enables forwarding and source address validation on the node. Failures are logged: the settings may be correct
/// already, and tests run on kernels without nftables.
pub fn prepare_node() {
    write_sysctls(NODE_SYSCTLS);
    if let Err(error) = source_validation::install() {
        tracing::error!(%error, "source addresses of Pods not validated");
    }
}

/// Enables source address validation for the links that an earlier agent without it created.
///
/// # Errors
/// Errors of the kernel.
pub fn validate_existing_links() -> Result<(), RouteError> {
    let mut node = Connection::open()?;
    for link in node.links()? {
        if is_pod_link(&link.name) && link.kind == "veth" && link.group != source_validation::LINK_GROUP {
            ignore_absent(node.change_link(link.index, &pod_link_group()))?;
        }
    }
    Ok(())
}

fn pod_link_group() -> LinkChange<'static> {
    LinkChange {
        group: Some(source_validation::LINK_GROUP),
        ..LinkChange::default()
    }
}

/// Creates a network namespace for a Pod and connects it with the calling thread's namespace.
///
/// # Errors
/// Errors of the kernel.
pub fn create_namespace(
    link: &LinkName,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<NetworkNamespace, RouteError> {
    let namespace = NetworkNamespace::create()?;
    connect_namespace(&namespace, link, addresses, gateways)?;
    Ok(namespace)
}

/// Connects a Pod's network namespace with the calling thread's namespace.
///
/// # Errors
/// Errors of the kernel. A link that was created is deleted again.
pub fn connect_namespace(
    namespace: &NetworkNamespace,
    link: &LinkName,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<(), RouteError> {
    let mut node = Connection::open()?;
    // An agent that was killed may have left the link.
    ignore_absent(node.delete_link(link))?;
    namespace.enter(|| write_sysctls(POD_SYSCTLS))?;
    let pod_link: LinkName = POD_LINK.parse()?;
    node.add_veth(link, &pod_link, Some(namespace.as_fd()))?;
    let node_link = node.link_index(link)?;
    write_sysctl(&format!("net/ipv6/conf/{link}/accept_dad"), "0");
    write_sysctl(&format!("net/ipv6/conf/{link}/accept_ra"), "0");
    let configured = configure_pod(namespace, &pod_link, addresses, gateways)
        .and_then(|()| configure_node(&mut node, node_link, addresses, gateways));
    if let Err(error) = configured {
        ignore_absent(node.delete_link(link))?;
        return Err(error);
    }
    Ok(())
}

/// Lets the node reach a Pod from its loopback addresses, for host ports. [`source_validation`] drops packets of
/// the Pod to such addresses.
pub fn route_loopback(link: &LinkName) {
    write_sysctl(&format!("net/ipv4/conf/{link}/route_localnet"), "1");
}

/// Deletes the link of a Pod, and with it its addresses and routes. Succeeds if it does not exist.
///
/// # Errors
/// Errors of the kernel.
pub fn disconnect(link: &LinkName) -> Result<(), RouteError> {
    ignore_absent(Connection::open()?.delete_link(link))
}

/// Deletes the links of Pods that are not `known`, and returns their names.
///
/// # Errors
/// Errors of the kernel.
pub fn delete_orphaned_links(known: &[LinkName]) -> Result<Vec<String>, RouteError> {
    let mut node = Connection::open()?;
    let mut deleted = Vec::new();
    for link in node.links()? {
        let is_known = known.iter().any(|name| name.as_str() == link.name);
        if is_pod_link(&link.name) && link.kind == "veth" && !is_known {
            ignore_absent(node.delete_link(&link.name.parse()?))?;
            deleted.push(link.name);
        }
    }
    Ok(deleted)
}

/// Returns the addresses of the node, at most one of each family. The link of the default route comes first; links of
/// Pods are left out.
///
/// # Errors
/// Errors of the kernel.
pub fn node_addresses() -> Result<Vec<IpAddr>, RouteError> {
    let mut node = Connection::open()?;
    let links: Vec<LinkIndex> = node
        .links()?
        .into_iter()
        .filter(|link| link.is_up && !link.is_loopback && !is_pod_link(&link.name))
        // A VXLAN link has no address by which other nodes identify this one.
        .filter(|link| link.kind != "vxlan")
        .map(|link| link.index)
        .collect();
    let routes = node.routes()?;
    let is_default = |link: LinkIndex, address: &IpAddr| {
        routes.iter().any(|route| {
            let uses_link = matches!(route.action, Action::Via { link: Some(via), .. } if via == link);
            route.destination.prefix_len() == 0
                && route.destination.addr().is_ipv4() == address.is_ipv4()
                && uses_link
        })
    };
    let mut candidates: Vec<(bool, IpAddr)> = node
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
    // The sort is stable: among equals the order of the kernel stays, in which the primary address is first.
    candidates.sort_by_key(|(is_elsewhere, _)| *is_elsewhere);
    let first = |is_ipv4: bool| {
        candidates
            .iter()
            .map(|(_, ip)| *ip)
            .find(|ip| ip.is_ipv4() == is_ipv4)
    };
    Ok(first(true).into_iter().chain(first(false)).collect())
}

fn configure_pod(
    namespace: &NetworkNamespace,
    pod_link: &LinkName,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<(), RouteError> {
    let mut pod = Connection::open_in(namespace)?;
    let loopback = pod.link_index(&"lo".parse()?)?;
    pod.change_link(loopback, &LinkChange::up())?;
    let link = pod.link_index(pod_link)?;
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

fn configure_node(
    node: &mut Connection,
    node_link: LinkIndex,
    addresses: &[IpAddr],
    gateways: &[IpAddr],
) -> Result<(), RouteError> {
    // The group comes first, because validation must apply to the first packet.
    node.change_link(node_link, &pod_link_group())?;
    node.change_link(node_link, &LinkChange::up())?;
    for gateway in gateways {
        node.add_address(node_link, IpNet::from(*gateway))?;
    }
    for address in addresses {
        node.replace_route(&Route::on_link(IpNet::from(*address), node_link))?;
    }
    Ok(())
}

fn ignore_absent(result: Result<(), RouteError>) -> Result<(), RouteError> {
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
    // A read-only /proc/sys with the correct values is sufficient.
    if std::fs::read_to_string(&path).is_ok_and(|present| present.trim() == value) {
        return;
    }
    if let Err(error) = std::fs::write(&path, value) {
        tracing::warn!(setting = name, value, %error, "kernel setting not written");
    }
}
