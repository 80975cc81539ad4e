//! Decisions of the plans of nodes about the first packet of a connection.

use std::net::IpAddr;

use api::object::Protocol;
use plan::{Decision, Family, Origin, Packet, Plan, PortKey, Verdict as PlanVerdict};

use super::client::{Client, ClientKind};
use super::endpoints::unpublished_endpoints;
use super::explanation::FrontendDecision;
use super::node_settings::{ClusterSettings, PlanNode, ProxySettings};
use super::objects::Objects;
use super::ping;
use super::report::{Path, Step, StepKind, Verdict};
use super::route;
use crate::views::Service;
use crate::world::World;

/// A connection to addresses.
pub(super) struct Connection<'a> {
    /// Objects of the cluster.
    pub world: &'a World,
    /// Client.
    pub client: &'a Client,
    /// Port of the destination.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// True for echo requests, which have no port and no protocol.
    pub is_ping: bool,
    /// Service of the name of the destination.
    pub named: Option<&'a (String, String)>,
    /// Settings of the proxies.
    pub proxy: &'a ProxySettings,
}

/// Nodes whose plans decide, with the reason.
#[derive(Clone, Debug)]
pub(super) struct DecidingNodes {
    /// Nodes; never empty.
    pub nodes: Vec<PlanNode>,
    /// Reason why these nodes decide.
    pub reason: Step,
}

/// Everything that a path depends on besides the name of its node.
#[derive(PartialEq)]
struct Fingerprint {
    verdict: PlanVerdict,
    frontend: Option<(PortKey, Option<IpAddr>)>,
    origin: Origin,
    zone: Option<String>,
    is_known: bool,
    /// Node that receives the packet from the deciding one.
    next_node: Option<String>,
}

impl Fingerprint {
    /// Returns the fingerprint of a decision at a node. `next` is the node that receives the packet from the deciding
    /// one.
    fn of(decision: &Decision<'_>, node: &PlanNode, next: Option<&PlanNode>) -> Self {
        Self {
            verdict: decision.verdict.clone(),
            frontend: decision
                .frontend
                .map(|(port, frontend)| (port.key.clone(), frontend.address)),
            origin: decision.origin,
            zone: node.facts.zone.clone(),
            is_known: node.is_known || node.name.is_empty(),
            next_node: next.map(|next| next.name.clone()),
        }
    }
}

