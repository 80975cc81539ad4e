//! Rules of one Service (IPT-02 … IPT-05): its own chains, and its rules in shared chains.
//!
//! Rules of port ranges follow those of all Service ports in a shared chain, because a port precedes a range. An endpoint
//! of a range gets the port of the client, and a hash of the client's address selects it.

use std::collections::HashSet;
use std::net::IpAddr;

use api::object::ObjectKey;
use plan::{Backend, EndpointSet, Frontend, FrontendKind, Origin, Plan, ServicePortPlan, Target};

use super::context::Context;
use super::names::{ChainName, Kind, MARK_MASQ, MARK_OFF_CLUSTER, REJECT, SharedChain, identity};
use super::ping;
use super::rule::{Rule, reject};

/// Rules of one Service in one IP family.
#[derive(Debug, Default)]
pub(super) struct ServiceRules {
    /// Own chains in table `nat`. A chain precedes the chains that jump to it.
    pub chains: Vec<(ChainName, Vec<String>)>,
    /// Rules in shared chains, indexed by [`SharedChain`].
    pub shared: [Vec<String>; SharedChain::ALL.len()],
    /// Rules in shared chains that follow the rules of all Service ports, indexed by [`SharedChain`].
    pub last: [Vec<String>; SharedChain::ALL.len()],
    /// Names of the chains of endpoints.
    endpoints: HashSet<ChainName>,
}

/// Rules of a Service that are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// All rules.
    All,
    /// All rules but those of port ranges, which this host refuses.
    WithoutRanges,
}

impl ServiceRules {
    /// Builds the rules of a Service.
    pub(super) fn new(plan: &Plan, service: &ObjectKey, context: &Context, parts: Parts) -> Self {
        Self::write(plan, service, context, parts, true)
    }

    /// Builds the rules in shared chains only.
    pub(super) fn shared(plan: &Plan, service: &ObjectKey, context: &Context, parts: Parts) -> Self {
        Self::write(plan, service, context, parts, false)
    }

    /// Returns the rules of a Service in one family.
    fn write(plan: &Plan, service: &ObjectKey, context: &Context, parts: Parts, with_chains: bool) -> Self {
        let mut rules = Self::default();
        let mut cluster_ips: Vec<IpAddr> = Vec::new();
        ping::write(plan, service, context, &mut rules);
        let ranges = plan.ranges_of(service).filter(|_| parts == Parts::All);
        let ports = plan.ports_of(service).chain(ranges);
        for port in ports.filter(|port| port.key.family == context.family) {
            let mut writer = PortWriter {
                port,
                context,
                name: identity(&port.key),
                rules: &mut rules,
            };
            if with_chains {
                writer.write_chains();
            }
            writer.write_shared();
            let own = port
                .frontends
                .iter()
                .filter(|frontend| frontend.kind == FrontendKind::ClusterIp);
            cluster_ips.extend(own.filter_map(|frontend| frontend.address));
        }
        cluster_ips.dedup();
        for ip in cluster_ips {
            let in_range = context.service_cidrs.iter().any(|net| net.contains(&ip));
            let chain = if in_range {
                SharedChain::ClusterIps
            } else {
                SharedChain::FilterServices
            };
            let comment = format!("{service} has no such port");
            let rule = Rule::new().to(ip).comment(&comment).jump(REJECT);
            if rules.last[chain as usize].is_empty() {
                rules.push(chain, rule);
            } else {
                // The rules of ranges precede.
                rules.last[chain as usize].push(rule);
            }
        }
        rules
    }

    /// Adds a rule to a shared chain.
    pub(super) fn push(&mut self, chain: SharedChain, rule: String) {
        self.shared[chain as usize].push(rule);
    }
}

/// Writer of the rules of a Service port.
struct PortWriter<'a> {
    port: &'a ServicePortPlan,
    context: &'a Context,
    /// Name in comments.
    name: String,
    rules: &'a mut ServiceRules,
}

