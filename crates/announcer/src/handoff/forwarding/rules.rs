//! Contents of the forwarding table, as nftables transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, CtKey, CtState, Destination, Element,
    ElementData, Expression, Field, Hook, MetaKey, PayloadBase, Register, Rule, Set, SetValue, Table,
    TableFamily, Verdict,
};
use netlink::route::LinkIndex;
use netlink::tcp;

use super::{ELEMENT_TIMEOUT, FORWARDED_MAX, PENDING_TIMEOUT, PRIORITY};
use crate::handoff::next_hop::NextHop;
use crate::l2::frame::HardwareAddress;

/// Name of the table in each family.
pub(crate) const TABLE: &str = "portolan-announcer";
/// Base chain: finds packets of unknown connections.
const UNKNOWN: &str = "unknown-connections";
/// Chain for packets of unknown connections.
const FORWARD: &str = "forward";
/// Set of pending addresses.
const PENDING: &str = "pending";
/// Set of owned addresses. No rule refers to it; the next process reads it if this one is killed. Its name is
/// a contract between versions.
pub(crate) const HELD: &str = "held";
/// Set of the Ethernet addresses of previous owners.
const PREVIOUS_OWNERS: &str = "previous-owners";

/// Offset of the source address in the Ethernet header.
const SOURCE_OFFSET: u32 = 6;
/// Maximum number of Ethernet addresses of previous owners: several links per member.
const PREVIOUS_OWNERS_MAX: u32 = 1_024;

const FIRST: Register = Register::at(0);
/// First register after the longest address.
const LINK: Register = Register::at(4);

/// IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Returns the name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// Returns the family of the table. The `inet` family has no `dup`.
    pub(crate) fn table_family(self) -> TableFamily {
        match self {
            Self::Ipv4 => TableFamily::Ipv4,
            Self::Ipv6 => TableFamily::Ipv6,
        }
    }

    /// Returns true if an address belongs to the family.
    pub(crate) fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::Ipv4)
    }

    fn field(self) -> Field {
        match self {
            Self::Ipv4 => Field::Ipv4,
            Self::Ipv6 => Field::Ipv6,
        }
    }

    /// Loads the destination address.
    fn destination(self) -> Expression {
        let (offset, bytes) = match self {
            Self::Ipv4 => (16, 4),
            Self::Ipv6 => (24, 16),
        };
        payload(PayloadBase::Network, offset, bytes)
    }

    /// Returns protocol and type of the ICMP error that path MTU discovery needs: "destination unreachable"
    /// (RFC 792) and "packet too big" (RFC 4443).
    fn too_big(self) -> (u8, u8) {
        match self {
            Self::Ipv4 => (1, 3),
            Self::Ipv6 => (58, 2),
        }
    }
}

/// Treatment of packets of unknown connections, by destination address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForwardingState {
    /// Addresses whose packets are forwarded.
    pub(crate) forwarded: BTreeMap<IpAddr, NextHop>,
    /// Addresses whose packets are dropped.
    pub(crate) pending: BTreeSet<IpAddr>,
    /// Owned addresses, recorded for the next process.
    pub(crate) held: BTreeSet<IpAddr>,
}

impl ForwardingState {
    /// Returns the part of one family, at most [`FORWARDED_MAX`] addresses of each kind.
    pub(crate) fn of_family(&self, family: Family) -> Self {
        let forwarded = self.forwarded.iter().filter(|(address, _)| family.has(**address));
        let select = |addresses: &BTreeSet<IpAddr>| {
            let addresses = addresses.iter().filter(|address| family.has(**address));
            addresses.take(FORWARDED_MAX).copied().collect()
        };
        Self {
            forwarded: forwarded
                .take(FORWARDED_MAX)
                .map(|(address, next_hop)| (*address, *next_hop))
                .collect(),
            pending: select(&self.pending),
            held: select(&self.held),
        }
    }

    /// Returns true if no element expires.
    pub(crate) fn never_expires(&self) -> bool {
        self.forwarded.is_empty() && self.pending.is_empty()
    }
}

/// Builds a transaction that replaces the table. `is_conntrack_loose`: conntrack picks up established connections.
pub(crate) fn table(
    family: Family,
    links: &BTreeSet<LinkIndex>,
    desired: &ForwardingState,
    is_conntrack_loose: bool,
) -> Batch {
    let mut batch = Batch::of_family(family.table_family(), TABLE);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "forwarding of connections of addresses that moved to this node".to_owned(),
        is_dormant: false,
    };
    // A deletion fails without a table, so it is added first.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    for set in sets(family, links) {
        batch.set(Change::Add, &set, 0);
    }
    batch.chain(Change::Add, &chain(FORWARD, None), 0);
    let base = BaseChain {
        kind: ChainKind::Filter,
        hook: Hook::Prerouting,
        priority: PRIORITY,
    };
    batch.chain(Change::Add, &chain(UNKNOWN, Some(base)), 0);
    for expressions in forward_rules(family, links) {
        batch.rule(FORWARD, &rule(expressions), 0);
    }
    for expressions in unknown_connection_rules(family, is_conntrack_loose) {
        batch.rule(UNKNOWN, &rule(expressions), 0);
    }
    add_difference(&mut batch, &ForwardingState::default(), desired);
    batch
}