impl Connection<'_> {
    /// Returns the paths to all addresses.
    pub(super) fn paths(&self, addresses: &[IpAddr], deciding_nodes: &DecidingNodes) -> Vec<Path> {
        let objects = Objects::find(self.world, addresses, self.port, self.named);
        let settings = ClusterSettings::read(self.world, self.proxy);
        let plans: Vec<(&PlanNode, Plan)> = deciding_nodes
            .nodes
            .iter()
            // Without a Service, all nodes decide alike.
            .take(if objects.is_empty() { 1 } else { usize::MAX })
            .map(|node| (node, plan_with_objects(&settings, &objects, node)))
            .collect();
        let mut paths: Vec<Path> = Vec::new();
        for address in addresses {
            let Some(source) = self.client.address_of(Family::of(*address)) else {
                paths.push(route::path_without_source(*address, &self.client.to_string()));
                continue;
            };
            let packet = Packet {
                source,
                destination: *address,
                port: self.port,
                protocol: self.protocol,
                interface: self.proxy.interface,
            };
            let first = paths.len();
            let mut seen: Vec<Fingerprint> = Vec::new();
            for (node, plan) in &plans {
                let (fingerprint, path) =
                    self.path(&objects, &settings, deciding_nodes, node, plan, &packet, &seen);
                match (seen.iter().position(|known| *known == fingerprint), path) {
                    (Some(index), _) => {
                        if let Some(same) = paths.get_mut(first + index) {
                            same.nodes.push(node.name.clone());
                        }
                    }
                    (None, Some(path)) => {
                        seen.push(fingerprint);
                        paths.push(path);
                    }
                    (None, None) => {}
                }
            }
        }
        if objects.is_empty() {
            for path in paths.iter_mut().filter(|path| !path.nodes.is_empty()) {
                path.nodes = deciding_nodes
                    .nodes
                    .iter()
                    .map(|node| node.name.clone())
                    .collect();
            }
        }
        for path in &mut paths {
            path.nodes.retain(|name| !name.is_empty());
        }
        self.join(paths)
    }

    /// Decides at a node. The path is absent if another node has decided alike.
    fn path(
        &self,
        objects: &Objects<'_>,
        settings: &ClusterSettings,
        deciding_nodes: &DecidingNodes,
        node: &PlanNode,
        plan: &Plan,
        packet: &Packet,
        seen: &[Fingerprint],
    ) -> (Fingerprint, Option<Path>) {
        if self.is_ping {
            return self.ping_path(deciding_nodes, node, plan, packet, seen);
        }
        let decision = plan.decide(packet);
        let next = match decision.verdict {
            PlanVerdict::NotAService => self.next_node(node, packet.destination),
            _ => None,
        };
        // The plan of the receiving node decides about a node port.
        let next_plan = next
            .as_ref()
            .map(|next| plan_with_objects(settings, objects, next));
        let next_packet = Packet {
            interface: None,
            ..*packet
        };
        let (at, plan, packet, decision) = match (&next, &next_plan) {
            (Some(next), Some(plan)) => (next, plan, &next_packet, plan.decide(&next_packet)),
            _ => (node, plan, packet, decision),
        };
        let fingerprint = Fingerprint::of(&decision, at, next.as_ref());
        if seen.contains(&fingerprint) {
            return (fingerprint, None);
        }
        let mut path = path_without_decision(node, deciding_nodes, packet);
        if let Some(next) = &next {
            path.steps.push(self.hop(next));
        }
        path.steps.extend(unknown_node(at));
        path.steps
            .extend(objects.unreadable.iter().map(route::unreadable_object));
        let frontend_decision = FrontendDecision {
            objects,
            plan,
            node: at,
            packet,
            decision: &decision,
        };
        if !frontend_decision.explain(&mut path) {
            route::explain(
                objects,
                packet,
                &decision.verdict,
                self.named_service(),
                &mut path,
            );
        }
        (fingerprint, Some(path))
    }

    /// Decides about an echo request at a node.
    fn ping_path(
        &self,
        deciding_nodes: &DecidingNodes,
        node: &PlanNode,
        plan: &Plan,
        packet: &Packet,
        seen: &[Fingerprint],
    ) -> (Fingerprint, Option<Path>) {
        let decision = plan.decide_ping(packet.source, packet.destination, packet.interface);
        let fingerprint = Fingerprint {
            verdict: decision.verdict.clone(),
            frontend: None,
            origin: decision.origin,
            zone: None,
            is_known: node.is_known || node.name.is_empty(),
            next_node: None,
        };
        let is_new = !seen.contains(&fingerprint);
        let path = is_new.then(|| ping::path(&node.name, deciding_nodes.reason.clone(), packet, &decision));
        (fingerprint, path)
    }

    fn named_service(&self) -> Option<Service<'_>> {
        let (namespace, name) = self.named?;
        self.world.service(namespace, name)
    }

    /// Returns the other node that has the address of the destination, unless the packet comes from outside.
    fn next_node(&self, node: &PlanNode, destination: IpAddr) -> Option<PlanNode> {
        let is_inside = self.client.kind != ClientKind::Outside;
        let mut nodes = self.world.nodes();
        let next = nodes.find(|next| next.ips().contains(&destination))?;
        (is_inside && next.name != node.name).then(|| PlanNode::named(self.world, &next.name))
    }

    fn hop(&self, next: &PlanNode) -> Step {
        let client = match self.client.kind {
            ClientKind::Pod => "; a network plugin may have replaced the address of the Pod before",
            ClientKind::Node | ClientKind::Outside => "",
        };
        let text = format!(
            "the destination is node {}, whose plan decides{client}",
            next.name
        );
        let step = Step::new(StepKind::Node, text);
        match self.world.node(&next.name) {
            Some(node) => step.by(node.0, "status.addresses"),
            None => step,
        }
    }

    /// Joins the paths to the Pods of a headless Service, one for each family.
    fn join(&self, paths: Vec<Path>) -> Vec<Path> {
        let Some(service) = self.named_service().filter(|service| service.is_headless()) else {
            return paths;
        };
        let mut joined: Vec<Path> = Vec::new();
        for path in paths {
            let kinds = |path: &Path| -> Vec<(StepKind, String)> {
                let steps = path.steps.iter();
                steps.map(|step| (step.step, step.result.clone())).collect()
            };
            let is_alike = |other: &&mut Path| {
                other.nodes == path.nodes
                    && other.verdict == path.verdict
                    && other.source == path.source
                    && kinds(other) == kinds(&path)
            };
            match joined.iter_mut().find(is_alike) {
                Some(same) => {
                    same.addresses.extend(path.addresses);
                    same.endpoints.extend(path.endpoints);
                }
                None => joined.push(path),
            }
        }
        for path in &mut joined {
            let chance = 1.0 / path.endpoints.len().max(1) as f64;
            path.endpoints
                .iter_mut()
                .for_each(|endpoint| endpoint.chance = chance);
            if let Some(address) = path.addresses.first() {
                path.excluded = unpublished_endpoints(self.world, service, Family::of(*address));
            }
            if path.verdict == Verdict::Reaches {
                let plural = if path.endpoints.len() == 1 { "" } else { "s" };
                path.reason = format!(
                    "{} endpoint{plural} of headless Service {}/{}",
                    path.endpoints.len(),
                    service.namespace,
                    service.name
                );
            }
        }
        joined
    }
}

fn plan_with_objects(settings: &ClusterSettings, objects: &Objects<'_>, node: &PlanNode) -> Plan {
    let mut plan = settings.plan(node);
    objects.fill(&mut plan);
    plan
}

/// Returns the step that reports a named node without a Node object.
fn unknown_node(node: &PlanNode) -> Option<Step> {
    if node.is_known || node.name.is_empty() {
        return None;
    }
    let text = format!(
        "the input has no Node {}: its zone and addresses are unknown",
        node.name
    );
    Some(Step::new(StepKind::Node, text))
}

/// Returns the path of a packet that a node decides about, before the decision.
fn path_without_decision(node: &PlanNode, deciding_nodes: &DecidingNodes, packet: &Packet) -> Path {
    Path {
        nodes: vec![node.name.clone()],
        addresses: vec![packet.destination],
        source: Some(packet.source),
        steps: vec![deciding_nodes.reason.clone()],
        endpoints: Vec::new(),
        excluded: Vec::new(),
        affinity_seconds: None,
        verdict: Verdict::NotAService,
        reason: String::new(),
    }
}
