//! Base ruleset: the table, its base chains and the chains that do not depend on Services.

use netlink::nftables::{BaseChain, Chain, ChainKind, FibAddress, Hook, Rejection, Rule, Table, Verdict};
use plan::{Family, NodePortAddresses, Plan, PodDetection, Settings};

use super::bytes::MapBytes;
use super::layout::{FAMILIES, MASQUERADED, Map, VERDICTS};
use super::map_element::{MapElement, MapId, MapValue};
use super::rule_builder::{MASQUERADE_BITS, RuleBuilder};

/// Chain that rejects packets.
pub(super) const REJECT: &str = "reject";
/// Chain in which this node answers echo requests.
pub(super) const ANSWER_PING: &str = "answer-ping";
const SERVICES: &str = "services";
const REDIRECTED: &str = "redirected";
const MASQUERADE: &str = "masquerade";

/// Priorities `dstnat` and `srcnat` of nft.
const PRIORITY_DSTNAT: i32 = -100;
const PRIORITY_SRCNAT: i32 = 100;

/// Version of the layout, part of the table's comment. A table of another version is replaced, not taken over.
const LAYOUT_VERSION: u32 = 3;

/// Returns the declaration of the table.
pub(super) fn table(name: &str) -> Table {
    Table {
        name: name.to_owned(),
        comment: format!("Services, by Portolan (layout {LAYOUT_VERSION})"),
        is_dormant: false,
    }
}

/// Returns the chains with their rules; each chain jumps only to earlier ones. Virtual servers translate the
/// destination after these chains, and connection tracking does not report it as DNAT.
pub(super) fn chains(plan: &Plan, has_virtual_servers: bool) -> Vec<(Chain, Vec<Rule>)> {
    let pods = &plan.settings().pods;
    let mut chains = vec![reject(), masquerade(), answer_ping(plan)];
    chains.extend((1..MASQUERADE_BITS).map(|bits| masquerade_origins(bits, pods)));
    chains.push(services(plan, has_virtual_servers));
    chains.push(redirect_chain(has_virtual_servers));
    let to_services = || vec![RuleBuilder::any_family().goto(SERVICES).finish()];
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
    let translated = if has_virtual_servers {
        RuleBuilder::any_family()
    } else {
        RuleBuilder::any_family().match_dnat()
    };
    chains.push((
        base(
            "postrouting",
            Hook::Postrouting,
            PRIORITY_SRCNAT,
            "connections that go out",
        ),
        vec![translated.goto(REDIRECTED).finish()],
    ));
    chains
}

/// Returns the elements of the map from masquerade bits to verdicts, which are constant.
pub(super) fn masqueraded() -> Vec<MapElement> {
    let verdict = |bits: u32| match bits {
        0 => Verdict::Return,
        MASQUERADE_BITS => Verdict::Goto(MASQUERADE.to_owned()),
        bits => Verdict::Goto(masquerade_name(bits)),
    };
    (0..=MASQUERADE_BITS)
        .map(|bits| MapElement {
            map_value: MapValue::Verdict(verdict(bits)),
            ..MapElement::key(MapId::Masqueraded, MapBytes::new().mark(bits))
        })
        .collect()
}

