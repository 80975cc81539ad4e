//! nftables table of host ports.
//!
//! Translation runs after that of Services, at a later priority of the same hooks. A connection is translated once,
//! so a Service with the same address and port has priority. The rules masquerade connections of a Pod to itself, and
//! of the node from a loopback address. The Pod could not answer them otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, CtKey, Destination, Element, ElementData,
    Expression, FibAddress, Field, Hook, MetaKey, Nftables, PayloadBase, Register, Rule, Set, SetValue,
    Table, TableFamily,
};

use super::{HostPort, HostPortError};

/// Name of the table.
pub const TABLE: &str = "portolan-host-ports";
/// Priority of translation: after `dstnat` (-100), which Services use.
const PRIORITY_TRANSLATION: i32 = -90;
/// Priority `srcnat`.
const PRIORITY_MASQUERADE: i32 = 100;
/// `RTN_LOCAL`: the address belongs to this node.
const RTN_LOCAL: u32 = 2;
/// `IPS_DST_NAT`: the destination of the connection was translated.
const IPS_DST_NAT: u32 = 1 << 5;
/// Offset and size of the destination port in TCP, UDP and SCTP headers.
const PORT_OFFSET: u32 = 2;
const PORT_BYTES: u32 = 2;
const START: Register = Register::at(0);

/// Rules of one family.
struct FamilyTable {
    is_ipv6: bool,
    /// Targets by host IP, protocol and port. They precede those of all addresses.
    addresses: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Targets by protocol and port.
    ports: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Addresses of Pods with host ports.
    pods: BTreeSet<Vec<u8>>,
}

/// Replaces the table with the host ports of Pods; removes it if no Pod has a host port.
///
/// # Errors
/// See [`HostPortError`].
pub(super) fn write(
    nftables: &mut Nftables,
    pods: &BTreeMap<String, Vec<HostPort>>,
) -> Result<(), HostPortError> {
    if pods.is_empty() {
        nftables.delete_table(TableFamily::Inet, TABLE)?;
        return Ok(());
    }
    Ok(nftables.commit(batch(pods.values().flatten()))?)
}

/// Removes the table. Returns false if there was none.
///
/// # Errors
/// See [`HostPortError`].
pub fn remove_table() -> Result<bool, HostPortError> {
    let mut nftables = Nftables::open().map_err(HostPortError::Open)?;
    Ok(nftables.delete_table(TableFamily::Inet, TABLE)?)
}

/// Returns the transaction that writes the table with the maps of these ports.
fn batch<'a>(ports: impl Iterator<Item = &'a HostPort> + Clone) -> Batch {
    let mut batch = Batch::new(TABLE, None);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "Host ports of Pods, by Portolan".to_owned(),
        is_dormant: false,
    };
    // The first addition makes the deletion succeed without an existing table.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    let families = [false, true].map(|is_ipv6| FamilyTable::new(is_ipv6, ports.clone()));
    for family in &families {
        family.add_sets(&mut batch);
    }
    let translations: Vec<Rule> = families.iter().flat_map(FamilyTable::translations).collect();
    let masquerades: Vec<Rule> = families.iter().flat_map(FamilyTable::masquerades).collect();
    add_chain(
        &mut batch,
        "prerouting",
        Hook::Prerouting,
        PRIORITY_TRANSLATION,
        &translations,
    );
    add_chain(
        &mut batch,
        "output",
        Hook::Output,
        PRIORITY_TRANSLATION,
        &translations,
    );
    add_chain(
        &mut batch,
        "postrouting",
        Hook::Postrouting,
        PRIORITY_MASQUERADE,
        &masquerades,
    );
    batch
}

fn add_chain(batch: &mut Batch, name: &str, hook: Hook, priority: i32, rules: &[Rule]) {
    let chain = Chain {
        name: name.to_owned(),
        base: Some(BaseChain {
            kind: ChainKind::Nat,
            hook,
            priority,
        }),
        comment: String::new(),
    };
    batch.chain(Change::Add, &chain, 0);
    for rule in rules {
        batch.rule(name, rule, 0);
    }
}

