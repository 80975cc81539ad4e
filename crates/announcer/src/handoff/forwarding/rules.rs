//! The table of led addresses, as transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, CtKey, CtState, Destination, Element,
    ElementData, Expression, Field, Hook, MetaKey, PayloadBase, Register, Rule, Set, SetValue, Table,
    TableFamily, Verdict,
};
use netlink::route::LinkIndex;
use netlink::tcp;

use super::{LED_MAX, PRIORITY, UNSETTLED_LASTS, UNTENDED_LASTS};
use crate::handoff::next_hop::Way;
use crate::l2::frame::HardwareAddress;

/// The name of the table, in each family.
pub const TABLE: &str = "portolan-announcer";
/// What looks at all packets.
const STRAYS: &str = "strays";
/// What is done with those that are of no known connection.
const LEAD: &str = "lead";
/// The addresses of which it is not known yet where to lead.
const UNSETTLED: &str = "unsettled";
/// The addresses that are answered for, or were without a good end: nobody looks them up but the process after this one, if
/// this one is killed.
pub const HELD: &str = "held";
/// The machines that are led to.
const MACHINES: &str = "machines";

/// Where a frame has its sender, in Ethernet's header.
const SOURCE_OFFSET: u32 = 6;
/// Most Ethernet addresses that are known as those of machines that are led to: some links of each member.
const MACHINES_MAX: u32 = 1_024;

const FIRST: Register = Register::at(0);
/// Behind the longest address.
const LINK: Register = Register::at(4);

/// A family of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    /// That of its table: `dup` is in no other.
    pub fn table_family(self) -> TableFamily {
        match self {
            Self::Ipv4 => TableFamily::Ipv4,
            Self::Ipv6 => TableFamily::Ipv6,
        }
    }

    /// Whether an address is of it.
    pub fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::Ipv4)
    }

    fn field(self) -> Field {
        match self {
            Self::Ipv4 => Field::Ipv4,
            Self::Ipv6 => Field::Ipv6,
        }
    }

    /// Loads the destination.
    fn destination(self) -> Expression {
        let (offset, bytes) = match self {
            Self::Ipv4 => (16, 4),
            Self::Ipv6 => (24, 16),
        };
        payload(PayloadBase::Network, offset, bytes)
    }

    /// The protocol and type of the ICMP message that tells that packets are too big, on whose way ever: "destination
    /// unreachable" (RFC 792) and "packet too big" (RFC 4443).
    fn too_big(self) -> (u8, u8) {
        match self {
            Self::Ipv4 => (1, 3),
            Self::Ipv6 => (58, 2),
        }
    }
}

/// What is to be done with packets of unknown connections, by the address that they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// They are sent on.
    pub led: BTreeMap<IpAddr, Way>,
    /// They are dropped.
    pub unsettled: BTreeSet<IpAddr>,
    /// Nothing: that these addresses are answered for is only written down.
    pub held: BTreeSet<IpAddr>,
}

impl Wanted {
    /// What is wanted of one family, as far as there is room.
    pub fn of(&self, family: Family) -> Self {
        let led = self.led.iter().filter(|(address, _)| family.has(**address));
        let of_family = |addresses: &BTreeSet<IpAddr>| {
            let addresses = addresses.iter().filter(|address| family.has(**address));
            addresses.take(LED_MAX).copied().collect()
        };
        Self {
            led: led.take(LED_MAX).map(|(address, way)| (*address, *way)).collect(),
            unsettled: of_family(&self.unsettled),
            held: of_family(&self.held),
        }
    }

    /// Whether there is nothing that expires.
    pub fn lasts(&self) -> bool {
        self.led.is_empty() && self.unsettled.is_empty()
    }
}

/// The whole table, in place of any that is there.
pub fn table(family: Family, links: &BTreeSet<LinkIndex>, wanted: &Wanted, is_loose: bool) -> Batch {
    let mut batch = Batch::of_family(family.table_family(), TABLE);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "addresses that moved here: what they are led to".to_owned(),
        is_dormant: false,
    };
    // Added first so that there is one to be taken away.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    let set = |name: String, key: Field, value: SetValue, size: u32| Set {
        name,
        key: vec![key],
        value,
        is_interval: false,
        dynamic_size: Some(size),
        comment: String::new(),
    };
    batch.set(
        Change::Add,
        &set(MACHINES.to_owned(), Field::Ethernet, SetValue::None, MACHINES_MAX),
        0,
    );
    for name in [UNSETTLED, HELD] {
        let set = set(name.to_owned(), family.field(), SetValue::None, LED_MAX as u32);
        batch.set(Change::Add, &set, 0);
    }
    for link in links {
        let value = SetValue::Fields(vec![family.field()]);
        batch.set(
            Change::Add,
            &set(map(*link), family.field(), value, LED_MAX as u32),
            0,
        );
    }
    batch.chain(Change::Add, &chain(LEAD, None), 0);
    let base = BaseChain {
        kind: ChainKind::Filter,
        hook: Hook::Prerouting,
        priority: PRIORITY,
    };
    batch.chain(Change::Add, &chain(STRAYS, Some(base)), 0);
    for expressions in leading(family, links) {
        batch.rule(LEAD, &rule(expressions), 0);
    }
    for expressions in strays(family, is_loose) {
        batch.rule(STRAYS, &rule(expressions), 0);
    }
    change(&mut batch, &Wanted::default(), wanted);
    batch
}

