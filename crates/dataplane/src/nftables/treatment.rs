//! Treatments: what happens to connections at a frontend, apart from which Service it is.
//!
//! Thousands of Services share a few dozen treatments: "one of 3 endpoints", "from outside one of 2 on this
//! node, else one of 5". Each has a chain, and frontends hold its code.

use netlink::nftables::{Chain, FibAddress, Rule, Verdict};
use plan::{Frontend, Origin, PodDetection, Scheduler, ServicePortPlan, Set, Target};

use super::layout::FAMILIES;
use super::rules::{Number, Writer};
use super::skeleton::REJECT;

/// How the key of a Service port is found, which is its first frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// The packet's destination is the first frontend.
    First,
    /// By the packet's destination, another address of the Service.
    Address,
    /// By the packet's destination port.
    NodePort,
}

/// What happens to connections of one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Refused.
    Reject,
    /// Dropped.
    Drop,
    /// Sent to one of so many endpoints.
    Balance(Set, u32),
}

/// How one of several endpoints is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// At random.
    #[default]
    Random,
    /// In turn. The turn is the chain's, so that each Service port has its own, named by this number.
    InTurn(u32),
    /// By a hash of the client's address and port, in a Maglev table.
    Hash,
}

/// What happens to connections at a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Treatment {
    /// How the Service port is found.
    pub entry: Entry,
    /// What happens, by origin.
    pub outcomes: [Outcome; 3],
    /// Seconds for which clients are kept.
    pub affinity_seconds: Option<u32>,
    /// Whether only some sources may come in.
    pub has_source_ranges: bool,
    /// How an endpoint is chosen.
    pub choice: Choice,
    /// Whether what is not the beginning of a TCP connection is refused: its endpoint has left.
    pub drains: bool,
    /// Who is masqueraded: bit 0 from outside, bit 1 from Pods, bit 2 from this node.
    pub masquerade_bits: u32,
}

