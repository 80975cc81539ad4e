//! Wrapped packets come from Nodes only: a table of nftables of its own.
//!
//! VXLAN has no authentication: whoever reaches the UDP port can put packets into the Pods' network under any source.
//! The table drops what comes to that port from addresses that no Node has. Who can send under a Node's address on the
//! segment between the nodes is not kept out by it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, Destination, Element, Expression, Field, Hook,
    MetaKey, PayloadBase, Register, Rule, Set, SetValue, Table, Verdict,
};

/// The table.
pub(crate) const TABLE: &str = "portolan-vxlan";
/// Before the tables of others, which most often filter at 0.
const PRIORITY: i32 = -10;
/// Nodes' addresses of one family at most: far more than a cluster has.
pub(crate) const SOURCES_MAX: usize = 16_384;
const UDP: u8 = 17;
const FIRST: Register = Register::at(0);

/// How the addresses of one family are written.
struct Family {
    /// `nfproto`.
    number: u8,
    set: &'static str,
    field: Field,
    /// Where the IP header has the source.
    source_offset: u32,
}

const FAMILIES: [Family; 2] = [
    Family {
        number: libc::NFPROTO_IPV4 as u8,
        set: "nodes4",
        field: Field::Ipv4,
        source_offset: 12,
    },
    Family {
        number: libc::NFPROTO_IPV6 as u8,
        set: "nodes6",
        field: Field::Ipv6,
        source_offset: 8,
    },
];

/// The transaction that puts the table in force, in place of any that is there.
pub(crate) fn table(port: u16, nodes: &BTreeSet<IpAddr>) -> Batch {
    let mut batch = Batch::new(TABLE, None);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "wrapped packets come from Nodes".to_owned(),
        is_dormant: false,
    };
    // Added first so that there is one to be taken away.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    let chain = Chain {
        name: "input".to_owned(),
        base: Some(BaseChain {
            kind: ChainKind::Filter,
            hook: Hook::Input,
            priority: PRIORITY,
        }),
        comment: String::new(),
    };
    batch.chain(Change::Add, &chain, 0);
    for family in &FAMILIES {
        let set = Set {
            name: family.set.to_owned(),
            key: vec![family.field],
            value: SetValue::None,
            is_interval: false,
            dynamic_size: None,
            comment: String::new(),
        };
        batch.set(Change::Add, &set, 0);
        let of_family = nodes
            .iter()
            .filter(|ip| ip.is_ipv4() == (family.field == Field::Ipv4));
        for address in of_family.take(SOURCES_MAX) {
            let key = octets(*address);
            batch
                .elements(Change::Add, family.set, 0)
                .push(&Element::key(&key));
        }
        batch.rule(&chain.name, &rule(family, port), 0);
    }
    batch
}

fn rule(family: &Family, port: u16) -> Rule {
    let load = |base, offset, bytes| Expression::Payload {
        base,
        offset,
        bytes,
        into: FIRST,
    };
    let meta = |key| Expression::Meta { key, into: FIRST };
    let equal = |value: &[u8]| Expression::Compare {
        register: FIRST,
        comparison: Comparison::Equal,
        value: value.to_vec(),
    };
    Rule {
        expressions: vec![
            meta(MetaKey::Family),
            equal(&[family.number]),
            meta(MetaKey::Protocol),
            equal(&[UDP]),
            load(PayloadBase::Transport, 2, 2),
            equal(&port.to_be_bytes()),
            load(
                PayloadBase::Network,
                family.source_offset,
                family.field.bytes() as u32,
            ),
            Expression::Lookup {
                set: family.set.to_owned(),
                key: FIRST,
                into: Destination::NotFound,
            },
            Expression::Verdict(Verdict::Drop),
        ],
        comment: String::new(),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
