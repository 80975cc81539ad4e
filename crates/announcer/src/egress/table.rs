//! Contents of the egress tables, as nftables transactions. There is one table per IP family.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, CtKey, CtState, Destination, Element,
    ElementData, Expression, Field, Hook, PayloadBase, Register, Rule, Set, SetValue, Table, TableFamily,
    Verdict,
};
use netlink::route::RuleFamily;

use super::state::EgressState;

#[cfg(test)]
mod tests;

/// Name of the table in each family.
pub(super) const TABLE: &str = "portolan-egress";
/// Set of destinations inside of the cluster.
const INSIDE: &str = "inside";
/// Map from Pods to source addresses.
const SOURCES: &str = "sources";
/// Map from Pods to marks.
const ROUTED: &str = "routed";
/// Map from load balancer IPs to marks.
const REPLIES: &str = "replies";
/// Set of Pods whose packets are dropped.
const BLOCKED: &str = "blocked";
/// Chain that drops and marks packets.
const LEAVING: &str = "leaving";
/// Chain that translates source addresses.
const TRANSLATION: &str = "translation";
/// Behind DNAT (-100): packets to cluster IPs have the address of their endpoint.
const PRIORITY_LEAVING: i32 = -99;
/// Before `srcnat` (100), where other programs masquerade. They do not see translated connections.
const PRIORITY_TRANSLATION: i32 = 95;
/// `IP_CT_DIR_REPLY` of `nf_conntrack_tuple_common.h`.
const REPLY: u8 = 1;
const FIRST: Register = Register::at(0);

/// Returns the family of the table.
pub(super) fn table_family(family: RuleFamily) -> TableFamily {
    match family {
        RuleFamily::V4 => TableFamily::Ipv4,
        RuleFamily::V6 => TableFamily::Ipv6,
    }
}

/// Builds a transaction that replaces the table.
pub(super) fn table(family: RuleFamily, state: &EgressState) -> Batch {
    let mut batch = Batch::of_family(table_family(family), TABLE);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "Pods leave the cluster with the address of their Service".to_owned(),
        is_dormant: false,
    };
    // A deletion fails without a table, so it is added first.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    add_sets(&mut batch, family);
    for (name, kind, hook, priority) in [
        (LEAVING, ChainKind::Filter, Hook::Prerouting, PRIORITY_LEAVING),
        (
            TRANSLATION,
            ChainKind::Nat,
            Hook::Postrouting,
            PRIORITY_TRANSLATION,
        ),
    ] {
        let chain = Chain {
            name: name.to_owned(),
            base: Some(BaseChain { kind, hook, priority }),
            comment: String::new(),
        };
        batch.chain(Change::Add, &chain, 0);
    }
    for expressions in leaving_rules(family) {
        batch.rule(LEAVING, &rule(expressions), 0);
    }
    for expressions in translation_rules(family) {
        batch.rule(TRANSLATION, &rule(expressions), 0);
    }
    add_elements(&mut batch, family, state);
    batch
}

fn add_sets(batch: &mut Batch, family: RuleFamily) {
    let address = field(family);
    for (name, value, is_interval) in [
        (INSIDE, SetValue::None, true),
        (BLOCKED, SetValue::None, false),
        (ROUTED, SetValue::Fields(vec![Field::Mark]), false),
        (REPLIES, SetValue::Fields(vec![Field::Mark]), false),
        (SOURCES, SetValue::Fields(vec![address]), false),
    ] {
        let set = Set {
            name: name.to_owned(),
            key: vec![address],
            value,
            is_interval,
            dynamic_size: None,
            comment: String::new(),
        };
        batch.set(Change::Add, &set, 0);
    }
}

fn add_elements(batch: &mut Batch, family: RuleFamily, state: &EgressState) {
    let ranges = state.inside.iter().copied();
    let ranges: Vec<IpNet> = ranges
        .filter(|range| RuleFamily::of(range.addr()) == family)
        .collect();
    for (first, last) in intervals(ranges) {
        let first = octets(first);
        batch.elements(Change::Add, INSIDE, 0).push(&Element::key(&first));
        if let Some(end) = next(last) {
            let end = octets(end);
            let end = Element {
                is_interval_end: true,
                ..Element::key(&end)
            };
            batch.elements(Change::Add, INSIDE, 0).push(&end);
        }
    }
    for pod in state.blocked.iter().filter(|pod| RuleFamily::of(**pod) == family) {
        let key = octets(*pod);
        batch.elements(Change::Add, BLOCKED, 0).push(&Element::key(&key));
    }
    for (map, marks) in [(ROUTED, &state.routed), (REPLIES, &state.replies)] {
        let marks = marks.iter();
        for (address, number) in marks.filter(|(address, _)| RuleFamily::of(**address) == family) {
            let (key, mark) = (octets(*address), number.mark().to_ne_bytes());
            let element = Element::pair(&key, ElementData::Value(&mark));
            batch.elements(Change::Add, map, 0).push(&element);
        }
    }
    let sources = state.sources.iter();
    for (pod, source) in sources.filter(|(pod, _)| RuleFamily::of(**pod) == family) {
        let (key, source) = (octets(*pod), octets(*source));
        let element = Element::pair(&key, ElementData::Value(&source));
        batch.elements(Change::Add, SOURCES, 0).push(&element);
    }
}

