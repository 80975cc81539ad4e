//! Table of an IP family, as nftables transactions.
//!
//! The chain `incoming` runs after connection tracking and before the destination is translated. Packets of tracked
//! connections pass, because this node serves them. Other packets to a frontend go to the current node of their slot,
//! through the link of the first hop. If this node neither forwards nor tracks the connection of a packet, the packet
//! goes to the previous nodes of its slot. It passes them one after the other, each through the link of a further
//! hop. A node that receives a packet by a hop begins with its own nodes of the level of that hop. It tries the level
//! before the level of that hop last ([`levels_after`]). A packet takes each link once at most. The last node resets
//! the connection. The chain drops packets of the links without a frontend as their destination, also of tracked
//! connections.
//!
//! Only nodes may send encapsulated packets. This node forwards no encapsulated packets of Pods or other hosts to nodes.
//! If it masqueraded such a packet, the receiving node would take it for a packet of this node.
//!
//! A packet is duplicated to the other node (`dup`) and dropped here, so that it leaves no entry in connection tracking.
//! `dup` decrements the TTL and reports packets that are too large to the client.

use std::net::IpAddr;

use netlink::nftables::{
    BaseChain, Batch, Chain, ChainKind, Change, Comparison, CtState, Destination, Element, ElementData,
    Expression, Field, Hook, PayloadBase, Rejection, Rule, Set, SetValue, Table, TableFamily, Verdict,
};
use netlink::route::LinkIndex;
use netlink::tcp;
use plan::{Family, PodDetection};

use super::expressions::{
    FIRST, GATEWAY_LINK, Headers, SLOT, SLOTS, apply_mask, compare, destination_key, in_state, link_name,
    link_prefix, lookup, payload, protocol, slot_hash, tcp_flags,
};
use super::links::{NAME_PREFIX, UDP_PORT, hop_name};
use super::peers::PeerNumber;
use super::state::{FrontendKey, HOPS, HashInput, LEVELS, SlotKey, State, hop_to, levels_after};

/// Name of the table in families `ip` and `ip6`; the `inet` family has no `dup`.
pub(crate) const TABLE: &str = "portolan-two-tier";
/// Set of the nodes from which encapsulated packets are accepted.
pub(crate) const SOURCES: &str = "nodes";
const INCOMING: &str = "incoming";
/// Chain of the packets that other nodes forwarded.
const FORWARDED: &str = "forwarded";
const FROM_CLIENT: &str = "from-client";
const ERRORS_FROM_CLIENT: &str = "errors-from-client";
/// Before the chains of the announcer (priority `mangle`, -150), which forward packets of unknown connections as well.
const INCOMING_PRIORITY: i32 = -160;
/// `NF_IP_PRI_RAW`: before connection tracking.
const UNTRACKED_PRIORITY: i32 = -300;
/// `NF_IP_PRI_MANGLE`.
const ENCAPSULATED_PRIORITY: i32 = -150;

/// Returns the family of the table.
pub(crate) fn table_family(family: Family) -> TableFamily {
    match family {
        Family::V4 => TableFamily::Ipv4,
        Family::V6 => TableFamily::Ipv6,
    }
}

