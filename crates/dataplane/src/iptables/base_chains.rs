//! Chains that belong to no Service (IPT-01, IPT-06 … IPT-10), and the jumps to them.

use api::object::{ObjectKey, Protocol};
use plan::{HealthCheck, Plan};

use super::INVALID_DROPPED_COUNTER;
use super::context::{Context, InvalidPackets, NodePortMatch};
use super::names::{
    CANARY, FORWARD, HEALTH_CHECKS, MARK_MASQ, MARK_OFF_CLUSTER, POSTROUTING, REJECT, SharedChain, Table,
};
use super::rule::{Rule, reject};

/// A jump from a built-in chain to a chain of Portolan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    /// Table of both chains.
    pub table: Table,
    /// Built-in chain.
    pub from: &'static str,
    /// Own chain.
    pub to: &'static str,
    /// True if only packets of new connections take the jump.
    pub is_for_new_only: bool,
    /// Comment of the rule.
    pub comment: &'static str,
}

impl Jump {
    const fn new(table: Table, from: &'static str, to: &'static str, comment: &'static str) -> Self {
        Self {
            table,
            from,
            to,
            is_for_new_only: false,
            comment,
        }
    }

    const fn for_new(table: Table, from: &'static str, to: &'static str, comment: &'static str) -> Self {
        Self {
            is_for_new_only: true,
            ..Self::new(table, from, to, comment)
        }
    }

    /// Returns the rule.
    pub(super) fn rule(&self) -> String {
        let rule = if self.is_for_new_only {
            Rule::new().matching("conntrack --ctstate NEW")
        } else {
            Rule::new()
        };
        rule.comment(self.comment).jump(self.to)
    }
}

const LOAD_BALANCER: &str = "kubernetes load balancer firewall";
const EXTERNAL: &str = "kubernetes externally-visible service portals";
const PORTALS: &str = "kubernetes service portals";
const PROXY_FIREWALL: &str = SharedChain::ProxyFirewall.name();
const EXTERNAL_SERVICES: &str = SharedChain::ExternalServices.name();
const SERVICES: &str = SharedChain::Services.name();

/// All jumps, in the order of the rules.
const JUMPS: [Jump; 13] = [
    Jump::for_new(Table::Filter, "INPUT", PROXY_FIREWALL, LOAD_BALANCER),
    Jump::for_new(Table::Filter, "INPUT", EXTERNAL_SERVICES, EXTERNAL),
    Jump::new(
        Table::Filter,
        "INPUT",
        HEALTH_CHECKS,
        "kubernetes health check service ports",
    ),
    Jump::for_new(Table::Filter, "FORWARD", PROXY_FIREWALL, LOAD_BALANCER),
    Jump::for_new(Table::Filter, "FORWARD", EXTERNAL_SERVICES, EXTERNAL),
    Jump::for_new(Table::Filter, "FORWARD", SERVICES, PORTALS),
    Jump::new(Table::Filter, "FORWARD", FORWARD, "kubernetes forwarding rules"),
    Jump::for_new(Table::Filter, "OUTPUT", PROXY_FIREWALL, LOAD_BALANCER),
    Jump::for_new(Table::Filter, "OUTPUT", EXTERNAL_SERVICES, EXTERNAL),
    Jump::for_new(Table::Filter, "OUTPUT", SERVICES, PORTALS),
    Jump::new(Table::Nat, "PREROUTING", SERVICES, PORTALS),
    Jump::new(Table::Nat, "OUTPUT", SERVICES, PORTALS),
    Jump::new(
        Table::Nat,
        "POSTROUTING",
        POSTROUTING,
        "kubernetes postrouting rules",
    ),
];

/// Returns all jumps, in the order of the rules.
pub(super) fn jumps() -> impl Iterator<Item = &'static Jump> {
    JUMPS.iter()
}

/// Returns the jumps without which Services fail, for a quick check.
pub(super) fn required_jumps() -> impl Iterator<Item = &'static Jump> {
    JUMPS
        .iter()
        .filter(|jump| !jump.is_for_new_only && jump.table == Table::Nat || jump.to == FORWARD)
}

/// A chain that belongs to no Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FixedChain {
    /// Table of the chain.
    pub table: Table,
    /// Name of the chain.
    pub name: &'static str,
    /// Rules of the chain.
    pub rules: Vec<String>,
}

