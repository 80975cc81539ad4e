//! Contents of the table of [`Resets`](super::Resets), as nftables transactions.

use std::net::{IpAddr, SocketAddr};

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, Destination, DynsetOperation, Element,
    ElementData, Expression, Field, Hook, MetaKey, PayloadBase, Register, Rejection, Rule, Set, SetValue,
    TableFamily,
};
use netlink::tcp;
use plan::Family;

use super::{Direction, LISTED_MAX, LISTED_TIME};

/// Name of the table, which `nft list ruleset` shows while connections are reset.
pub(super) const TABLE: &str = "portolan-resets";
/// `NF_IP_PRI_RAW` of `netfilter_ipv4.h`: before connection tracking.
const PRIORITY: i32 = -300;
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
const START: Register = Register::at(0);
/// Value of each element. Rules can change elements of maps only, so each element needs a value.
const VALUE: [u8; 4] = [0; 4];

/// Builds the transaction that creates the table.
pub(super) fn table() -> Batch {
    let mut batch = Batch::new(TABLE, None);
    batch.owned_table(TABLE, 0);
    for family in FAMILIES {
        batch.set(Change::Add, &listed_directions(family), 0);
    }
    for (name, hook, comment) in [
        ("incoming", Hook::Prerouting, "packets of ended connections"),
        (
            "outgoing",
            Hook::Output,
            "packets of ended connections of this node",
        ),
    ] {
        let chain = Chain {
            name: name.to_owned(),
            base: Some(BaseChain {
                kind: ChainKind::Filter,
                hook,
                priority: PRIORITY,
            }),
            comment: comment.to_owned(),
        };
        batch.chain(Change::Add, &chain, 0);
        for family in FAMILIES {
            if hook == Hook::Output {
                batch.rule(name, &untracked_rule(family), 0);
            }
            batch.rule(name, &new_connection_rule(family), 0);
            batch.rule(name, &reset_rule(family), 0);
        }
    }
    batch
}

/// Builds the transaction that lists connections.
pub(super) fn elements(directions: &[Direction]) -> Batch {
    let mut batch = Batch::new(TABLE, None);
    for family in FAMILIES {
        let set = listed_directions(family);
        let mut list = batch.elements(Change::Add, &set.name, 0);
        for direction in directions
            .iter()
            .filter(|direction| Family::of(direction.from.ip()) == family)
        {
            let key = key(direction);
            let element = Element {
                timeout_milliseconds: u64::try_from(LISTED_TIME.as_millis()).ok(),
                ..Element::pair(&key, ElementData::Value(&VALUE))
            };
            list.push(&element);
        }
    }
    batch
}

/// Returns the map with the listed directions: source, source port, destination, destination port.
fn listed_directions(family: Family) -> Set {
    let (name, address) = match family {
        Family::V4 => ("ended4", Field::Ipv4),
        Family::V6 => ("ended6", Field::Ipv6),
    };
    Set {
        name: name.to_owned(),
        key: vec![address, Field::Port, address, Field::Port],
        value: SetValue::Fields(vec![Field::Mark]),
        is_interval: false,
        dynamic_size: Some(LISTED_MAX as u32),
        comment: "directions of ended connections".to_owned(),
    }
}

fn key(direction: &Direction) -> Vec<u8> {
    let mut key = Vec::new();
    for end in [direction.from, direction.to] {
        append(&mut key, end);
    }
    key
}

fn append(key: &mut Vec<u8>, end: SocketAddr) {
    match end.ip() {
        IpAddr::V4(address) => key.extend(address.octets()),
        IpAddr::V6(address) => key.extend(address.octets()),
    }
    key.extend(end.port().to_be_bytes());
    key.extend([0; 2]);
}

/// Excludes packets to the peers from connection tracking: resets, and the segments that provoke a response. Otherwise
/// each of these packets would begin a tracked connection.
fn untracked_rule(family: Family) -> Rule {
    let mut expressions = match_tcp(family);
    expressions.extend(match_listed(family, AddressOrder::Reversed));
    expressions.push(Expression::Notrack);
    rule(expressions, "to a peer of an ended connection")
}

/// Removes a direction of an ended connection when the same addresses open another one. The SYN of the client and the
/// SYN-ACK of the endpoint each remove one.
fn new_connection_rule(family: Family) -> Rule {
    let mut expressions = match_flags(family, Comparison::Equal);
    expressions.extend(match_listed(family, AddressOrder::AsSent));
    expressions.push(Expression::Dynset {
        set: listed_directions(family).name,
        operation: DynsetOperation::Delete,
        key: START,
        data: value_register(family),
        timeout_milliseconds: 0,
    });
    rule(expressions, "another connection with the same addresses")
}

fn reset_rule(family: Family) -> Rule {
    let mut expressions = match_flags(family, Comparison::NotEqual);
    expressions.extend(match_listed(family, AddressOrder::AsSent));
    expressions.push(Expression::Reject(Rejection::TcpReset));
    rule(expressions, "of an ended connection")
}

fn rule(expressions: Vec<Expression>, comment: &str) -> Rule {
    Rule {
        expressions,
        comment: comment.to_owned(),
    }
}

/// Order of the addresses of a packet in a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressOrder {
    AsSent,
    /// Destination first.
    Reversed,
}

/// Matches TCP packets of a family.
fn match_tcp(family: Family) -> Vec<Expression> {
    let number = match family {
        Family::V4 => TableFamily::Ipv4,
        Family::V6 => TableFamily::Ipv6,
    };
    let mut expressions = Vec::new();
    for (key, value) in [
        (MetaKey::Family, number as u8),
        (MetaKey::Protocol, tcp::PROTOCOL),
    ] {
        expressions.push(Expression::Meta { key, into: START });
        expressions.push(Expression::Compare {
            register: START,
            comparison: Comparison::Equal,
            value: vec![value],
        });
    }
    expressions
}

/// Matches TCP packets of a family with SYN, or without it.
fn match_flags(family: Family, comparison: Comparison) -> Vec<Expression> {
    let mut expressions = match_tcp(family);
    expressions.extend([
        Expression::Payload {
            base: PayloadBase::Transport,
            offset: tcp::FLAGS_OFFSET,
            bytes: 1,
            into: START,
        },
        Expression::Mask {
            from: START,
            into: START,
            mask: vec![tcp::SYN],
        },
        Expression::Compare {
            register: START,
            comparison,
            value: vec![tcp::SYN],
        },
    ]);
    expressions
}

/// Matches packets whose addresses are listed.
fn match_listed(family: Family, order: AddressOrder) -> Vec<Expression> {
    let (source, destination, bytes) = match family {
        Family::V4 => (12, 16, 4),
        Family::V6 => (8, 24, 16),
    };
    let mut ends = [(source, 0), (destination, 2)];
    if order == AddressOrder::Reversed {
        ends.reverse();
    }
    let mut expressions = Vec::new();
    let mut into = START;
    for (address_offset, port_offset) in ends {
        for (base, offset, bytes) in [
            (PayloadBase::Network, address_offset, bytes),
            (PayloadBase::Transport, port_offset, 2),
        ] {
            expressions.push(Expression::Payload {
                base,
                offset,
                bytes,
                into,
            });
            into = into.plus((bytes as usize).next_multiple_of(4));
        }
    }
    expressions.push(Expression::Lookup {
        set: listed_directions(family).name,
        key: START,
        into: Destination::Register(into),
    });
    expressions
}

/// Returns the register after the key.
fn value_register(family: Family) -> Register {
    match family {
        Family::V4 => START.plus(16),
        Family::V6 => START.plus(40),
    }
}
