//! Source address validation: packets of Pods leave with addresses of the Pod only. An nftables table of the agent.
//!
//! The node's ends of Pod links belong to a link group. The table drops a packet from a link of the group unless the
//! route to its source address uses the same link. RFC 3704 calls this strict reverse path filtering. Only addresses
//! of the Pod have such a route. Link-local IPv6 addresses pass: neighbour discovery needs them, and they are not
//! forwarded. The table does not depend on single Pods, so it stays correct while no agent runs.
//!
//! Forged ARP and neighbour discovery messages have no effect. Each Pod has a link of its own, and the node sends by
//! its routes.

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, CommitError, Comparison, Expression, FibAddress, Hook,
    MetaKey, Nftables, PayloadBase, ReadError, Register, Rule, Table, TableFamily, Verdict,
};

/// Name of the table.
pub const TABLE: &str = "portolan-agent";
/// Link group of Pod links ("pod" in ASCII), a number that other programs are unlikely to use.
pub const LINK_GROUP: u32 = 0x0070_6f64;
/// Priority `raw` of `netfilter_ipv4.h`: before connection tracking.
const PRIORITY: i32 = -300;
const FIRST: Register = Register::at(0);
/// `NFPROTO_IPV4`: packets of IPv4.
const NFPROTO_IPV4: u8 = 2;
/// Offset of the destination address in an IPv4 header.
const IPV4_DESTINATION_OFFSET: u32 = 16;

/// Error of installing or removing the table.
#[derive(Debug, thiserror::Error)]
pub enum SourceValidationError {
    /// The kernel has no nftables.
    #[error("cannot use nftables: {0}")]
    Open(std::io::Error),
    /// The kernel rejects the table.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The kernel does not report its tables.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Installs the table in the network namespace of the calling thread, in place of an existing one.
///
/// # Errors
/// See [`SourceValidationError`].
pub fn install() -> Result<(), SourceValidationError> {
    let mut nftables = Nftables::open().map_err(SourceValidationError::Open)?;
    Ok(nftables.commit(table())?)
}

/// Installs the table if it is missing. Returns false if it exists.
///
/// # Errors
/// See [`SourceValidationError`].
pub fn restore() -> Result<bool, SourceValidationError> {
    let mut nftables = Nftables::open().map_err(SourceValidationError::Open)?;
    if nftables.table(TABLE)?.is_some() {
        return Ok(false);
    }
    nftables.commit(table())?;
    Ok(true)
}

/// Removes the table. Returns false if there was none.
///
/// # Errors
/// See [`SourceValidationError`].
pub fn remove() -> Result<bool, SourceValidationError> {
    let mut nftables = Nftables::open().map_err(SourceValidationError::Open)?;
    Ok(nftables.delete_table(TableFamily::Inet, TABLE)?)
}

/// Returns the transaction that writes the table.
fn table() -> Batch {
    let mut batch = Batch::new(TABLE, None);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "Pods send under their own addresses only".to_owned(),
        is_dormant: false,
    };
    // The first addition makes the deletion succeed without an existing table.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    let chain = Chain {
        name: "sources".to_owned(),
        base: Some(BaseChain {
            kind: ChainKind::Filter,
            hook: Hook::Prerouting,
            priority: PRIORITY,
        }),
        comment: String::new(),
    };
    batch.chain(Change::Add, &chain, 0);
    let rule = Rule {
        expressions: vec![
            Expression::Meta {
                key: MetaKey::InputGroup,
                into: FIRST,
            },
            equal_number(LINK_GROUP),
            Expression::FibInput {
                address: FibAddress::Source,
                into: FIRST,
            },
            equal_number(0),
            Expression::Verdict(Verdict::Drop),
        ],
        comment: "a source that is not the Pod's".to_owned(),
    };
    batch.rule(&chain.name, &rule, 0);
    batch.rule(&chain.name, &protect_loopback(), 0);
    batch
}

/// Drops packets of Pods to 127.0.0.0/8. The links of Pods with host ports route these addresses, so that the node
/// reaches the ports at them.
fn protect_loopback() -> Rule {
    let load = |key| Expression::Meta { key, into: FIRST };
    Rule {
        expressions: vec![
            load(MetaKey::Family),
            equal_bytes(&[NFPROTO_IPV4]),
            load(MetaKey::InputGroup),
            equal_number(LINK_GROUP),
            Expression::Payload {
                base: PayloadBase::Network,
                offset: IPV4_DESTINATION_OFFSET,
                bytes: 4,
                into: FIRST,
            },
            Expression::Mask {
                from: FIRST,
                into: FIRST,
                mask: vec![255, 0, 0, 0],
            },
            equal_bytes(&[127, 0, 0, 0]),
            Expression::Verdict(Verdict::Drop),
        ],
        comment: "a Pod to a loopback address of the node".to_owned(),
    }
}

fn equal_number(number: u32) -> Expression {
    equal_bytes(&number.to_ne_bytes())
}

fn equal_bytes(value: &[u8]) -> Expression {
    Expression::Compare {
        register: FIRST,
        comparison: Comparison::Equal,
        value: value.to_vec(),
    }
}