/// Builds a transaction that replaces the table. `links` are the links of the hops; `is_loose`: conntrack picks up
/// established connections.
pub(crate) fn table(family: Family, links: &[LinkIndex; HOPS], state: &State, is_loose: bool) -> Batch {
    let mut batch = empty_table(family);
    for set in sets(family) {
        batch.set(Change::Add, &set, 0);
    }
    // A chain refers to those before it.
    for hop in (1..=HOPS).rev() {
        add_unknown_chains(&mut batch, family, links, hop, is_loose);
        add_chain(&mut batch, &hop_chain(hop), None, hop_rules(family, hop));
    }
    add_unknown_chains(&mut batch, family, links, 0, is_loose);
    add_chain(&mut batch, FORWARDED, None, forwarded_rules());
    add_chain(&mut batch, FROM_CLIENT, None, client_rules(family, links));
    add_chain(
        &mut batch,
        ERRORS_FROM_CLIENT,
        None,
        client_error_rules(family, links),
    );
    let base = |hook, priority| BaseChain {
        kind: ChainKind::Filter,
        hook,
        priority,
    };
    let incoming = incoming_rules(family, &state.pods);
    add_chain(
        &mut batch,
        INCOMING,
        Some(base(Hook::Prerouting, INCOMING_PRIORITY)),
        incoming,
    );
    for (name, hook, peer) in [
        ("untracked-in", Hook::Prerouting, AddressField::Source),
        ("untracked-out", Hook::Output, AddressField::Destination),
    ] {
        let base = base(hook, UNTRACKED_PRIORITY);
        add_chain(&mut batch, name, Some(base), vec![untracked_rule(family, peer)]);
    }
    add_chain(
        &mut batch,
        "encapsulated",
        Some(base(Hook::Input, ENCAPSULATED_PRIORITY)),
        vec![foreign_source_rule(family)],
    );
    add_chain(
        &mut batch,
        "encapsulated-by-others",
        Some(base(Hook::Forward, ENCAPSULATED_PRIORITY)),
        vec![foreign_forwarding_rule(family)],
    );
    add_difference(&mut batch, family, &State::default(), state);
    batch
}

/// Builds a transaction that replaces the table by one that drops all packets of the links. It applies to a family
/// without forwarded connections, and before the links exist. Otherwise, encapsulated packets would reach any
/// destination.
pub(crate) fn closed_table(family: Family) -> Batch {
    let mut batch = empty_table(family);
    let base = BaseChain {
        kind: ChainKind::Filter,
        hook: Hook::Prerouting,
        priority: UNTRACKED_PRIORITY,
    };
    let drop_all = |hop: usize| {
        let mut rule = link_name(&hop_name(hop));
        rule.push(Expression::Verdict(Verdict::Drop));
        rule
    };
    let rules = (1..=HOPS).map(drop_all).collect();
    add_chain(&mut batch, INCOMING, Some(base), rules);
    batch
}

/// Adds the chains of packets of connections that this node does not track, and that came by `hop`.
fn add_unknown_chains(
    batch: &mut Batch,
    family: Family,
    links: &[LinkIndex; HOPS],
    hop: usize,
    is_loose: bool,
) {
    add_chain(
        batch,
        &previous_node_chain(hop),
        None,
        previous_rules(family, links, hop),
    );
    add_chain(
        batch,
        &unknown_connections_chain(hop),
        None,
        unknown_rules(hop, is_loose),
    );
    add_chain(
        batch,
        &client_errors_chain(hop),
        None,
        error_rules(family, links, hop),
    );
}

/// Starts a transaction that replaces the table.
fn empty_table(family: Family) -> Batch {
    let mut batch = Batch::of_family(table_family(family), TABLE);
    let table = Table {
        name: TABLE.to_owned(),
        comment: "connections to load balancer IPs, forwarded to the nodes of endpoints".to_owned(),
        is_dormant: false,
    };
    // A deletion fails without a table, so it is added first.
    for change in [Change::Add, Change::Delete, Change::Add] {
        batch.table(change, &table, 0);
    }
    batch
}

/// Builds a transaction from one state to another one with the same Pods.
pub(crate) fn difference(family: Family, before: &State, after: &State) -> Batch {
    let mut batch = Batch::of_family(table_family(family), TABLE);
    add_difference(&mut batch, family, before, after);
    batch
}