impl FamilyTable {
    fn new<'a>(is_ipv6: bool, ports: impl Iterator<Item = &'a HostPort>) -> Self {
        let mut table = Self {
            is_ipv6,
            addresses: BTreeMap::new(),
            ports: BTreeMap::new(),
            pods: BTreeSet::new(),
        };
        for port in ports.filter(|port| port.target.is_ipv6() == is_ipv6) {
            let mut key = port.only_address().map(address_bytes).unwrap_or_default();
            let targets = if key.is_empty() {
                &mut table.ports
            } else {
                &mut table.addresses
            };
            key.extend([port.protocol.number(), 0, 0, 0]);
            key.extend(padded_port(port.host_port));
            // A Pod that names a port twice reaches the first container.
            targets.entry(key).or_insert_with(|| target_bytes(port.target));
            table.pods.insert(address_bytes(port.target.ip()));
        }
        table
    }

    fn name(&self, stem: &str) -> String {
        let suffix = if self.is_ipv6 { '6' } else { '4' };
        format!("{stem}{suffix}")
    }

    fn address(&self) -> Field {
        if self.is_ipv6 { Field::Ipv6 } else { Field::Ipv4 }
    }

    /// Registers of a value behind an address.
    fn behind_address(&self) -> Register {
        START.plus(self.address().padded_bytes())
    }

    fn add_sets(&self, batch: &mut Batch) {
        let (address, protocol, port) = (self.address(), Field::Protocol, Field::Port);
        let target = || SetValue::Fields(vec![address, port]);
        let maps = [
            ("addresses", vec![address, protocol, port], &self.addresses),
            ("ports", vec![protocol, port], &self.ports),
        ];
        for (stem, key, targets) in maps {
            let name = self.name(stem);
            batch.set(Change::Add, &set(name.clone(), key, target()), 0);
            let mut elements = batch.elements(Change::Add, &name, 0);
            for (key, target) in targets {
                elements.push(&Element::pair(key, ElementData::Value(target)));
            }
        }
        let name = self.name("pods");
        batch.set(Change::Add, &set(name.clone(), vec![address], SetValue::None), 0);
        let mut elements = batch.elements(Change::Add, &name, 0);
        for pod in &self.pods {
            elements.push(&Element::key(pod));
        }
        drop(elements);
        let name = self.name("hairpin");
        batch.set(
            Change::Add,
            &set(name.clone(), vec![address, address], SetValue::None),
            0,
        );
        let mut elements = batch.elements(Change::Add, &name, 0);
        for pod in &self.pods {
            elements.push(&Element::key(&[pod.as_slice(), pod.as_slice()].concat()));
        }
    }

    fn translations(&self) -> [Rule; 2] {
        let protocol = self.behind_address();
        let mut by_address = self.of_family();
        // A host IP that is not an address of the node must not match connections that the node forwards.
        by_address.extend(is_of_node());
        by_address.push(self.load_address(FibAddress::Destination, START));
        by_address.extend(load_port(protocol));
        by_address.extend(self.translate("addresses"));
        let mut by_port = self.of_family();
        by_port.extend(is_of_node());
        by_port.extend(load_port(START));
        by_port.extend(self.translate("ports"));
        [
            rule(by_address, "host ports with a host IP"),
            rule(by_port, "host ports"),
        ]
    }

    fn translate(&self, map: &str) -> [Expression; 2] {
        [
            Expression::Lookup {
                set: self.name(map),
                key: START,
                into: Destination::Register(START),
            },
            Expression::Dnat {
                is_ipv6: self.is_ipv6,
                address: START,
                port: Some(self.behind_address()),
            },
        ]
    }

    fn masquerades(&self) -> Vec<Rule> {
        let mut hairpin = self.of_family();
        hairpin.extend(is_translated());
        hairpin.push(self.load_address(FibAddress::Source, START));
        hairpin.push(self.load_address(FibAddress::Destination, self.behind_address()));
        hairpin.push(is_in_set(self.name("hairpin")));
        hairpin.push(Expression::Masquerade);
        let mut rules = vec![rule(hairpin, "a Pod to itself")];
        if !self.is_ipv6 {
            let mut loopback = self.of_family();
            loopback.extend(is_translated());
            loopback.push(self.load_address(FibAddress::Source, START));
            loopback.extend(is_loopback());
            loopback.push(self.load_address(FibAddress::Destination, START));
            loopback.push(is_in_set(self.name("pods")));
            loopback.push(Expression::Masquerade);
            rules.push(rule(loopback, "the node from a loopback address"));
        }
        rules
    }

    fn of_family(&self) -> Vec<Expression> {
        family_is(self.is_ipv6)
    }

    fn load_address(&self, address: FibAddress, into: Register) -> Expression {
        let offset = match (self.is_ipv6, address) {
            (false, FibAddress::Source) => 12,
            (false, FibAddress::Destination) => 16,
            (true, FibAddress::Source) => 8,
            (true, FibAddress::Destination) => 24,
        };
        Expression::Payload {
            base: PayloadBase::Network,
            offset,
            bytes: if self.is_ipv6 { 16 } else { 4 },
            into,
        }
    }
}