/// Returns the sets of the table, and its map of each link.
fn sets(family: Family, links: &BTreeSet<LinkIndex>) -> Vec<Set> {
    let set = |name: String, key: Field, value: SetValue, size: u32| Set {
        name,
        key: vec![key],
        value,
        is_interval: false,
        dynamic_size: Some(size),
        comment: String::new(),
    };
    let addresses = |name: String, value| set(name, family.field(), value, FORWARDED_MAX as u32);
    let mut sets = vec![
        set(
            PREVIOUS_OWNERS.to_owned(),
            Field::Ethernet,
            SetValue::None,
            PREVIOUS_OWNERS_MAX,
        ),
        addresses(PENDING.to_owned(), SetValue::None),
        addresses(HELD.to_owned(), SetValue::None),
    ];
    sets.extend(links.iter().map(|link| {
        let value = SetValue::Fields(vec![family.field()]);
        addresses(map(*link), value)
    }));
    sets
}

/// Builds a transaction from one state to another one of a table with the same links.
pub(crate) fn difference(family: Family, before: &ForwardingState, after: &ForwardingState) -> Batch {
    let mut batch = Batch::of_family(family.table_family(), TABLE);
    add_difference(&mut batch, before, after);
    batch
}

fn add_difference(batch: &mut Batch, before: &ForwardingState, after: &ForwardingState) {
    let pending_milliseconds = u64::try_from(PENDING_TIMEOUT.as_millis()).ok();
    for (set, before, after, timeout_milliseconds) in [
        (PENDING, &before.pending, &after.pending, pending_milliseconds),
        (HELD, &before.held, &after.held, None),
    ] {
        for address in before.difference(after) {
            let key = bytes(*address);
            batch.elements(Change::Delete, set, 0).push(&Element::key(&key));
        }
        for address in after.difference(before) {
            let key = bytes(*address);
            let element = Element {
                timeout_milliseconds,
                ..Element::key(&key)
            };
            batch.elements(Change::Add, set, 0).push(&element);
        }
    }
    add_forwarded_difference(batch, &before.forwarded, &after.forwarded);
}

/// Adds the changes of forwarded addresses between two states.
fn add_forwarded_difference(
    batch: &mut Batch,
    before: &BTreeMap<IpAddr, NextHop>,
    after: &BTreeMap<IpAddr, NextHop>,
) {
    let timeout_milliseconds = u64::try_from(ELEMENT_TIMEOUT.as_millis()).ok();
    let hops = |forwarded: &BTreeMap<IpAddr, NextHop>| -> BTreeSet<(LinkIndex, IpAddr, IpAddr)> {
        let hops = forwarded
            .iter()
            .map(|(address, hop)| (hop.link, *address, hop.gateway));
        hops.collect()
    };
    let (hops_before, hops_after) = (hops(before), hops(after));
    for (link, address, _) in hops_before.difference(&hops_after) {
        let key = bytes(*address);
        let element = Element::key(&key);
        batch.elements(Change::Delete, &map(*link), 0).push(&element);
    }
    for (link, address, gateway) in hops_after.difference(&hops_before) {
        let (key, gateway) = (bytes(*address), bytes(*gateway));
        let element = Element {
            timeout_milliseconds,
            ..Element::pair(&key, ElementData::Value(&gateway))
        };
        batch.elements(Change::Add, &map(*link), 0).push(&element);
    }
    let owners = |forwarded: &BTreeMap<IpAddr, NextHop>| -> BTreeSet<HardwareAddress> {
        let owners: BTreeSet<HardwareAddress> = forwarded.values().map(|hop| hop.hardware).collect();
        owners.into_iter().take(PREVIOUS_OWNERS_MAX as usize).collect()
    };
    let (owners_before, owners_after) = (owners(before), owners(after));
    for owner in owners_before.difference(&owners_after) {
        let key = padded(*owner);
        let element = Element::key(&key);
        batch.elements(Change::Delete, PREVIOUS_OWNERS, 0).push(&element);
    }
    for owner in owners_after.difference(&owners_before) {
        let key = padded(*owner);
        let element = Element {
            timeout_milliseconds,
            ..Element::key(&key)
        };
        batch.elements(Change::Add, PREVIOUS_OWNERS, 0).push(&element);
    }
}

