//! Node-local DNS (DNS-30): a link with the addresses that Pods query, and rules that exempt them from connection
//! tracking.
//!
//! Queries of Pods stay on their node. Without connection tracking, two queries of one socket cannot conflict over a
//! conntrack entry. Such a conflict loses a packet, and the client waits five seconds. The rules of Services, which
//! need connection tracking, do not apply.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, CommitError, Comparison, Expression, Hook, MetaKey, Nftables,
    PayloadBase, ReadError, Register, Rule, Table,
};
use netlink::route::{Connection, LinkChange, LinkName, RouteError};

/// Name of the link.
const LINK: &str = "portolan-dns";
/// Name of the nftables table, which belongs to this module.
const TABLE: &str = "portolan-dns";
/// Priority of the hooks, before connection tracking at -200 (`NF_IP_PRI_RAW`).
const PRIORITY: i32 = -300;
const PORT: u16 = 53;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// Failure to set up or remove node-local DNS.
#[derive(Debug, thiserror::Error)]
pub enum NodeLocalError {
    /// The link or its addresses cannot be changed. The usual cause is missing CAP_NET_ADMIN.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The nftables socket cannot be opened.
    #[error("cannot open the nftables socket: {0}")]
    Open(#[source] std::io::Error),
    /// The rules cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kernel rejects the rules.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Creates the link with `addresses`, and rules that exempt their port 53 from connection tracking. Replaces an
/// earlier set-up.
///
/// # Errors
///
/// Returns [`NodeLocalError`] if the kernel rejects the link, an address or the rules.
pub(crate) fn set_up(addresses: &[IpAddr]) -> Result<(), NodeLocalError> {
    let mut routes = Connection::open()?;
    let name: LinkName = LINK.parse()?;
    let added = match routes.add_dummy(&name) {
        Err(error) if !error.is_already_present() => {
            // Some kernels have no dummy links; a bridge without ports holds addresses as well.
            tracing::debug!(%error, "dummy link not available; using a bridge");
            routes.add_bridge(&name)
        }
        added => added,
    };
    match added {
        Err(error) if !error.is_already_present() => return Err(error.into()),
        _ => {}
    }
    let link = routes.link_index(&name)?;
    routes.change_link(link, &LinkChange::up())?;
    let networks: Vec<IpNet> = addresses.iter().map(|address| IpNet::from(*address)).collect();
    for present in routes
        .addresses()?
        .into_iter()
        .filter(|address| address.link == link)
    {
        if !networks.contains(&present.network) && present.is_global() {
            routes.delete_address(link, present.network)?;
        }
    }
    for network in networks {
        match routes.add_address(link, network) {
            Err(error) if !error.is_already_present() => return Err(error.into()),
            _ => {}
        }
    }
    let mut nftables = Nftables::open().map_err(NodeLocalError::Open)?;
    let table_exists = nftables.table(TABLE)?.is_some();
    nftables.commit(rules(addresses, table_exists))?;
    Ok(())
}

/// Removes the link and the rules, if they exist.
///
/// # Errors
///
/// Returns [`NodeLocalError`] if the kernel rejects the removal.
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

/// Returns all rules as one transaction, which replaces earlier ones.
fn rules(addresses: &[IpAddr], table_exists: bool) -> Batch {
    let mut batch = Batch::new(TABLE, None);
    if table_exists {
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
                for field in [AddressField::Destination, AddressField::Source] {
                    batch.rule(name, &rule(*address, protocol, field), 0);
                }
            }
        }
    }
    batch
}

fn table() -> Table {
    Table {
        name: TABLE.to_owned(),
        comment: "node-local DNS without connection tracking".to_owned(),
        is_dormant: false,
    }
}

/// Address of a packet that is an address of node-local DNS.
#[derive(Clone, Copy)]
enum AddressField {
    Source,
    Destination,
}

/// Returns the rule that excludes DNS packets from or to an address from connection tracking.
fn rule(address: IpAddr, protocol: u8, field: AddressField) -> Rule {
    let into = Register::at(0);
    let (family, octets, offset) = match (address, field) {
        (IpAddr::V4(v4), AddressField::Source) => (IPV4, v4.octets().to_vec(), 12),
        (IpAddr::V4(v4), AddressField::Destination) => (IPV4, v4.octets().to_vec(), 16),
        (IpAddr::V6(v6), AddressField::Source) => (IPV6, v6.octets().to_vec(), 8),
        (IpAddr::V6(v6), AddressField::Destination) => (IPV6, v6.octets().to_vec(), 24),
    };
    let port_offset = match field {
        AddressField::Source => 0,
        AddressField::Destination => 2,
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
