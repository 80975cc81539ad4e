//! Verdict chains: the handling of connections at a frontend, independent of the Service.
//!
//! Thousands of Services share a few dozen verdict chains. Examples are "one of 3 endpoints" and "one of 2 local
//! endpoints for external clients, otherwise one of 5". Frontends map to the code of their chain.

use netlink::nftables::{Chain, FibAddress, Rule, Verdict};
use plan::{EndpointSet, Frontend, Origin, PodDetection, Scheduler, ServicePortPlan, Target};

use super::base_ruleset::{ANSWER_PING, REJECT};
use super::layout::FAMILIES;
use super::rule_builder::{EndpointIndex, RuleBuilder};

/// Lookup of the key of a Service port, which is its first frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KeyLookup {
    /// The destination of the packet is the key.
    First,
    /// A map leads from the destination address, another address of the Service, to the key.
    Address,
    /// A map leads from the destination port to the key.
    NodePort,
    /// A map leads from the port range of the destination to the key. The destination port of the packet stays.
    Range,
    /// None: echo requests get no endpoint.
    Ping,
}

/// Action on connections of one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// Reject the connection.
    Reject,
    /// Drop the packet.
    Drop,
    /// Send the connection to one of this many endpoints of a set.
    Balance(EndpointSet, u32),
    /// Accept the connection: a virtual server chooses the endpoint.
    Accept,
    /// Answer the echo request.
    Answer,
}

/// Choice among several endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// Random choice.
    #[default]
    Random,
    /// Round robin. The counter belongs to the rule, so each Service port has its own chain; this number is part of
    /// the name.
    RoundRobin(u32),
    /// Maglev table, indexed by a hash of the client's address and port.
    Hash,
    /// Maglev table, indexed by a hash of the client's address.
    ClientHash,
}

/// Handling of connections at a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct VerdictChain {
    /// Lookup of the key of the Service port.
    pub key_lookup: KeyLookup,
    /// Actions by origin, in the order of [`Origin::ALL`].
    pub actions: [Action; 3],
    /// Session affinity in seconds.
    pub affinity_seconds: Option<u32>,
    /// True if only some source ranges are allowed.
    pub has_source_ranges: bool,
    /// Choice of the endpoint.
    pub choice: Choice,
    /// True if TCP packets that do not open a connection are rejected, because their endpoint has left.
    pub drains: bool,
    /// Origins to masquerade: bit 0 external, bit 1 Pods, bit 2 this node.
    pub masquerade_bits: u32,
}

impl VerdictChain {
    /// Derives the handling of a frontend from the plan. `number` identifies the Service port. A virtual server chooses the
    /// endpoints of `virtual_set`.
    pub(super) fn of(
        port: &ServicePortPlan,
        frontend: &Frontend,
        key_lookup: KeyLookup,
        number: u32,
        virtual_set: Option<EndpointSet>,
    ) -> Self {
        let choice = match port.scheduler {
            Scheduler::Random | Scheduler::LeastConnections | Scheduler::Ipvs(_) => Choice::Random,
            Scheduler::RoundRobin => Choice::RoundRobin(number),
            Scheduler::Maglev if port.is_range => Choice::ClientHash,
            Scheduler::Maglev => Choice::Hash,
        };
        let mut masquerade_bits = 0;
        let actions = Origin::ALL.map(|origin| match frontend.target(origin) {
            Target::Reject => Action::Reject,
            Target::Drop => Action::Drop,
            Target::Balance { set, masquerade } => {
                masquerade_bits |= u32::from(masquerade) << origin as u32;
                match port.backends(set).len() {
                    0 => Action::Reject,
                    _ if virtual_set == Some(set) => Action::Accept,
                    _ if matches!(choice, Choice::Hash | Choice::ClientHash) => {
                        Action::Balance(set, maglev::TABLE_SIZE)
                    }
                    count => Action::Balance(set, count as u32),
                }
            }
        });
        // A client on this node that connects to the address of a virtual server has this address, too.
        if matches!(actions, [_, _, Action::Accept]) {
            masquerade_bits |= 1 << Origin::Node as u32;
        }
        let balances = actions.iter().any(|action| matches!(action, Action::Balance(..)));
        Self {
            key_lookup,
            actions,
            affinity_seconds: port.affinity_seconds.filter(|_| balances),
            has_source_ranges: !frontend.source_ranges.is_empty(),
            choice: if balances { choice } else { Choice::Random },
            drains: balances && port.drain_seconds.is_some(),
            masquerade_bits,
        }
    }

