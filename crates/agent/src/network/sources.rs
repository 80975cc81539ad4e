//! Packets of Pods leave under the Pods' own addresses only: a table of nftables of the agent's own.
//!
//! The near ends of Pods' links belong to a group. What comes in by a link of the group is dropped unless the node's
//! routes lead to its source by that same link, which they do for the Pod's own addresses alone (strict reverse path
//! filtering, RFC 3704). IPv6's link-local addresses pass: neighbour discovery needs them, and nobody forwards them. The
//! table says nothing of single Pods, so it stays right whatever becomes of the agent.
//!
//! Claims in ARP and neighbour discovery do no harm: each Pod has a link to the node alone, which sends by its routes.

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, CommitError, Comparison, Expression, FibAddress, Hook,
    MetaKey, Nftables, Register, Rule, Table, TableFamily, Verdict,
};

/// The table.
pub const TABLE: &str = "portolan-agent";
/// The group of Pods' links: a number that nobody else's is likely to be ("pod" in ASCII).
pub const LINK_GROUP: u32 = 0x0070_6f64;
/// `raw` of `netfilter_ipv4.h`: before connection tracking takes note of the packet.
const PRIORITY: i32 = -300;
const FIRST: Register = Register::at(0);

/// Reason for which source addresses are not checked.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// The kernel has no nftables.
    #[error("nftables: {0}")]
    Open(std::io::Error),
    /// The kernel rejects the table.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Puts the table in force, in place of any that is there, in the calling thread's network namespace.
///
/// # Errors
/// See [`SourcesError`].
pub fn protect() -> Result<(), SourcesError> {
    let mut nftables = Nftables::open().map_err(SourcesError::Open)?;
    Ok(nftables.commit(table())?)
}

/// Takes the table away; whether there was one.
///
/// # Errors
/// See [`SourcesError`].
pub fn remove() -> Result<bool, SourcesError> {
    let mut nftables = Nftables::open().map_err(SourcesError::Open)?;
    Ok(nftables.delete_table(TableFamily::Inet, TABLE)?)
}

fn table() -> Batch {
    let mut batch = Batch::new(TABLE, None);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "Pods send under their own addresses only".to_owned(),
        is_dormant: false,
    };
    // Added first so that there is one to be taken away.
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
            equal(LINK_GROUP),
            Expression::FibInput {
                address: FibAddress::Source,
                into: FIRST,
            },
            equal(0),
            Expression::Verdict(Verdict::Drop),
        ],
        comment: "a source that is not the Pod's".to_owned(),
    };
    batch.rule(&chain.name, &rule, 0);
    batch
}

fn equal(number: u32) -> Expression {
    Expression::Compare {
        register: FIRST,
        comparison: Comparison::Equal,
        value: number.to_ne_bytes().to_vec(),
    }
}
