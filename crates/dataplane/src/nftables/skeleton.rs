//! The part of the table that is the same whatever Services there are: base chains and what they lead to.

use netlink::nftables::{BaseChain, Chain, ChainKind, FibAddress, Hook, Rejection, Rule, Table, Verdict};
use plan::{Family, NodePortAddresses, PodDetection, Settings};

use super::bytes::Bytes;
use super::item::{Datum, Item, Place};
use super::layout::{FAMILIES, MASQUERADED, Map, TREATMENTS};
use super::rules::{MASQUERADE_BITS, Writer};

/// Chain that refuses.
pub const REJECT: &str = "reject";
const SERVICES: &str = "services";
const REDIRECTED: &str = "redirected";
const MASQUERADE: &str = "masquerade";

/// `dstnat` and `srcnat` of nft.
const PRIORITY_DSTNAT: i32 = -100;
const PRIORITY_SRCNAT: i32 = 100;

/// Said in the table's comment; another layout must have another number, so that it is not taken over.
const LAYOUT_VERSION: u32 = 1;

/// The table itself.
pub fn table(name: &str) -> Table {
    Table {
        name: name.to_owned(),
        comment: format!("Services, by Portolan (layout {LAYOUT_VERSION})"),
        is_dormant: false,
    }
}

/// Chains with their rules, such that each leads only to earlier ones.
pub fn chains(settings: &Settings) -> Vec<(Chain, Vec<Rule>)> {
    let mut chains = vec![reject(), masquerade()];
    chains.extend((1..MASQUERADE_BITS).map(|bits| masquerade_some(bits, &settings.pods)));
    chains.push(services(settings));
    chains.push(redirected());
    let to_services = || vec![Writer::any().goto(SERVICES).done()];
    let base = |name, hook, priority, comment: &str| Chain {
        name: String::from(name),
        base: Some(BaseChain {
            kind: ChainKind::Nat,
            hook,
            priority,
        }),
        comment: comment.to_owned(),
    };
    chains.push((
        base(
            "prerouting",
            Hook::Prerouting,
            PRIORITY_DSTNAT,
            "connections that come in",
        ),
        to_services(),
    ));
    chains.push((
        base(
            "output",
            Hook::Output,
            PRIORITY_DSTNAT,
            "connections of this node",
        ),
        to_services(),
    ));
    chains.push((
        base(
            "postrouting",
            Hook::Postrouting,
            PRIORITY_SRCNAT,
            "connections that go out",
        ),
        vec![Writer::any().only_redirected().goto(REDIRECTED).done()],
    ));
    chains
}

/// The elements of the map from masquerade bits to verdicts, which never change.
pub fn masqueraded() -> Vec<Item> {
    let verdict = |bits: u32| match bits {
        0 => Verdict::Return,
        MASQUERADE_BITS => Verdict::Goto(MASQUERADE.to_owned()),
        bits => Verdict::Goto(masquerade_name(bits)),
    };
    (0..=MASQUERADE_BITS)
        .map(|bits| Item {
            datum: Datum::Verdict(verdict(bits)),
            ..Item::key(Place::Masqueraded, Bytes::new().mark(bits))
        })
        .collect()
}

fn services(settings: &Settings) -> (Chain, Vec<Rule>) {
    let mut rules = Vec::new();
    for family in FAMILIES {
        let addresses = Writer::of(family).treat_address(family, TREATMENTS);
        rules.push(addresses.comment("by the treatment of the address; the mark is put back"));
        rules.push(node_ports(family, settings));
        let refused = Writer::of(family).only_destination_in(Map::ClusterIps, family);
        rules.push(
            refused
                .goto(REJECT)
                .comment("a port that the Service does not have"),
        );
        let unknown = Writer::of(family).only_destination_in(Map::ServiceCidrs, family);
        rules.push(
            unknown
                .verdict(Verdict::Drop)
                .comment("no Service has this address"),
        );
    }
    (chain(SERVICES, "new connections to Services"), rules)
}

fn node_ports(family: Family, settings: &Settings) -> Rule {
    let rule = match settings.node_port_addresses {
        NodePortAddresses::All => Writer::of(family)
            .only_local(FibAddress::Destination)
            .only_off_loopback(family),
        NodePortAddresses::Primary(_) | NodePortAddresses::Within(_) => {
            Writer::of(family).only_destination_in(Map::NodePortAddresses, family)
        }
    };
    rule.treat_node_port(family, TREATMENTS)
        .comment("by the treatment of the node port; the mark is put back")
}

fn redirected() -> (Chain, Vec<Rule>) {
    let mut rules = Vec::new();
    for family in FAMILIES {
        rules.push(Writer::of(family).only_hairpin(family).goto(MASQUERADE).done());
        rules.push(
            Writer::of(family)
                .masquerade_by_address(family, MASQUERADED)
                .done(),
        );
        rules.push(
            Writer::of(family)
                .masquerade_by_node_port(family, MASQUERADED)
                .done(),
        );
    }
    (
        chain(REDIRECTED, "connections that were sent to an endpoint"),
        rules,
    )
}

fn reject() -> (Chain, Vec<Rule>) {
    let rules = vec![
        Writer::any().tcp().reject(Rejection::TcpReset).done(),
        Writer::any().reject(Rejection::PortUnreachable).done(),
    ];
    (chain(REJECT, "connections are refused"), rules)
}

fn masquerade() -> (Chain, Vec<Rule>) {
    let rules = vec![Writer::any().masquerade().done()];
    (chain(MASQUERADE, "the source becomes this node's address"), rules)
}

/// A chain that masquerades by where connections come from; `bits` as in a treatment's code.
fn masquerade_some(bits: u32, pods: &PodDetection) -> (Chain, Vec<Rule>) {
    let verdict = |origin: u32| {
        if bits & 1 << origin == 0 {
            Verdict::Return
        } else {
            Verdict::Goto(MASQUERADE.to_owned())
        }
    };
    let mut rules: Vec<Rule> = FAMILIES
        .into_iter()
        .map(|family| {
            let rule = Writer::of(family).only_from_pods(family, pods);
            rule.verdict(verdict(1)).done()
        })
        .collect();
    if verdict(2) != verdict(0) {
        let rule = Writer::any().only_local(FibAddress::Source);
        rules.push(rule.verdict(verdict(2)).done());
    }
    rules.push(Writer::any().verdict(verdict(0)).done());
    (
        chain(
            &masquerade_name(bits),
            "masquerades by where connections come from",
        ),
        rules,
    )
}

fn masquerade_name(bits: u32) -> String {
    let words = ["-outside", "-pods", "-node"];
    let names = words.into_iter().enumerate();
    let chosen: String = names
        .filter(|(origin, _)| bits & 1 << origin != 0)
        .map(|(_, word)| word)
        .collect();
    format!("{MASQUERADE}{chosen}")
}

fn chain(name: &str, comment: &str) -> Chain {
    Chain {
        name: name.to_owned(),
        base: None,
        comment: comment.to_owned(),
    }
}
