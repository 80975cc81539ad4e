//! DNS on the node itself (DNS-30): a link with the addresses that Pods ask, and rules that keep connection
//! tracking out of the way.
//!
//! The Pods' queries then end on their own node. Without entries in connection tracking, two queries of one socket
//! cannot race for one, which loses a packet and costs the client five seconds; and the rules that lead Services to
//! endpoints, which need connection tracking, do not see them.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, CommitError, Comparison, Expression, Hook, MetaKey, Nftables,
    PayloadBase, ReadError, Register, Rule, Table,
};
use netlink::route::{Connection, LinkChange, LinkName, RouteError};

/// The link.
const LINK: &str = "portolan-dns";
/// The table, which nobody else writes to.
const TABLE: &str = "portolan-dns";
/// Before connection tracking, which is at -200 (`NF_IP_PRI_RAW`).
const PRIORITY: i32 = -300;
const PORT: u16 = 53;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// Why the node's link or rules could not be set up or taken away.
#[derive(Debug, thiserror::Error)]
pub enum NodeLocalError {
    /// The link or its addresses: CAP_NET_ADMIN is missing, most often.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The kernel's nftables cannot be reached.
    #[error("cannot reach nftables: {0}")]
    Open(#[source] std::io::Error),
    /// The rules could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The rules were refused.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Puts `addresses` on a link of this node and keeps connection tracking from packets to and from their port 53.
/// What is there from before is brought into this state.
pub fn set_up(addresses: &[IpAddr]) -> Result<(), NodeLocalError> {
    let mut routes = Connection::open()?;
    let name: LinkName = LINK.parse()?;
    let made = match routes.add_dummy(&name) {
        Err(error) if !error.is_exists() => {
            // Some kernels have no dummy links; a bridge without ports holds addresses just as well.
            tracing::debug!(%error, "a bridge takes the place of a dummy link");
            routes.add_bridge(&name)
        }
        made => made,
    };
    match made {
        Err(error) if !error.is_exists() => return Err(error.into()),
        _ => {}
    }
    let link = routes.link_index(&name)?;
    routes.change_link(link, &LinkChange::up())?;
    let wanted: Vec<IpNet> = addresses.iter().map(|address| IpNet::from(*address)).collect();
    for present in routes
        .addresses()?
        .into_iter()
        .filter(|address| address.link == link)
    {
        if !wanted.contains(&present.network) && present.is_global() {
            routes.delete_address(link, present.network)?;
        }
    }
    for network in wanted {
        match routes.add_address(link, network) {
            Err(error) if !error.is_exists() => return Err(error.into()),
            _ => {}
        }
    }
    let mut nftables = Nftables::open().map_err(NodeLocalError::Open)?;
    let is_there = nftables.table(TABLE)?.is_some();
    nftables.commit(rules(addresses, is_there))?;
    Ok(())
}

/// Takes the link and the rules away; that they are not there is no error.
pub fn tear_down() -> Result<(), NodeLocalError> {
    let mut nftables = Nftables::open().map_err(NodeLocalError::Open)?;
    if nftables.table(TABLE)?.is_some() {
        let mut batch = Batch::new(TABLE, None);
        batch.table(Change::Delete, &table(), 0);
        nftables.commit(batch)?;
    }
    match Connection::open()?.delete_link(&LINK.parse()?) {
        Err(error) if !error.is_absent() => Err(error.into()),
        _ => Ok(()),
    }
}

/// All rules in one transaction, in the place of those from before.
fn rules(addresses: &[IpAddr], is_there: bool) -> Batch {
    let mut batch = Batch::new(TABLE, None);
    if is_there {
        batch.table(Change::Delete, &table(), 0);
    }
    batch.table(Change::Add, &table(), 0);
    for (name, hook) in [("arriving", Hook::Prerouting), ("own", Hook::Output)] {
        let chain = Chain {
            name: name.to_owned(),
            base: Some(BaseChain {
                kind: ChainKind::Filter,
                hook,
                priority: PRIORITY,
            }),
            comment: String::new(),
        };
        batch.chain(Change::Add, &chain, 0);
        for address in addresses {
            for protocol in [UDP, TCP] {
                for end in [End::Destination, End::Source] {
                    batch.rule(name, &rule(*address, protocol, end), 0);
                }
            }
        }
    }
    batch
}

fn table() -> Table {
    Table {
        name: TABLE.to_owned(),
        comment: "DNS of this node, past connection tracking".to_owned(),
        is_dormant: false,
    }
}

/// Which end of a packet is ours.
#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

fn rule(address: IpAddr, protocol: u8, end: End) -> Rule {
    let into = Register::at(0);
    let (family, octets, offset) = match (address, end) {
        (IpAddr::V4(v4), End::Source) => (IPV4, v4.octets().to_vec(), 12),
        (IpAddr::V4(v4), End::Destination) => (IPV4, v4.octets().to_vec(), 16),
        (IpAddr::V6(v6), End::Source) => (IPV6, v6.octets().to_vec(), 8),
        (IpAddr::V6(v6), End::Destination) => (IPV6, v6.octets().to_vec(), 24),
    };
    let port_offset = match end {
        End::Source => 0,
        End::Destination => 2,
    };
    let equal = |value: Vec<u8>| Expression::Compare {
        register: into,
        comparison: Comparison::Equal,
        value,
    };
    let expressions = vec![
        Expression::Meta {
            key: MetaKey::Family,
            into,
        },
        equal(vec![family]),
        Expression::Payload {
            base: PayloadBase::Network,
            offset,
            bytes: if family == IPV4 { 4 } else { 16 },
            into,
        },
        equal(octets),
        Expression::Meta {
            key: MetaKey::Protocol,
            into,
        },
        equal(vec![protocol]),
        Expression::Payload {
            base: PayloadBase::Transport,
            offset: port_offset,
            bytes: 2,
            into,
        },
        equal(PORT.to_be_bytes().to_vec()),
        Expression::Notrack,
    ];
    Rule {
        expressions,
        comment: String::new(),
    }
}

#[cfg(test)]
mod tests;