/// Adds the changes of elements between two states.
fn add_difference(batch: &mut Batch, family: Family, before: &State, after: &State) {
    for source in before.sources.difference(&after.sources) {
        let key = address_bytes(*source);
        batch
            .elements(Change::Delete, SOURCES, 0)
            .push(&Element::key(&key));
    }
    for source in after.sources.difference(&before.sources) {
        let key = address_bytes(*source);
        batch.elements(Change::Add, SOURCES, 0).push(&Element::key(&key));
    }
    for input in HashInput::ALL {
        let set = frontends(input);
        let (before, after) = (
            &before.frontends[input as usize],
            &after.frontends[input as usize],
        );
        let mut list = batch.elements(Change::Delete, set, 0);
        for (key, _) in before
            .iter()
            .filter(|(key, number)| after.get(*key) != Some(*number))
        {
            list.push(&Element::key(&frontend_bytes(key)));
        }
        drop(list);
        let mut list = batch.elements(Change::Add, set, 0);
        for (key, number) in after
            .iter()
            .filter(|(key, number)| before.get(*key) != Some(*number))
        {
            let (key, number) = (frontend_bytes(key), number.to_ne_bytes());
            list.push(&Element::pair(&key, ElementData::Value(&number)));
        }
    }
    for level in 0..LEVELS {
        let set = choices(level);
        let (before, after) = (&before.choices[level], &after.choices[level]);
        let mut list = batch.elements(Change::Delete, &set, 0);
        for (key, _) in before.iter().filter(|(key, node)| after.get(*key) != Some(*node)) {
            list.push(&Element::key(&slot_bytes(*key)));
        }
        drop(list);
        let mut list = batch.elements(Change::Add, &set, 0);
        for (key, node) in after.iter().filter(|(key, node)| before.get(*key) != Some(*node)) {
            let (key, gateway) = (slot_bytes(*key), gateway_bytes(*node, family));
            list.push(&Element::pair(&key, ElementData::Value(&gateway)));
        }
    }
}

fn sets(family: Family) -> Vec<Set> {
    let address = match family {
        Family::V4 => Field::Ipv4,
        Family::V6 => Field::Ipv6,
    };
    let set = |name: String, key: Vec<Field>, value: SetValue| Set {
        name,
        key,
        value,
        is_interval: false,
        dynamic_size: None,
        comment: String::new(),
    };
    let mut sets = vec![set(SOURCES.to_owned(), vec![address], SetValue::None)];
    for input in HashInput::ALL {
        let key = vec![address, Field::Protocol, Field::Port];
        let value = SetValue::Fields(vec![Field::Mark]);
        sets.push(set(frontends(input).to_owned(), key, value));
    }
    for level in 0..LEVELS {
        let value = SetValue::Fields(vec![address]);
        sets.push(set(choices(level), vec![Field::Mark, Field::Mark], value));
    }
    sets
}

/// Returns the rules of the chain [`INCOMING`].
fn incoming_rules(family: Family, pods: &PodDetection) -> Vec<Vec<Expression>> {
    let mut forwarded = link_prefix(NAME_PREFIX);
    forwarded.push(Expression::Verdict(Verdict::Goto(FORWARDED.to_owned())));
    let mut tracked = in_state(&[CtState::Established, CtState::Related]);
    tracked.push(Expression::Verdict(Verdict::Return));
    let mut rules = vec![forwarded, tracked];
    for mut rule in match_pods(family, pods) {
        rule.push(Expression::Verdict(Verdict::Return));
        rules.push(rule);
    }
    for input in HashInput::ALL {
        let mut rule = match_frontend(family, Headers::Outer, input);
        rule.push(Expression::Verdict(Verdict::Goto(FROM_CLIENT.to_owned())));
        rules.push(rule);
    }
    let mut rule = too_big(family);
    rule.push(Expression::Verdict(Verdict::Goto(ERRORS_FROM_CLIENT.to_owned())));
    rules.push(rule);
    rules
}