/// Returns the chain that finds the verdict of a packet by its destination, and rejects or drops packets to no Service.
fn services(plan: &Plan, has_virtual_servers: bool) -> (Chain, Vec<Rule>) {
    let mut rules = Vec::new();
    if has_virtual_servers {
        // The cluster IP is an address of this node, so a client on this node has it as source address, too. The
        // reset that rejects a connection then has the cluster IP as destination, and would be rejected itself.
        let replies = RuleBuilder::any_family().match_reply();
        rules.push(
            replies
                .verdict(Verdict::Accept)
                .comment("resets of rejected connections"),
        );
    }
    for family in FAMILIES {
        let addresses = RuleBuilder::for_family(family).verdict_by_address(family, VERDICTS);
        rules.push(addresses.comment("by the verdict of the address; mark restored"));
        let ranges = RuleBuilder::for_family(family).verdict_by_range(family, VERDICTS);
        rules.push(ranges.comment("by the verdict of the port range; mark restored"));
        rules.push(node_ports(family, plan.settings()));
        if plan.ping_address(family).is_some() {
            let pings = RuleBuilder::for_family(family).match_ping(family);
            let pings = pings.verdict_by_ping(family, VERDICTS);
            rules.push(pings.comment("echo requests; mark restored"));
        }
        let rejected = RuleBuilder::for_family(family).match_destination_in(Map::ClusterIps, family);
        rules.push(
            rejected
                .goto(REJECT)
                .comment("a port that the Service does not have"),
        );
        let unknown = RuleBuilder::for_family(family).match_destination_in(Map::ServiceCidrs, family);
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
        NodePortAddresses::All => RuleBuilder::for_family(family)
            .match_local(FibAddress::Destination)
            .exclude_loopback(family),
        NodePortAddresses::Primary(_) | NodePortAddresses::Within(_) => {
            RuleBuilder::for_family(family).match_destination_in(Map::NodePortAddresses, family)
        }
    };
    rule.verdict_by_node_port(family, VERDICTS)
        .comment("by the verdict of the node port; mark restored")
}

fn redirect_chain(has_virtual_servers: bool) -> (Chain, Vec<Rule>) {
    let mut rules = Vec::new();
    for family in FAMILIES {
        rules.push(
            RuleBuilder::for_family(family)
                .match_hairpin(family)
                .goto(MASQUERADE)
                .finish(),
        );
        rules.push(
            RuleBuilder::for_family(family)
                .masquerade_by_address(family, MASQUERADED)
                .finish(),
        );
        rules.push(
            RuleBuilder::for_family(family)
                .masquerade_by_range(family, MASQUERADED)
                .finish(),
        );
        let rule = RuleBuilder::for_family(family);
        let rule = if has_virtual_servers {
            rule.match_original_destination_in(Map::NodePortAddresses, family)
        } else {
            rule
        };
        rules.push(rule.masquerade_by_node_port(family, MASQUERADED).finish());
    }
    (
        chain(REDIRECTED, "connections that were sent to an endpoint"),
        rules,
    )
}

fn reject() -> (Chain, Vec<Rule>) {
    let rules = vec![
        RuleBuilder::any_family()
            .tcp()
            .reject(Rejection::TcpReset)
            .finish(),
        RuleBuilder::any_family()
            .reject(Rejection::PortUnreachable)
            .finish(),
    ];
    (chain(REJECT, "connections are rejected"), rules)
}

/// Builds the chain that sends echo requests to an address of this node, which answers. Connection tracking gives the
/// answer the address of the Service.
fn answer_ping(plan: &Plan) -> (Chain, Vec<Rule>) {
    let mut rules = Vec::new();
    for family in FAMILIES {
        if let Some(address) = plan.ping_address(family) {
            let rule = RuleBuilder::for_family(family).translate_to(address);
            rules.push(rule.finish());
        }
    }
    (chain(ANSWER_PING, "this node answers"), rules)
}

fn masquerade() -> (Chain, Vec<Rule>) {
    let rules = vec![RuleBuilder::any_family().masquerade().finish()];
    (chain(MASQUERADE, "the source becomes this node's address"), rules)
}

/// Builds a chain that masquerades by the origin of the connection; `bits` are those of a verdict code.
fn masquerade_origins(bits: u32, pods: &PodDetection) -> (Chain, Vec<Rule>) {
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
            let rule = RuleBuilder::for_family(family).match_pods(family, pods);
            rule.verdict(verdict(1)).finish()
        })
        .collect();
    if verdict(2) != verdict(0) {
        let rule = RuleBuilder::any_family().match_local(FibAddress::Source);
        rules.push(rule.verdict(verdict(2)).finish());
    }
    rules.push(RuleBuilder::any_family().verdict(verdict(0)).finish());
    (chain(&masquerade_name(bits), "masquerades by origin"), rules)
}

fn masquerade_name(bits: u32) -> String {
    let suffixes = ["-outside", "-pods", "-node"];
    let names = suffixes.into_iter().enumerate();
    let chosen: String = names
        .filter(|(origin, _)| bits & 1 << origin != 0)
        .map(|(_, suffix)| suffix)
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