/// What makes of one state of a table with the same links another one.
pub fn changes(family: Family, before: &Wanted, after: &Wanted) -> Batch {
    let mut batch = Batch::of_family(family.table_family(), TABLE);
    change(&mut batch, before, after);
    batch
}

fn change(batch: &mut Batch, before: &Wanted, after: &Wanted) {
    let unsettled_ms = u64::try_from(UNSETTLED_LASTS.as_millis()).ok();
    for (set, before, after, timeout_ms) in [
        (UNSETTLED, &before.unsettled, &after.unsettled, unsettled_ms),
        (HELD, &before.held, &after.held, None),
    ] {
        for address in before.difference(after) {
            let key = bytes(*address);
            batch.elements(Change::Delete, set, 0).push(&Element::key(&key));
        }
        for address in after.difference(before) {
            let key = bytes(*address);
            let element = Element {
                timeout_ms,
                ..Element::key(&key)
            };
            batch.elements(Change::Add, set, 0).push(&element);
        }
    }
    change_led(batch, &before.led, &after.led);
}

fn change_led(batch: &mut Batch, before: &BTreeMap<IpAddr, Way>, after: &BTreeMap<IpAddr, Way>) {
    let timeout_ms = u64::try_from(UNTENDED_LASTS.as_millis()).ok();
    let ways = |led: &BTreeMap<IpAddr, Way>| -> BTreeSet<(LinkIndex, IpAddr, IpAddr)> {
        let ways = led.iter().map(|(address, way)| (way.link, *address, way.gateway));
        ways.collect()
    };
    let (ways_before, ways_after) = (ways(before), ways(after));
    for (link, address, _) in ways_before.difference(&ways_after) {
        let key = bytes(*address);
        let element = Element::key(&key);
        batch.elements(Change::Delete, &map(*link), 0).push(&element);
    }
    for (link, address, gateway) in ways_after.difference(&ways_before) {
        let (key, gateway) = (bytes(*address), bytes(*gateway));
        let element = Element {
            timeout_ms,
            ..Element::pair(&key, ElementData::Value(&gateway))
        };
        batch.elements(Change::Add, &map(*link), 0).push(&element);
    }
    let machines = |led: &BTreeMap<IpAddr, Way>| -> BTreeSet<HardwareAddress> {
        let machines: BTreeSet<HardwareAddress> = led.values().map(|way| way.hardware).collect();
        machines.into_iter().take(MACHINES_MAX as usize).collect()
    };
    let (machines_before, machines_after) = (machines(before), machines(after));
    for machine in machines_before.difference(&machines_after) {
        let key = padded(*machine);
        let element = Element::key(&key);
        batch.elements(Change::Delete, MACHINES, 0).push(&element);
    }
    for machine in machines_after.difference(&machines_before) {
        let key = padded(*machine);
        let element = Element {
            timeout_ms,
            ..Element::key(&key)
        };
        batch.elements(Change::Add, MACHINES, 0).push(&element);
    }
}

/// Drops what is for addresses that are not settled, and sends on what is for addresses that are led, by each link.
fn leading(family: Family, links: &BTreeSet<LinkIndex>) -> Vec<Vec<Expression>> {
    let was_led = vec![
        payload(PayloadBase::Link, SOURCE_OFFSET, 6),
        Expression::Lookup {
            set: MACHINES.to_owned(),
            key: FIRST,
            into: Destination::Found,
        },
        Expression::Verdict(Verdict::Return),
    ];
    let unsettled = vec![
        family.destination(),
        Expression::Lookup {
            set: UNSETTLED.to_owned(),
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
    [was_led, unsettled].into_iter().chain(by_link).collect()
}

/// Finds what is of no connection that is known. What ends a connection is never taken for a new one, and so is told from what
/// does not fit into a known one by its flags alone; where nothing in the middle of a connection is taken for a new one, all
/// of it looks like that, and does no harm where it does not belong.
fn strays(family: Family, is_loose: bool) -> Vec<Vec<Expression>> {
    let lead = || Expression::Verdict(Verdict::Goto(LEAD.to_owned()));
    let mut in_the_middle = [
        protocol(tcp::PROTOCOL),
        state(CtState::New),
        flags(tcp::SYN, Comparison::Equal),
    ]
    .concat();
    in_the_middle.push(lead());
    let mut ends = [
        protocol(tcp::PROTOCOL),
        state(CtState::Invalid),
        match is_loose {
            true => flags(tcp::FIN | tcp::RST, Comparison::NotEqual),
            false => flags(tcp::SYN, Comparison::Equal),
        },
    ]
    .concat();
    ends.push(lead());
    let (icmp, too_big) = family.too_big();
    let mut errors = [protocol(icmp), state(CtState::Invalid)].concat();
    errors.extend([
        payload(PayloadBase::Transport, 0, 1),
        compare(Comparison::Equal, &[too_big]),
        lead(),
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

/// Whether none of these flags is set, or any.
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

/// The map of what is led by a link.
fn map(link: LinkIndex) -> String {
    format!("link{}", link.0)
}

/// The address of a key.
pub fn address(key: &[u8]) -> Option<IpAddr> {
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

/// As a key, which takes whole registers.
fn padded(hardware: HardwareAddress) -> [u8; 8] {
    let mut key = [0; 8];
    key[..6].copy_from_slice(&hardware);
    key
}