fn client_rules(family: Family, links: &[LinkIndex; HOPS]) -> Vec<Vec<Expression>> {
    let mut rules: Vec<Vec<Expression>> = HashInput::ALL
        .into_iter()
        .map(|input| forward_rule(family, Headers::Outer, input, 0, links[0]))
        .collect();
    rules.push(vec![Expression::Verdict(Verdict::Goto(
        unknown_connections_chain(0),
    ))]);
    rules
}

/// ICMP errors about packets of a frontend. Other ones continue.
fn client_error_rules(family: Family, links: &[LinkIndex; HOPS]) -> Vec<Vec<Expression>> {
    let forward = HashInput::ALL
        .into_iter()
        .map(|input| forward_rule(family, Headers::InError, input, 0, links[0]));
    let own = HashInput::ALL.into_iter().map(|input| {
        let mut rule = match_frontend(family, Headers::InError, input);
        rule.push(Expression::Verdict(Verdict::Goto(client_errors_chain(0))));
        rule
    });
    forward.chain(own).collect()
}

/// Returns the rules of the chain [`FORWARDED`].
fn forwarded_rules() -> Vec<Vec<Expression>> {
    let rule_of_hop = |hop: usize| {
        let mut rule = link_name(&hop_name(hop));
        rule.push(Expression::Verdict(Verdict::Goto(hop_chain(hop))));
        rule
    };
    (1..=HOPS).map(rule_of_hop).collect()
}

/// Packets that another node forwarded by this hop. Only those to a frontend are accepted, also if this node tracks
/// their connection.
fn hop_rules(family: Family, hop: usize) -> Vec<Vec<Expression>> {
    let mut rules = Vec::new();
    for input in HashInput::ALL {
        let mut rule = too_big(family);
        rule.extend(in_state(&[CtState::Related]));
        rule.extend(match_frontend(family, Headers::InError, input));
        rule.push(Expression::Verdict(Verdict::Return));
        rules.push(rule);
    }
    let mut error = too_big(family);
    error.push(Expression::Verdict(Verdict::Goto(client_errors_chain(hop))));
    rules.push(error);
    for input in HashInput::ALL {
        let mut rule = match_frontend(family, Headers::Outer, input);
        rule.push(Expression::Verdict(Verdict::Goto(unknown_connections_chain(hop))));
        rules.push(rule);
    }
    rules.push(vec![Expression::Verdict(Verdict::Drop)]);
    rules
}

/// Matches packets to a frontend. Older kernels refuse a lookup in a map that ignores the value.
fn match_frontend(family: Family, headers: Headers, input: HashInput) -> Vec<Expression> {
    let mut rule = destination_key(family, headers);
    rule.push(lookup(frontends(input), FIRST, Destination::Register(SLOTS)));
    rule
}

/// Matches packets in the middle of a connection that is not tracked here. Conntrack reports FIN and RST of an
/// unknown connection as `invalid`, like packets outside of the window of a known one. In strict mode, all packets
/// without SYN of an unknown connection are invalid.
fn unknown_rules(hop: usize, is_loose: bool) -> Vec<Vec<Expression>> {
    let go = || Expression::Verdict(Verdict::Goto(previous_node_chain(hop)));
    let mut middle = protocol(tcp::PROTOCOL);
    middle.extend(in_state(&[CtState::New]));
    middle.extend(tcp_flags(tcp::SYN, Comparison::Equal));
    middle.push(go());
    let mut end = protocol(tcp::PROTOCOL);
    end.extend(in_state(&[CtState::Invalid]));
    end.extend(if is_loose {
        tcp_flags(tcp::FIN | tcp::RST, Comparison::NotEqual)
    } else {
        tcp_flags(tcp::SYN, Comparison::Equal)
    });
    end.push(go());
    vec![middle, end]
}