/// Returns the first and last addresses of ranges, joined where they touch.
fn intervals(ranges: Vec<IpNet>) -> Vec<(IpAddr, IpAddr)> {
    let mut intervals: Vec<(IpAddr, IpAddr)> = Vec::new();
    for range in IpNet::aggregate(&ranges) {
        match intervals.last_mut() {
            Some((_, last)) if next(*last) == Some(range.network()) => *last = range.broadcast(),
            _ => intervals.push((range.network(), range.broadcast())),
        }
    }
    intervals
}

/// Builds the rules of the chain [`LEAVING`]. Packets without a connection have no direction; they are marked, too. A
/// packet without DNAT to a load balancer IP of another owner is a reply to a connection that the owner translates.
/// It arrives from routers that spread packets over several nodes, or from neighbours that know the previous owner.
fn leaving_rules(family: RuleFamily) -> Vec<Vec<Expression>> {
    let to_clients = vec![
        Expression::Ct {
            key: CtKey::Direction,
            into: FIRST,
        },
        Expression::Compare {
            register: FIRST,
            comparison: Comparison::Equal,
            value: vec![REPLY],
        },
        Expression::Verdict(Verdict::Return),
    ];
    let to_owner = vec![
        destination(family),
        lookup(REPLIES, Destination::Register(FIRST)),
        Expression::SetMark { from: FIRST },
    ];
    let blocked = vec![
        source(family),
        lookup(BLOCKED, Destination::Found),
        Expression::Verdict(Verdict::Drop),
    ];
    // NAT does not translate packets that conntrack cannot assign to a connection.
    let untranslated = vec![
        Expression::Ct {
            key: CtKey::State,
            into: FIRST,
        },
        Expression::Compare {
            register: FIRST,
            comparison: Comparison::Equal,
            value: (CtState::Invalid as u32).to_ne_bytes().to_vec(),
        },
        source(family),
        lookup(SOURCES, Destination::Register(FIRST)),
        Expression::Verdict(Verdict::Drop),
    ];
    let routed = vec![
        source(family),
        lookup(ROUTED, Destination::Register(FIRST)),
        Expression::SetMark { from: FIRST },
    ];
    vec![
        to_clients,
        to_owner,
        stays_inside(family),
        blocked,
        untranslated,
        routed,
    ]
}

fn translation_rules(family: RuleFamily) -> Vec<Vec<Expression>> {
    let translated = vec![
        source(family),
        lookup(SOURCES, Destination::Register(FIRST)),
        Expression::Snat {
            is_ipv6: family == RuleFamily::V6,
            address: FIRST,
        },
    ];
    vec![stays_inside(family), translated]
}

fn stays_inside(family: RuleFamily) -> Vec<Expression> {
    vec![
        destination(family),
        lookup(INSIDE, Destination::Found),
        Expression::Verdict(Verdict::Return),
    ]
}

/// Loads the destination address.
fn destination(family: RuleFamily) -> Expression {
    let offset = match family {
        RuleFamily::V4 => 16,
        RuleFamily::V6 => 24,
    };
    address_at(family, offset)
}

/// Loads the source address.
fn source(family: RuleFamily) -> Expression {
    let offset = match family {
        RuleFamily::V4 => 12,
        RuleFamily::V6 => 8,
    };
    address_at(family, offset)
}

fn address_at(family: RuleFamily, offset: u32) -> Expression {
    Expression::Payload {
        base: PayloadBase::Network,
        offset,
        bytes: field(family).bytes() as u32,
        into: FIRST,
    }
}

fn lookup(set: &str, into: Destination) -> Expression {
    Expression::Lookup {
        set: set.to_owned(),
        key: FIRST,
        into,
    }
}

fn rule(expressions: Vec<Expression>) -> Rule {
    Rule {
        expressions,
        comment: String::new(),
    }
}

fn field(family: RuleFamily) -> Field {
    match family {
        RuleFamily::V4 => Field::Ipv4,
        RuleFamily::V6 => Field::Ipv6,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(address) => address
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}
