//! `portolan trace --live`: the command sends the packet from the client on this host, and traces it in the kernel.
//!
//! - [`packet`]: one connection or datagram, with its response
//! - [`follow`]: rules and conntrack entry of a connection
//! - [`text`]: human-readable form

mod follow;
mod packet;
mod text;

use std::net::{IpAddr, SocketAddr};

use api::object::Protocol;
use clap::Args;
use explain::observation::PodName;
use explain::trace::live::{Evidence, Live};
use explain::trace::{Client, ClientKind, Path, Trace};
use netlink::route::NetworkNamespace;

use crate::node_observation::{Cluster, ReadFailure, own_addresses, pod_namespace, proxy_mode};
use follow::Follower;
use packet::Packet;
pub(super) use text::render;

/// Maximum number of connections of one command: without responses, they take 100 s.
const COUNT_MAX: i64 = 100;

/// Flags of packets that are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sent packets")]
pub(super) struct LiveFlags {
    /// Send the packet from the client on this host, follow it in the kernel, and compare it with the plan; run as root.
    /// Without it, the command sends no packet
    #[arg(long, conflicts_with_all = ["all_nodes", "node"])]
    pub live: bool,
    /// Number of connections to send, 1 to 100
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=COUNT_MAX), requires = "live", value_name = "NUMBER")]
    count: u8,
}

/// Reason why no packet is sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveError {
    /// The client is neither a Pod nor a Node.
    #[error("--live sends from Pods and nodes: {0} is outside of the cluster")]
    Outside(String),
    /// The client runs elsewhere.
    #[error("--live has to run on the host of the client: {client} is not here{}", node_suffix(.node))]
    Elsewhere {
        /// The client.
        client: String,
        /// Its node, or "".
        node: String,
    },
    /// The host cannot be read.
    #[error("the network namespace of the client is not found: {0}")]
    Host(#[from] ReadFailure),
    /// No packet has this destination.
    #[error("no packet is sent: {0}")]
    NoDestination(String),
    /// The protocol has no packets here.
    #[error("--live sends TCP and UDP packets, not {0}")]
    Protocol(&'static str),
    /// The client's namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] netlink::route::RouteError),
    /// The socket of the client cannot be used.
    #[error("the client cannot send from {address}: {error}")]
    Socket {
        /// Address of the client.
        address: IpAddr,
        /// Error of the system call.
        error: std::io::Error,
    },
}

fn node_suffix(node: &str) -> String {
    match node {
        "" => String::new(),
        node => format!(", its node is {node}"),
    }
}

/// Client on this host.
struct LocalClient {
    /// Network namespace of a Pod; `None` for the one of the node.
    namespace: Option<NetworkNamespace>,
}

impl LiveFlags {
    /// Sends the packets of a trace, and compares them with it.
    ///
    /// # Errors
    ///
    /// A [`LiveError`] if no packet can be sent.
    pub(super) fn run(&self, trace: &Trace, cluster: &Cluster) -> Result<Live, LiveError> {
        let (path, source, destination) = target(trace)?;
        let place = LocalClient::of(&trace.client, cluster)?;
        let mode = proxy_mode();
        let is_own_decision = path.nodes.iter().all(|node| *node == trace.client.node);
        let mut notes = Vec::new();
        if !is_own_decision {
            notes.push("another node chooses the endpoint, so its choice is not compared".to_owned());
        }
        let is_relayed = is_relayed(mode.as_deref(), path);
        if is_relayed {
            notes.push(
                "a process chooses the endpoint in userspace mode, so its choice is not compared".to_owned(),
            );
        }
        let protocol = trace.destination.protocol;
        let mut follower = Follower::open(protocol, mode.as_deref(), &mut notes);
        let mut live = Live {
            evidence: Evidence {
                translation: is_own_decision && !is_relayed,
                ..follower.evidence()
            },
            mode,
            notes,
            connections: Vec::new(),
        };
        for _ in 0..self.count {
            let packet = Packet::prepare(place.namespace.as_ref(), protocol, source, destination)?;
            live.connections.push(follower.send(packet, &mut live.notes));
        }
        live.evidence.translation &= follower.evidence().translation;
        live.evidence.rules &= follower.evidence().rules;
        live.evidence.conntrack &= follower.evidence().conntrack;
        live.compare(path, &trace.client);
        Ok(live)
    }
}

/// Returns true if a process of the node chooses the endpoint: in userspace mode, except for port ranges.
fn is_relayed(mode: Option<&str>, path: &Path) -> bool {
    mode == Some("userspace") && !path.ends_at_port_range()
}

/// Returns the path to send along, with the addresses of the client and of the destination.
fn target(trace: &Trace) -> Result<(&Path, IpAddr, SocketAddr), LiveError> {
    if trace.client.kind == ClientKind::Outside {
        return Err(LiveError::Outside(trace.client.name.clone()));
    }
    if trace.destination.protocol == Protocol::Sctp {
        return Err(LiveError::Protocol("SCTP"));
    }
    let usable = trace.paths.iter().find_map(|path| {
        let address = path.addresses.first()?;
        Some((
            path,
            path.source?,
            SocketAddr::new(*address, trace.destination.port),
        ))
    });
    usable.ok_or_else(|| LiveError::NoDestination(trace.reason.clone()))
}

impl LocalClient {
    /// Finds the client on this host.
    fn of(client: &Client, cluster: &Cluster) -> Result<Self, LiveError> {
        let elsewhere = || LiveError::Elsewhere {
            client: client.to_string(),
            node: client.node.clone(),
        };
        let own = own_addresses()?;
        // The addresses of Pods in the network of their node are those of the node.
        let is_on_host = client.addresses.iter().any(|address| own.contains(address));
        if is_on_host {
            return Ok(Self { namespace: None });
        }
        if client.kind == ClientKind::Node {
            return Err(elsewhere());
        }
        // Other nodes can run on this host, in network namespaces of their own. Rules of other nodes are not in the
        // network namespace of this node.
        let node_ips = cluster.internal_ips(&client.node);
        if !node_ips.is_empty() && !node_ips.iter().any(|ip| own.contains(ip)) {
            return Err(elsewhere());
        }
        let pod = PodName {
            namespace: client.namespace.clone(),
            name: client.name.clone(),
        };
        let found = pod_namespace(cluster, &client.node, &pod)?;
        Ok(Self {
            namespace: Some(found.ok_or_else(elsewhere)?),
        })
    }
}

#[cfg(test)]
mod tests;