/// Packets in the middle of a connection that is not tracked here.
fn previous_rules(family: Family, links: &[LinkIndex; HOPS], hop: usize) -> Vec<Vec<Expression>> {
    let mut rules = forward_rules(family, Headers::Outer, links, hop);
    // An invalid packet may be an old duplicate of a connection that this node tracks.
    let mut reset = in_state(&[CtState::New]);
    reset.push(Expression::Reject(Rejection::TcpReset));
    rules.push(reset);
    rules.push(vec![Expression::Verdict(Verdict::Drop)]);
    rules
}

/// ICMP errors about packets of a connection that is not tracked here.
fn error_rules(family: Family, links: &[LinkIndex; HOPS], hop: usize) -> Vec<Vec<Expression>> {
    let mut rules = forward_rules(family, Headers::InError, links, hop);
    rules.push(vec![Expression::Verdict(Verdict::Drop)]);
    rules
}

/// Sends packets to another node: the first of the levels that this node tries.
fn forward_rules(
    family: Family,
    headers: Headers,
    links: &[LinkIndex; HOPS],
    hop: usize,
) -> Vec<Vec<Expression>> {
    let links = levels_after(hop).filter_map(|level| Some((level, *links.get(hop_to(level, hop) - 1)?)));
    links
        .flat_map(|(level, link)| {
            let rule_of_input = move |input| forward_rule(family, headers, input, level, link);
            HashInput::ALL.into_iter().map(rule_of_input)
        })
        .collect()
}

/// Sends a packet through a link to the node of its slot at a level, unless that is this node.
fn forward_rule(
    family: Family,
    headers: Headers,
    input: HashInput,
    level: usize,
    link: LinkIndex,
) -> Vec<Expression> {
    let mut rule = match_frontend(family, headers, input);
    rule.extend(slot_hash(family, headers, input, SLOT));
    rule.push(lookup(&choices(level), SLOTS, Destination::Register(FIRST)));
    rule.push(Expression::Load {
        value: link.0.to_ne_bytes().to_vec(),
        into: GATEWAY_LINK,
    });
    rule.push(Expression::Dup {
        address: FIRST,
        link: GATEWAY_LINK,
    });
    rule.push(Expression::Verdict(Verdict::Drop));
    rule
}

/// Matches encapsulated packets.
fn match_encapsulated() -> Vec<Expression> {
    let mut rule = protocol(libc::IPPROTO_UDP as u8);
    rule.push(payload(PayloadBase::Transport, 2, 2));
    rule.push(compare(Comparison::Equal, &UDP_PORT.to_be_bytes()));
    rule
}

/// Excludes encapsulated packets from and to other nodes from connection tracking: each connection would add an entry
/// of the tunnel. `peer` is the side of the other node. Packets of others to the same port need their translation.
fn untracked_rule(family: Family, peer: AddressField) -> Vec<Expression> {
    let mut rule = match_encapsulated();
    rule.push(address_of(family, peer));
    rule.push(lookup(SOURCES, FIRST, Destination::Found));
    rule.push(Expression::Notrack);
    rule
}

/// Drops encapsulated packets that no node sent.
fn foreign_source_rule(family: Family) -> Vec<Expression> {
    let mut rule = match_encapsulated();
    rule.extend(drop_unless_of_node(family));
    rule
}

/// Drops encapsulated packets to other nodes that no node sent.
fn foreign_forwarding_rule(family: Family) -> Vec<Expression> {
    let mut rule = match_encapsulated();
    rule.push(address_of(family, AddressField::Destination));
    rule.push(lookup(SOURCES, FIRST, Destination::Found));
    rule.extend(drop_unless_of_node(family));
    rule
}

fn drop_unless_of_node(family: Family) -> [Expression; 3] {
    [
        address_of(family, AddressField::Source),
        lookup(SOURCES, FIRST, Destination::NotFound),
        Expression::Verdict(Verdict::Drop),
    ]
}

/// Address of a packet.
#[derive(Clone, Copy, Debug)]
enum AddressField {
    Source,
    Destination,
}