/// Returns all chains that belong to no Service and are not shared.
pub(super) fn chains(plan: &Plan, context: &Context) -> Vec<FixedChain> {
    let mut chains: Vec<FixedChain> = Vec::new();
    let mut add = |table, name, rules| chains.push(FixedChain { table, name, rules });
    for table in Table::ALL {
        add(table, CANARY, Vec::new());
    }
    add(Table::Filter, FORWARD, forward(context));
    add(
        Table::Filter,
        REJECT,
        vec![
            Rule::new()
                .protocol(Protocol::Tcp)
                .jump(reject(Some(Protocol::Tcp), context.family)),
            Rule::new().jump(reject(None, context.family)),
        ],
    );
    add(Table::Filter, HEALTH_CHECKS, health_checks(plan));
    let mark = context.masquerade_mark;
    let set_mark = format!("MARK --set-xmark {mark:#x}/{mark:#x}");
    add(Table::Nat, MARK_MASQ, vec![Rule::new().jump(set_mark)]);
    if context.pods.len() > 1 {
        let pods = context.pods.iter();
        let mut rules: Vec<String> = pods
            .map(|pods| Rule::new().from_pods(pods).jump("RETURN"))
            .collect();
        rules.push(Rule::new().jump(MARK_MASQ));
        add(Table::Nat, MARK_OFF_CLUSTER, rules);
    }
    add(Table::Nat, POSTROUTING, postrouting(mark));
    chains
}

/// Returns the number of rules that belong to no Service by table, including jumps.
pub(super) fn counts(plan: &Plan, context: &Context) -> [u64; Table::ALL.len()] {
    let mut counts = [0; Table::ALL.len()];
    for jump in jumps() {
        counts[jump.table as usize] += 1;
    }
    for chain in chains(plan, context) {
        counts[chain.table as usize] += chain.rules.len() as u64;
    }
    for chain in SharedChain::ALL {
        counts[chain.table() as usize] += last_rules(chain, context).len() as u64;
    }
    counts
}

/// Returns the last rules of a shared chain.
pub(super) fn last_rules(chain: SharedChain, context: &Context) -> Vec<String> {
    match chain {
        SharedChain::FilterServices => {
            let nets = context.service_cidrs.iter();
            nets.map(|net| Rule::new().destination(*net).jump(SharedChain::ClusterIps.name()))
                .collect()
        }
        SharedChain::ClusterIps => {
            vec![Rule::new().comment("no Service has this cluster IP").jump("DROP")]
        }
        SharedChain::Services => {
            let comment = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
            let destinations = context.node_ports.iter();
            let rule = |destination: &NodePortMatch| {
                let rule = destination.check(destination.rule(context.family).comment(comment));
                rule.jump(SharedChain::NodePorts.name())
            };
            let pings = Rule::new()
                .icmp(context.family)
                .comment("echo requests to Services");
            let mut rules = vec![pings.jump(SharedChain::Pings.name())];
            rules.extend(destinations.map(rule));
            rules
        }
        SharedChain::ProxyFirewall
        | SharedChain::ExternalServices
        | SharedChain::NodePorts
        | SharedChain::Pings => Vec::new(),
    }
}

fn forward(context: &Context) -> Vec<String> {
    let mark = context.masquerade_mark;
    let mut rules = Vec::new();
    let invalid = Rule::new().matching("conntrack --ctstate INVALID");
    match context.invalid {
        InvalidPackets::Accepted => {}
        InvalidPackets::Dropped => rules.push(invalid.jump("DROP")),
        InvalidPackets::Counted => {
            // `iptables-save` prints two spaces here.
            let counter = format!("nfacct --nfacct-name  {INVALID_DROPPED_COUNTER}");
            rules.push(invalid.matching(&counter).jump("DROP"));
        }
    }
    let marked = Rule::new().comment("kubernetes forwarding rules");
    rules.push(
        marked
            .matching(&format!("mark --mark {mark:#x}/{mark:#x}"))
            .jump("ACCEPT"),
    );
    let known = Rule::new().comment("kubernetes forwarding conntrack rule");
    rules.push(
        known
            .matching("conntrack --ctstate RELATED,ESTABLISHED")
            .jump("ACCEPT"),
    );
    rules
}

fn health_checks(plan: &Plan) -> Vec<String> {
    let tcp = Protocol::Tcp;
    let open = |(service, check): (&ObjectKey, HealthCheck)| {
        let rule = Rule::new()
            .protocol(tcp)
            .comment(&format!("{service} health check node port"));
        rule.port(tcp, check.port).jump("ACCEPT")
    };
    plan.health_checks().map(open).collect()
}

fn postrouting(mark: u32) -> Vec<String> {
    vec![
        Rule::new()
            .matching(&format!("mark ! --mark {mark:#x}/{mark:#x}"))
            .jump("RETURN"),
        Rule::new().jump(format_args!("MARK --set-xmark {mark:#x}/0x0")),
        Rule::new()
            .comment("kubernetes service traffic requiring SNAT")
            .jump("MASQUERADE --random-fully"),
    ]
}