/// Builds the rules of the chain [`FORWARD`]. They accept packets that a previous owner forwarded, and drop packets
/// to pending addresses. They duplicate packets to forwarded addresses, with one rule per link.
fn forward_rules(family: Family, links: &BTreeSet<LinkIndex>) -> Vec<Vec<Expression>> {
    let from_previous_owner = vec![
        payload(PayloadBase::Link, SOURCE_OFFSET, 6),
        Expression::Lookup {
            set: PREVIOUS_OWNERS.to_owned(),
            key: FIRST,
            into: Destination::Found,
        },
        Expression::Verdict(Verdict::Return),
    ];
    let pending = vec![
        family.destination(),
        Expression::Lookup {
            set: PENDING.to_owned(),
            key: FIRST,
            into: Destination::Found,
        },
        Expression::Verdict(Verdict::Drop),
    ];
    let by_link = links.iter().map(|link| {
        vec![
            family.destination(),
            Expression::Lookup {
                set: map(*link),
                key: FIRST,
                into: Destination::Register(FIRST),
            },
            Expression::Load {
                value: link.0.to_ne_bytes().to_vec(),
                into: LINK,
            },
            Expression::Dup {
                address: FIRST,
                link: LINK,
            },
            Expression::Verdict(Verdict::Drop),
        ]
    });
    [from_previous_owner, pending]
        .into_iter()
        .chain(by_link)
        .collect()
}

/// Builds the rules of the base chain: packets that neither belong to a tracked connection nor open one.
///
/// Conntrack reports FIN and RST of an unknown connection as `invalid`, like packets outside of the window of a known
/// one. In loose mode only these flags identify unknown connections among invalid packets. In strict mode all packets
/// without SYN of an unknown connection are invalid. Packets outside of a window match then, too, which does no harm.
fn unknown_connection_rules(family: Family, is_conntrack_loose: bool) -> Vec<Vec<Expression>> {
    let forward = || Expression::Verdict(Verdict::Goto(FORWARD.to_owned()));
    let mut in_the_middle = [
        protocol(tcp::PROTOCOL),
        state(CtState::New),
        flags(tcp::SYN, Comparison::Equal),
    ]
    .concat();
    in_the_middle.push(forward());
    let mut ends = [
        protocol(tcp::PROTOCOL),
        state(CtState::Invalid),
        if is_conntrack_loose {
            flags(tcp::FIN | tcp::RST, Comparison::NotEqual)
        } else {
            flags(tcp::SYN, Comparison::Equal)
        },
    ]
    .concat();
    ends.push(forward());
    let (icmp, too_big) = family.too_big();
    let mut errors = [protocol(icmp), state(CtState::Invalid)].concat();
    errors.extend([
        payload(PayloadBase::Transport, 0, 1),
        compare(Comparison::Equal, &[too_big]),
        forward(),
    ]);
    vec![in_the_middle, ends, errors]
}

fn protocol(number: u8) -> Vec<Expression> {
    let load = Expression::Meta {
        key: MetaKey::Protocol,
        into: FIRST,
    };
    vec![load, compare(Comparison::Equal, &[number])]
}

fn state(state: CtState) -> Vec<Expression> {
    let load = Expression::Ct {
        key: CtKey::State,
        into: FIRST,
    };
    let mask = (state as u32).to_ne_bytes();
    vec![load, masked(&mask), compare(Comparison::NotEqual, &[0; 4])]
}

/// Matches packets with none (`Equal`) or any (`NotEqual`) of these TCP flags.
fn flags(of: u8, comparison: Comparison) -> Vec<Expression> {
    let load = payload(PayloadBase::Transport, tcp::FLAGS_OFFSET, 1);
    vec![load, masked(&[of]), compare(comparison, &[0])]
}

fn payload(base: PayloadBase, offset: u32, bytes: u32) -> Expression {
    Expression::Payload {
        base,
        offset,
        bytes,
        into: FIRST,
    }
}

fn masked(mask: &[u8]) -> Expression {
    Expression::Mask {
        from: FIRST,
        into: FIRST,
        mask: mask.to_vec(),
    }
}

fn compare(comparison: Comparison, value: &[u8]) -> Expression {
    Expression::Compare {
        register: FIRST,
        comparison,
        value: value.to_vec(),
    }
}

fn rule(expressions: Vec<Expression>) -> Rule {
    Rule {
        expressions,
        comment: String::new(),
    }
}

fn chain(name: &str, base: Option<BaseChain>) -> Chain {
    Chain {
        name: name.to_owned(),
        base,
        comment: String::new(),
    }
}

/// Returns the name of the map from addresses to gateways on a link.
fn map(link: LinkIndex) -> String {
    format!("link{}", link.0)
}

/// Decodes the key of an element.
pub(crate) fn address(key: &[u8]) -> Option<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(key) {
        return Some(octets.into());
    }
    <[u8; 16]>::try_from(key).ok().map(IpAddr::from)
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Encodes an Ethernet address as a key, which occupies whole registers.
fn padded(hardware: HardwareAddress) -> [u8; 8] {
    let mut key = [0; 8];
    key[..6].copy_from_slice(&hardware);
    key
}