impl Treatment {
    /// What a Service port's frontend asks for.
    pub fn of(port: &ServicePortPlan, frontend: &Frontend, entry: Entry, number: u32) -> Self {
        let choice = match port.scheduler {
            Scheduler::Random | Scheduler::LeastConnections => Choice::Random,
            Scheduler::RoundRobin => Choice::InTurn(number),
            Scheduler::Maglev => Choice::Hash,
        };
        let mut masquerade_bits = 0;
        let outcomes = Origin::ALL.map(|origin| match frontend.target(origin) {
            Target::Reject => Outcome::Reject,
            Target::Drop => Outcome::Drop,
            Target::Balance { set, masquerade } => {
                masquerade_bits |= u32::from(masquerade) << origin as u32;
                match port.backends(set).len() {
                    0 => Outcome::Reject,
                    _ if choice == Choice::Hash => Outcome::Balance(set, maglev::TABLE_SIZE),
                    count => Outcome::Balance(set, count as u32),
                }
            }
        });
        let balances = outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Balance(..)));
        Self {
            entry,
            outcomes,
            affinity_seconds: port.affinity_seconds.filter(|_| balances),
            has_source_ranges: !frontend.source_ranges.is_empty(),
            choice: if balances { choice } else { Choice::Random },
            drains: balances && port.drain_seconds.is_some(),
            masquerade_bits,
        }
    }

    /// Where packets go on.
    pub fn verdict(&self) -> Verdict<String> {
        let [outside, pod, node] = self.outcomes;
        if !self.has_source_ranges && outside == pod && pod == node {
            return self.outcome_verdict(outside);
        }
        let words = self.outcomes.map(word).join(".");
        let ranges = if self.has_source_ranges { "-ranges" } else { "" };
        Verdict::Goto(format!(
            "{}-{words}{}{ranges}",
            self.entry_word(),
            self.manner_words()
        ))
    }

    /// The chains that it needs, those that lead to others last.
    pub fn chains(&self, pods: &PodDetection) -> Vec<(Chain, Vec<Rule>)> {
        let mut chains: Vec<(Chain, Vec<Rule>)> = Vec::new();
        for outcome in self.outcomes {
            if let Outcome::Balance(set, count) = outcome {
                let chain = self.balance_chain(set, count);
                if chains.iter().all(|(known, _)| known.name != chain.0.name) {
                    chains.push(chain);
                }
            }
        }
        if let Verdict::Goto(name) = self.verdict()
            && name != REJECT
            && chains.iter().all(|(known, _)| known.name != name)
        {
            let chain = Chain {
                name,
                base: None,
                comment: "by where connections come from".to_owned(),
            };
            chains.push((chain, self.origin_rules(pods)));
        }
        chains
    }

    fn origin_rules(&self, pods: &PodDetection) -> Vec<Rule> {
        let [outside, pod, node] = self.outcomes.map(|outcome| self.outcome_verdict(outcome));
        let mut rules = Vec::new();
        if self.has_source_ranges {
            for family in FAMILIES {
                let rule = Writer::of(family)
                    .only_out_of_ranges(family)
                    .verdict(Verdict::Drop);
                rules.push(rule.comment("source ranges"));
            }
        }
        if pod != node || node != outside {
            for family in FAMILIES {
                let rule = Writer::of(family).only_from_pods(family, pods);
                rules.push(rule.verdict(pod.clone()).comment("from a Pod"));
            }
            let rule = Writer::any().only_local(FibAddress::Source);
            rules.push(rule.verdict(node).comment("from this node"));
        }
        rules.push(Writer::any().verdict(outside).done());
        rules
    }

    fn balance_chain(&self, set: Set, count: u32) -> (Chain, Vec<Rule>) {
        let mut rules = Vec::new();
        if self.drains {
            let rule = Writer::any().only_amid_tcp().goto(REJECT);
            rules.push(rule.comment("a connection whose endpoint has left"));
        }
        for family in FAMILIES {
            if let Some(seconds) = self.affinity_seconds {
                let rule = Writer::of(family).keep(family, self.entry, set, seconds);
                rules.push(rule.comment("the endpoint of last time"));
                let rule =
                    Writer::of(family).balance_and_keep(family, self.entry, self.number(set, count), seconds);
                rules.push(rule.comment("another one, remembered"));
            }
            let rule = Writer::of(family).balance(family, self.entry, self.number(set, count));
            rules.push(rule.comment(self.key_comment()));
        }
        let place = match set {
            Set::Cluster => "",
            Set::Local => " on this node",
        };
        let plural = if count == 1 { "" } else { "s" };
        let chain = Chain {
            name: self.balance_name(set, count),
            base: None,
            comment: match self.choice {
                Choice::Hash => format!("one of the endpoints{place}, by the client"),
                Choice::InTurn(_) => format!("one of {count} endpoint{plural}{place}, in turn"),
                Choice::Random => format!("one of {count} endpoint{plural}{place}"),
            },
        };
        (chain, rules)
    }

    fn outcome_verdict(&self, outcome: Outcome) -> Verdict<String> {
        match outcome {
            Outcome::Reject => Verdict::Goto(REJECT.to_owned()),
            Outcome::Drop => Verdict::Drop,
            Outcome::Balance(set, count) => Verdict::Goto(self.balance_name(set, count)),
        }
    }

    fn balance_name(&self, set: Set, count: u32) -> String {
        let word = word(Outcome::Balance(set, count));
        format!("{}-{word}{}", self.entry_word(), self.manner_words())
    }

    fn entry_word(&self) -> &'static str {
        match self.entry {
            Entry::First => "cluster-ip",
            Entry::Address => "external",
            Entry::NodePort => "node-port",
        }
    }

    /// What nft does not show of a rule.
    fn key_comment(&self) -> &'static str {
        match self.entry {
            Entry::First => "",
            Entry::Address => "the key is what service-of-address4/6 has for the destination",
            Entry::NodePort => "the key is what service-of-node-port4/6 has for the port",
        }
    }

    fn number(&self, set: Set, count: u32) -> Number {
        Number {
            set,
            count,
            choice: self.choice,
        }
    }

    /// How connections are balanced, where that is not the usual way.
    fn manner_words(&self) -> String {
        let mut words = match self.choice {
            Choice::Random => String::new(),
            Choice::InTurn(number) => format!("-rr{number:08x}"),
            Choice::Hash => "-maglev".to_owned(),
        };
        if let Some(seconds) = self.affinity_seconds {
            words += &format!("-sticky{seconds}s");
        }
        if self.drains {
            words += "-drain";
        }
        words
    }
}

fn word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Reject => "reject".to_owned(),
        Outcome::Drop => "drop".to_owned(),
        Outcome::Balance(Set::Cluster, count) => format!("cluster{count}"),
        Outcome::Balance(Set::Local, count) => format!("local{count}"),
    }
}