/// Loads an address of a packet.
fn address_of(family: Family, field: AddressField) -> Expression {
    let (offset, bytes) = match (family, field) {
        (Family::V4, AddressField::Source) => (12, 4),
        (Family::V4, AddressField::Destination) => (16, 4),
        (Family::V6, AddressField::Source) => (8, 16),
        (Family::V6, AddressField::Destination) => (24, 16),
    };
    payload(PayloadBase::Network, offset, bytes)
}

/// Matches the ICMP error that path MTU discovery needs: "destination unreachable" (RFC 792) and "packet too big"
/// (RFC 4443).
fn too_big(family: Family) -> Vec<Expression> {
    let (icmp, kind) = match family {
        Family::V4 => (libc::IPPROTO_ICMP as u8, 3),
        Family::V6 => (libc::IPPROTO_ICMPV6 as u8, 2),
    };
    let mut rule = protocol(icmp);
    rule.push(payload(PayloadBase::Transport, 0, 1));
    rule.push(compare(Comparison::Equal, &[kind]));
    rule
}

/// Matches packets of Pods: this node serves their connections by the endpoints of the cluster.
fn match_pods(family: Family, pods: &PodDetection) -> Vec<Vec<Expression>> {
    match pods {
        PodDetection::Ranges(ranges) => {
            let family_ranges = ranges.iter().filter(|range| Family::of(range.addr()) == family);
            family_ranges
                .map(|range| {
                    let offset = match family {
                        Family::V4 => 12,
                        Family::V6 => 8,
                    };
                    let network = address_bytes(range.network());
                    vec![
                        payload(PayloadBase::Network, offset, network.len() as u32),
                        apply_mask(&address_bytes(range.netmask())),
                        compare(Comparison::Equal, &network),
                    ]
                })
                .collect()
        }
        PodDetection::Interface(name) => vec![link_name(name.as_str())],
        PodDetection::InterfacePrefix(prefix) => vec![link_prefix(prefix.as_str())],
    }
}

fn add_chain(batch: &mut Batch, name: &str, base: Option<BaseChain>, rules: Vec<Vec<Expression>>) {
    let chain = Chain {
        name: name.to_owned(),
        base,
        comment: String::new(),
    };
    batch.chain(Change::Add, &chain, 0);
    for expressions in rules {
        let rule = Rule {
            expressions,
            comment: String::new(),
        };
        batch.rule(name, &rule, 0);
    }
}

fn hop_chain(hop: usize) -> String {
    format!("hop-{hop}")
}

fn unknown_connections_chain(hop: usize) -> String {
    format!("unknown-{hop}")
}

fn previous_node_chain(hop: usize) -> String {
    format!("previous-{hop}")
}

fn client_errors_chain(hop: usize) -> String {
    format!("errors-{hop}")
}

/// Returns the name of the map from frontends to the number of their slots.
pub(crate) fn frontends(input: HashInput) -> &'static str {
    match input {
        HashInput::Connection => "frontends",
        HashInput::Client => "frontends-by-client",
    }
}

/// Returns the name of the map from slots to the nodes of a level.
pub(crate) fn choices(level: usize) -> String {
    match level {
        0 => "current".to_owned(),
        level => format!("previous{level}"),
    }
}

/// Encodes a frontend as a key.
pub(crate) fn frontend_bytes(key: &FrontendKey) -> Vec<u8> {
    let mut bytes = address_bytes(key.address);
    bytes.extend([key.protocol, 0, 0, 0]);
    bytes.extend(key.port.to_be_bytes());
    bytes.extend([0; 2]);
    bytes
}

fn slot_bytes((number, index): SlotKey) -> Vec<u8> {
    [number.to_ne_bytes(), index.to_ne_bytes()].concat()
}

/// Encodes the gateway of a node.
fn gateway_bytes(node: PeerNumber, family: Family) -> Vec<u8> {
    address_bytes(node.gateway(family == Family::V6))
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests;