    /// Derives the handling of echo requests at a frontend.
    pub(super) fn of_ping(frontend: &Frontend) -> Self {
        Self {
            key_lookup: KeyLookup::Ping,
            actions: Origin::ALL.map(|origin| match frontend.target(origin) {
                Target::Reject => Action::Reject,
                Target::Drop => Action::Drop,
                Target::Balance { .. } => Action::Answer,
            }),
            affinity_seconds: None,
            has_source_ranges: !frontend.source_ranges.is_empty(),
            choice: Choice::Random,
            drains: false,
            masquerade_bits: 0,
        }
    }

    /// Returns the verdict that leads to this chain.
    pub(super) fn verdict(&self) -> Verdict<String> {
        let [outside, pod, node] = self.actions;
        if !self.has_source_ranges && outside == pod && pod == node {
            return self.action_verdict(outside);
        }
        let actions = self.actions.map(action_name).join(".");
        let ranges = if self.has_source_ranges { "-ranges" } else { "" };
        Verdict::Goto(format!(
            "{}-{actions}{}{ranges}",
            self.name_prefix(),
            self.name_suffix()
        ))
    }

    /// Returns the chains that this verdict needs; each jumps only to earlier ones.
    pub(super) fn chains(&self, pods: &PodDetection) -> Vec<(Chain, Vec<Rule>)> {
        let mut chains: Vec<(Chain, Vec<Rule>)> = Vec::new();
        for action in self.actions {
            if let Action::Balance(set, count) = action {
                let chain = self.balance_chain(set, count);
                if chains.iter().all(|(known, _)| known.name != chain.0.name) {
                    chains.push(chain);
                }
            }
        }
        if let Verdict::Goto(name) = self.verdict()
            && ![REJECT, ANSWER_PING].contains(&name.as_str())
            && chains.iter().all(|(known, _)| known.name != name)
        {
            let chain = Chain {
                name,
                base: None,
                comment: "by origin".to_owned(),
            };
            chains.push((chain, self.origin_rules(pods)));
        }
        chains
    }

    fn origin_rules(&self, pods: &PodDetection) -> Vec<Rule> {
        let [outside, pod, node] = self.actions.map(|action| self.action_verdict(action));
        let mut rules = Vec::new();
        if self.has_source_ranges {
            for family in FAMILIES {
                let rule = RuleBuilder::for_family(family)
                    .match_outside_source_ranges(family, self.key_lookup)
                    .verdict(Verdict::Drop);
                rules.push(rule.comment("source ranges"));
            }
        }
        if pod != node || node != outside {
            for family in FAMILIES {
                let rule = RuleBuilder::for_family(family).match_pods(family, pods);
                rules.push(rule.verdict(pod.clone()).comment("from a Pod"));
            }
            let rule = RuleBuilder::any_family().match_local(FibAddress::Source);
            rules.push(rule.verdict(node).comment("from this node"));
        }
        rules.push(RuleBuilder::any_family().verdict(outside).finish());
        rules
    }