impl PortWriter<'_> {
    fn write_chains(&mut self) {
        for set in [EndpointSet::Cluster, EndpointSet::Local] {
            if self
                .port
                .frontends
                .iter()
                .any(|frontend| balances_to(frontend, set))
            {
                self.write_set(set);
            }
        }
        // All frontends but the cluster IP have the same rules.
        let external = self
            .port
            .frontends
            .iter()
            .find(|frontend| frontend.kind != FrontendKind::ClusterIp && balances(frontend));
        if let Some(external) = external {
            let rules = self.external_rules(external);
            self.rules.chains.push((self.chain(Kind::External), rules));
            self.write_firewall();
        }
    }

    fn write_shared(&mut self) {
        for frontend in &self.port.frontends {
            if balances(frontend) {
                self.dispatch(frontend);
            }
            self.refuse(frontend);
        }
    }

    /// Writes the chain that balances over a set, after the chains of its endpoints. Endpoints in both sets are
    /// written once.
    fn write_set(&mut self, set: EndpointSet) {
        let backends = self.port.backends(set);
        let mut balance = self.masquerade_rules(set);
        let targets: Vec<ChainName> = backends
            .iter()
            .map(|backend| ChainName::of_endpoint(&self.port.key, backend))
            .collect();
        if let Some(seconds) = self.port.affinity_seconds {
            for (backend, target) in backends.iter().zip(&targets) {
                let rule = Rule::new().comment(&format!("{} -> {}", self.name, self.target(backend)));
                balance.push(
                    rule.match_recent(target, seconds, self.context.family)
                        .jump(target),
                );
            }
        }
        for (index, (backend, target)) in backends.iter().zip(&targets).enumerate() {
            let mut rule = Rule::new().comment(&format!("{} -> {}", self.name, self.target(backend)));
            let left = backends.len() - index;
            if left > 1 && self.port.is_range {
                let name = backend.address.ip().to_string();
                rule = rule.one_source_in(left, maglev::hash(name.as_bytes()));
            } else if left > 1 {
                rule = rule.one_in(left);
            }
            balance.push(rule.jump(target));
        }
        for (backend, target) in backends.iter().zip(&targets) {
            if !self.rules.endpoints.insert(*target) {
                continue;
            }
            let protocol = self.port.key.protocol;
            let mut rules = Vec::with_capacity(2);
            if backend.can_be_local {
                let hairpin = Rule::new().source(backend.address.ip().into());
                rules.push(hairpin.comment(&self.name).jump(MARK_MASQ));
            }
            let mut rule = Rule::new().protocol(protocol).comment(&self.name);
            if self.port.affinity_seconds.is_some() {
                rule = rule.update_recent(target, self.context.family);
            }
            let rule = rule.matching(super::rule::protocol_name(protocol));
            rules.push(rule.jump(format_args!("DNAT --to-destination {}", self.target(backend))));
            self.rules.chains.push((*target, rules));
        }
        self.rules.chains.push((self.chain(kind_of(set)), balance));
    }

    /// Returns the destination that an endpoint's chain writes. A range keeps the port of the packet.
    fn target(&self, backend: &Backend) -> String {
        if self.port.is_range {
            backend.address.ip().to_string()
        } else {
            backend.address.to_string()
        }
    }

    /// Adds a rule to a shared chain.
    fn push(&mut self, chain: SharedChain, rule: String) {
        if self.port.is_range {
            self.rules.last[chain as usize].push(rule);
        } else {
            self.rules.push(chain, rule);
        }
    }

    /// Returns the rules that masquerade connections by cluster IP (EPT-14) to this set. A plan masquerades all of
    /// them, none, or all but those of Pods.
    fn masquerade_rules(&self, set: EndpointSet) -> Vec<String> {
        let cluster_ips = self
            .port
            .frontends
            .iter()
            .filter(|frontend| frontend.kind == FrontendKind::ClusterIp && balances_to(frontend, set));
        let mut rules = Vec::new();
        for frontend in cluster_ips {
            let at = |rule| self.at(rule, frontend, " cluster IP");
            if is_masqueraded(frontend, Origin::Pod) {
                rules.push(at(Rule::new()).jump(MARK_MASQ));
            } else if is_masqueraded(frontend, Origin::Outside) {
                rules.push(match &*self.context.pods {
                    [pods] => at(Rule::new().not_from_pods(pods)).jump(MARK_MASQ),
                    _ => at(Rule::new()).jump(MARK_OFF_CLUSTER),
                });
            }
        }
        rules
    }

    /// Returns the rules that distinguish Pods, this node and other clients, if their handling differs (EPT-08,
    /// EPT-13, EPT-16, EPT-17).
    fn external_rules(&self, frontend: &Frontend) -> Vec<String> {
        let [outside, pod, node] = frontend.targets;
        let traffic = format!("traffic for {} external destinations", self.name);
        let mut rules = Vec::new();
        if outside != pod || pod != node {
            for pods in &self.context.pods {
                let rule = Rule::new().from_pods(pods).comment(&format!("pod {traffic}"));
                self.route(&rule, pod, &mut rules);
            }
            let rule = Rule::new().comment(&format!("LOCAL {traffic}")).from_node();
            self.route(&rule, node, &mut rules);
        }
        if let Target::Balance { masquerade: true, .. } = outside {
            let comment = format!("masquerade {traffic}");
            rules.push(Rule::new().comment(&comment).jump(MARK_MASQ));
        }
        if let Target::Balance { set, .. } = outside {
            rules.push(Rule::new().jump(self.chain(kind_of(set))));
        }
        rules
    }

    fn route(&self, rule: &Rule, target: Target, rules: &mut Vec<String>) {
        match target {
            Target::Balance { set, masquerade } => {
                if masquerade {
                    rules.push(rule.clone().jump(MARK_MASQ));
                }
                rules.push(rule.clone().jump(self.chain(kind_of(set))));
            }
            Target::Reject | Target::Drop => rules.push(rule.clone().jump("RETURN")),
        }
    }

    /// Writes the chain that admits source ranges (EPT-19).
    fn write_firewall(&mut self) {
        let ranged: Vec<&Frontend> = self
            .port
            .frontends
            .iter()
            .filter(|frontend| !frontend.source_ranges.is_empty())
            .collect();
        let mut rules: Vec<String> = Vec::new();
        for frontend in &ranged {
            for range in &frontend.source_ranges {
                let mut rule = Rule::new().source(*range);
                if let Some(address) = frontend.address
                    && ranged.iter().any(|other| !other.source_ranges.contains(range))
                {
                    rule = rule.to(address);
                }
                let comment = format!("{} loadbalancer IP", self.name);
                let rule = rule.comment(&comment).jump(self.chain(Kind::External));
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        if !rules.is_empty() {
            self.rules.chains.push((self.chain(Kind::Firewall), rules));
        }
    }

    /// Writes the rules that lead from a frontend to its chain.
    fn dispatch(&mut self, frontend: &Frontend) {
        let chain = match frontend.kind {
            FrontendKind::NodePort => SharedChain::NodePorts,
            _ => SharedChain::Services,
        };
        let rule = match frontend.kind {
            FrontendKind::ClusterIp => {
                let set = [EndpointSet::Cluster, EndpointSet::Local]
                    .into_iter()
                    .find(|set| balances_to(frontend, *set));
                let kind = kind_of(set.unwrap_or(EndpointSet::Cluster));
                self.at(Rule::new(), frontend, " cluster IP")
                    .jump(self.chain(kind))
            }
            FrontendKind::ExternalIp => self
                .at(Rule::new(), frontend, " external IP")
                .jump(self.chain(Kind::External)),
            FrontendKind::NodePort => self
                .at(Rule::new(), frontend, "")
                .jump(self.chain(Kind::External)),
            FrontendKind::LoadBalancerIp if frontend.source_ranges.is_empty() => self
                .at(Rule::new(), frontend, " loadbalancer IP")
                .jump(self.chain(Kind::External)),
            FrontendKind::LoadBalancerIp => {
                let firewall = self.chain(Kind::Firewall);
                let comment = format!(" traffic not accepted by {firewall}");
                let drop = self.at(Rule::new(), frontend, &comment).jump("DROP");
                // The verdicts of ports without endpoints precede that of a range.
                let refused_in = if self.port.is_range {
                    SharedChain::ExternalServices
                } else {
                    SharedChain::ProxyFirewall
                };
                self.push(refused_in, drop);
                // A rejected client must not match a node port with the same number.
                self.at(Rule::new(), frontend, " loadbalancer IP").goto(firewall)
            }
        };
        self.push(chain, rule);
    }

    /// Writes the rules that reject or drop connections without an endpoint (EPT-07, EPT-08, EPT-09).
    fn refuse(&mut self, frontend: &Frontend) {
        let protocol = self.port.key.protocol;
        let refusal = frontend
            .targets
            .into_iter()
            .find(|target| !matches!(target, Target::Balance { .. }));
        let (comment, verdict) = match refusal {
            Some(Target::Reject) => (" has no endpoints", reject(Some(protocol), self.context.family)),
            Some(Target::Drop) => (" has no local endpoints", "DROP"),
            Some(Target::Balance { .. }) | None => return,
        };
        let chain = match frontend.kind {
            FrontendKind::ClusterIp => SharedChain::FilterServices,
            _ => SharedChain::ExternalServices,
        };
        if frontend.kind == FrontendKind::NodePort {
            let context = self.context;
            for at in &context.node_ports {
                let rule = at.rule(context.family).protocol(protocol);
                let rule = at.check(rule.comment(&format!("{}{comment}", self.name)));
                self.push(chain, rule.port(protocol, frontend.port).jump(verdict));
            }
            return;
        }
        if !balances(frontend) {
            // These packets must not match a port range, or a node port with the same number.
            let rule = self.at(Rule::new(), frontend, comment).jump("RETURN");
            self.push(SharedChain::Services, rule);
        }
        if frontend.source_ranges.is_empty() {
            let rule = self.at(Rule::new(), frontend, comment).jump(verdict);
            self.push(chain, rule);
        } else if !balances(frontend) {
            for range in &frontend.source_ranges {
                let rule = self.at(Rule::new().source(*range), frontend, comment);
                self.push(chain, rule.jump(verdict));
            }
            let rule = self.at(Rule::new(), frontend, " is not open to this source");
            self.push(chain, rule.jump("DROP"));
        }
    }

    /// Appends the match of a frontend to a rule.
    fn at(&self, rule: Rule, frontend: &Frontend, comment: &str) -> Rule {
        let protocol = self.port.key.protocol;
        let rule = match frontend.address {
            Some(address) => rule.to(address),
            None => rule,
        };
        rule.protocol(protocol)
            .comment(&format!("{}{comment}", self.name))
            .ports(protocol, frontend.port, frontend.last_port)
    }

    fn chain(&self, kind: Kind) -> ChainName {
        ChainName::of_port(kind, &self.port.key)
    }
}

fn kind_of(set: EndpointSet) -> Kind {
    match set {
        EndpointSet::Cluster => Kind::Cluster,
        EndpointSet::Local => Kind::Local,
    }
}

fn balances(frontend: &Frontend) -> bool {
    balances_to(frontend, EndpointSet::Cluster) || balances_to(frontend, EndpointSet::Local)
}

fn balances_to(frontend: &Frontend, set: EndpointSet) -> bool {
    let targets_set = |target: &Target| matches!(target, Target::Balance { set: to, .. } if *to == set);
    frontend.targets.iter().any(targets_set)
}

fn is_masqueraded(frontend: &Frontend, origin: Origin) -> bool {
    matches!(frontend.target(origin), Target::Balance { masquerade: true, .. })
}
