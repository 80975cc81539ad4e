//! nftables table that admits VXLAN packets from Nodes only.
//!
//! VXLAN has no authentication: any host that reaches the UDP port can inject packets into the Pod network under any
//! source address. The table drops packets to that port from addresses that no Node has. It does not stop hosts on
//! the segment between the nodes that forge a Node's address.
//!
//! The node also forwards no packets to the VXLAN port of other Nodes. Many clusters masquerade packets of Pods to
//! addresses outside of the Pod network. The other Node would then take a packet of a Pod for a packet of this node.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, Destination, Element, Expression, Field, Hook,
    MetaKey, PayloadBase, Register, Rule, Set, SetValue, Table, Verdict,
};

/// Name of the table.
pub(crate) const TABLE: &str = "portolan-vxlan";
/// Priority before the tables of other programs, which usually filter at 0.
const PRIORITY: i32 = -10;
/// Maximum number of Node addresses per IP family, far more than a cluster has.
pub(crate) const SOURCES_MAX: usize = 16_384;
const UDP: u8 = 17;
const FIRST: Register = Register::at(0);

/// Encoding of addresses of one IP family.
struct Family {
    /// `nfproto` value.
    number: u8,
    set: &'static str,
    field: Field,
    /// Offset of the source address in the IP header. The destination address follows it.
    source_offset: u32,
}

/// Packets that a chain sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packets {
    /// Packets to this node.
    ToOwn,
    /// Packets to other Nodes, forwarded by routing.
    ToOthers,
    /// Packets to other Nodes, from this node or forwarded by IPVS.
    Sent,
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

/// Settings of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    /// UDP port of VXLAN.
    pub port: u16,
    /// Source address of the packets of this node.
    pub local: IpAddr,
    /// Addresses of the other Nodes.
    pub nodes: BTreeSet<IpAddr>,
}

/// Builds the transaction that creates the table and replaces an existing one.
pub(crate) fn table(filter: &Filter) -> Batch {
    let mut batch = Batch::new(TABLE, None);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "wrapped packets come from Nodes".to_owned(),
        is_dormant: false,
    };
    // The first addition makes the deletion succeed if there is no table.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    let chains = [
        ("input", Hook::Input, Packets::ToOwn),
        ("forward", Hook::Forward, Packets::ToOthers),
        ("output", Hook::Output, Packets::Sent),
    ];
    for (name, hook, _) in chains {
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
    }
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
        let family_addresses = filter
            .nodes
            .iter()
            .filter(|ip| ip.is_ipv4() == (family.field == Field::Ipv4));
        for address in family_addresses.take(SOURCES_MAX) {
            let key = octets(*address);
            batch
                .elements(Change::Add, family.set, 0)
                .push(&Element::key(&key));
        }
        for (name, _, packets) in chains {
            batch.rule(name, &rule(family, filter, packets), 0);
        }
    }
    batch
}

/// Returns the rule that drops VXLAN packets between addresses that are not those of Nodes.
fn rule(family: &Family, filter: &Filter, packets: Packets) -> Rule {
    let load = |base, offset, bytes| Expression::Payload {
        base,
        offset,
        bytes,
        into: FIRST,
    };
    let meta = |key| Expression::Meta { key, into: FIRST };
    let compare = |comparison, value: &[u8]| Expression::Compare {
        register: FIRST,
        comparison,
        value: value.to_vec(),
    };
    let equal = |value: &[u8]| compare(Comparison::Equal, value);
    let lookup = |into| Expression::Lookup {
        set: family.set.to_owned(),
        key: FIRST,
        into,
    };
    let bytes = family.field.bytes() as u32;
    let mut expressions = vec![
        meta(MetaKey::Family),
        equal(&[family.number]),
        meta(MetaKey::Protocol),
        equal(&[UDP]),
        load(PayloadBase::Transport, 2, 2),
        equal(&filter.port.to_be_bytes()),
    ];
    if packets != Packets::ToOwn {
        expressions.extend([
            load(PayloadBase::Network, family.source_offset + bytes, bytes),
            lookup(Destination::Found),
        ]);
    }
    let source = load(PayloadBase::Network, family.source_offset, bytes);
    match packets {
        Packets::ToOwn | Packets::ToOthers => expressions.extend([source, lookup(Destination::NotFound)]),
        Packets::Sent if filter.local.is_ipv4() == (family.field == Field::Ipv4) => {
            expressions.extend([source, compare(Comparison::NotEqual, &octets(filter.local))]);
        }
        // This node sends encapsulated packets of the family of its address only.
        Packets::Sent => {}
    }
    expressions.push(Expression::Verdict(Verdict::Drop));
    Rule {
        expressions,
        comment: String::new(),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests;