    /// Returns the chain that selects one of the `count` endpoints of a set.
    fn balance_chain(&self, set: EndpointSet, count: u32) -> (Chain, Vec<Rule>) {
        let mut rules = Vec::new();
        if self.drains {
            let rule = RuleBuilder::any_family().match_mid_stream_tcp().goto(REJECT);
            rules.push(rule.comment("endpoint removed"));
        }
        for family in FAMILIES {
            if let Some(seconds) = self.affinity_seconds {
                let rule =
                    RuleBuilder::for_family(family).reuse_affinity(family, self.key_lookup, set, seconds);
                rules.push(rule.comment("recorded affinity"));
                let rule = RuleBuilder::for_family(family).balance_and_record(
                    family,
                    self.key_lookup,
                    self.number(set, count),
                    seconds,
                );
                rules.push(rule.comment("new endpoint, affinity recorded"));
            }
            let rule =
                RuleBuilder::for_family(family).balance(family, self.key_lookup, self.number(set, count));
            rules.push(rule.comment(self.key_comment()));
        }
        let location = match set {
            EndpointSet::Cluster => "",
            EndpointSet::Local => " on this node",
        };
        let plural = if count == 1 { "" } else { "s" };
        let chain = Chain {
            name: self.balance_name(set, count),
            base: None,
            comment: match self.choice {
                Choice::Hash => format!("one of the endpoints{location}, by the client"),
                Choice::ClientHash => format!("one of the endpoints{location}, by the client's address"),
                Choice::RoundRobin(_) => format!("one of {count} endpoint{plural}{location}, in turn"),
                Choice::Random => format!("one of {count} endpoint{plural}{location}"),
            },
        };
        (chain, rules)
    }

    fn action_verdict(&self, action: Action) -> Verdict<String> {
        match action {
            Action::Reject => Verdict::Goto(REJECT.to_owned()),
            Action::Drop => Verdict::Drop,
            Action::Answer => Verdict::Goto(ANSWER_PING.to_owned()),
            Action::Accept => Verdict::Accept,
            Action::Balance(set, count) => Verdict::Goto(self.balance_name(set, count)),
        }
    }

    fn balance_name(&self, set: EndpointSet, count: u32) -> String {
        let action_name = action_name(Action::Balance(set, count));
        format!("{}-{action_name}{}", self.name_prefix(), self.name_suffix())
    }

    fn name_prefix(&self) -> &'static str {
        match self.key_lookup {
            KeyLookup::First => "cluster-ip",
            KeyLookup::Address => "external",
            KeyLookup::NodePort => "node-port",
            KeyLookup::Range => "range",
            KeyLookup::Ping => "ping",
        }
    }

    /// Explains a key lookup that nft cannot show.
    fn key_comment(&self) -> &'static str {
        match self.key_lookup {
            KeyLookup::First | KeyLookup::Ping => "",
            KeyLookup::Range => "the key is what service-of-range4/6 has for the destination",
            KeyLookup::Address => "the key is what service-of-address4/6 has for the destination",
            KeyLookup::NodePort => "the key is what service-of-node-port4/6 has for the port",
        }
    }

    fn number(&self, set: EndpointSet, count: u32) -> EndpointIndex {
        EndpointIndex {
            set,
            count,
            choice: self.choice,
        }
    }

    /// Returns the part of the name that stands for choice, affinity and draining.
    fn name_suffix(&self) -> String {
        let mut suffix = match self.choice {
            Choice::Random => String::new(),
            Choice::RoundRobin(number) => format!("-rr{number:08x}"),
            Choice::Hash => "-maglev".to_owned(),
            Choice::ClientHash => "-by-address".to_owned(),
        };
        if let Some(seconds) = self.affinity_seconds {
            suffix += &format!("-sticky{seconds}s");
        }
        if self.drains {
            suffix += "-drain";
        }
        suffix
    }
}

fn action_name(action: Action) -> String {
    match action {
        Action::Reject => "reject".to_owned(),
        Action::Drop => "drop".to_owned(),
        Action::Answer => "answer".to_owned(),
        Action::Accept => "accept".to_owned(),
        Action::Balance(EndpointSet::Cluster, count) => format!("cluster{count}"),
        Action::Balance(EndpointSet::Local, count) => format!("local{count}"),
    }
}