fn family_is(is_ipv6: bool) -> Vec<Expression> {
    // `NFPROTO_IPV4` and `NFPROTO_IPV6`.
    let number = if is_ipv6 { 10 } else { 2 };
    let family = Expression::Meta {
        key: MetaKey::Family,
        into: START,
    };
    vec![family, equal_bytes(&[number])]
}

/// Matches a destination that is an address of the node.
fn is_of_node() -> [Expression; 2] {
    let load_type = Expression::FibType {
        address: FibAddress::Destination,
        into: START,
    };
    [load_type, equal_bytes(&RTN_LOCAL.to_ne_bytes())]
}

fn load_port(into: Register) -> [Expression; 2] {
    [
        Expression::Meta {
            key: MetaKey::Protocol,
            into,
        },
        Expression::Payload {
            base: PayloadBase::Transport,
            offset: PORT_OFFSET,
            bytes: PORT_BYTES,
            into: into.plus(Field::Protocol.padded_bytes()),
        },
    ]
}

fn is_translated() -> [Expression; 3] {
    [
        Expression::Ct {
            key: CtKey::Status,
            into: START,
        },
        Expression::Mask {
            from: START,
            into: START,
            mask: IPS_DST_NAT.to_ne_bytes().to_vec(),
        },
        Expression::Compare {
            register: START,
            comparison: Comparison::NotEqual,
            value: vec![0; 4],
        },
    ]
}

/// Matches a loaded IPv4 address of 127.0.0.0/8.
fn is_loopback() -> [Expression; 2] {
    let mask = Expression::Mask {
        from: START,
        into: START,
        mask: vec![255, 0, 0, 0],
    };
    [mask, equal_bytes(&[127, 0, 0, 0])]
}

fn is_in_set(set: String) -> Expression {
    Expression::Lookup {
        set,
        key: START,
        into: Destination::Found,
    }
}

fn equal_bytes(value: &[u8]) -> Expression {
    Expression::Compare {
        register: START,
        comparison: Comparison::Equal,
        value: value.to_vec(),
    }
}

fn rule(expressions: Vec<Expression>, comment: &str) -> Rule {
    Rule {
        expressions,
        comment: comment.to_owned(),
    }
}

fn set(name: String, key: Vec<Field>, value: SetValue) -> Set {
    Set {
        name,
        key,
        value,
        is_interval: false,
        dynamic_size: None,
        comment: String::new(),
    }
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn target_bytes(target: SocketAddr) -> Vec<u8> {
    let mut bytes = address_bytes(target.ip());
    bytes.extend(padded_port(target.port()));
    bytes
}

/// Returns a port in network byte order, padded to a register.
fn padded_port(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}
