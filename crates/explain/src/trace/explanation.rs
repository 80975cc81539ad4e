//! Reasons for the decision of a plan about a frontend, with objects and fields.

use std::net::SocketAddr;

use plan::{
    Decision, EndpointSet, Fault, Frontend, FrontendKind, Origin, Packet, Plan, Scheduler, ServicePortPlan,
    Target, Verdict as PlanVerdict,
};

use super::endpoints::{
    Candidate, Restriction, candidates, chosen_endpoints, counted_endpoints, excluded_endpoints,
};
use super::node_settings::PlanNode;
use super::objects::{Objects, read_address};
use super::report::{ChosenEndpoint, Path, Step, StepKind, Verdict, port_ranges_field};
use crate::views::Service;

/// Annotation with the scheduler of connections.
const SCHEDULER_ANNOTATION: &str = "service.portolan.dev/scheduler";
/// Annotations that request hints.
const TOPOLOGY_ANNOTATIONS: [&str; 2] = [
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
];

/// Decision about a frontend of a Service.
pub(super) struct FrontendDecision<'a> {
    /// Objects of the destination.
    pub objects: &'a Objects<'a>,
    /// Plan that decided.
    pub plan: &'a Plan,
    /// Node of the plan.
    pub node: &'a PlanNode,
    /// Packet.
    pub packet: &'a Packet,
    /// Decision of the plan.
    pub decision: &'a Decision<'a>,
}

impl FrontendDecision<'_> {
    /// Completes a path with the reasons for the decision. Returns false if no frontend has the destination.
    pub(super) fn explain(&self, path: &mut Path) -> bool {
        let Some((port, frontend)) = self.decision.frontend else {
            return false;
        };
        let Some(service) = self.objects.service(&port.key.service) else {
            return false;
        };
        path.steps.push(self.frontend(service, port, frontend));
        path.steps.extend(self.conflict(service, frontend));
        path.steps.extend(self.source_ranges(service, frontend));
        let (verdict, reason) = verdict(&self.decision.verdict, service, frontend);
        path.verdict = verdict;
        path.reason = reason;
        if self.decision.verdict == PlanVerdict::OutOfSourceRanges {
            return true;
        }
        let set = match &self.decision.verdict {
            PlanVerdict::Balanced { set, .. } => *set,
            PlanVerdict::NoLocalEndpoints => EndpointSet::Local,
            _ => EndpointSet::Cluster,
        };
        let restriction = Restriction {
            node: self.node,
            set,
            kind: frontend.kind,
            service,
        };
        let range_port = port.is_range.then_some(self.packet.port);
        let found = candidates(self.objects, &port.key, range_port);
        path.steps.push(self.traffic_policy(service, &restriction));
        if let PlanVerdict::Balanced {
            choices,
            affinity_seconds,
            ..
        } = &self.decision.verdict
        {
            path.endpoints = chosen_endpoints(self.objects, &port.key, &found, choices);
            path.affinity_seconds = *affinity_seconds;
            if set == EndpointSet::Cluster {
                path.steps.extend(self.topology(service, &found, choices.len()));
            }
            path.steps.extend(scheduler(service, port));
            path.steps.extend(affinity(service, *affinity_seconds));
            path.steps
                .push(self.masquerade(service, frontend, &path.endpoints));
        }
        path.excluded = excluded_endpoints(&found, &path.endpoints, &restriction);
        true
    }

    /// Returns the step that names the Service and the field of the frontend.
    fn frontend(&self, service: Service<'_>, port: &ServicePortPlan, frontend: &Frontend) -> Step {
        let address = self.packet.destination;
        let ports = service.ports();
        let protocol = port.key.protocol.as_str();
        let own = ports
            .iter()
            .find(|own| own.name == &*port.key.port && own.protocol == protocol);
        let index_of = |list: &str, pointer: &str| {
            let entries = service.list(list).iter();
            let mut texts = entries.map(|entry| entry.pointer(pointer).and_then(|value| value.as_str()));
            let is_address = |text: Option<&str>| text.and_then(read_address) == Some(address);
            texts.position(is_address).unwrap_or(0)
        };
        let (kind, field) = match frontend.kind {
            FrontendKind::ClusterIp => ("cluster IP", "spec.clusterIPs".to_owned()),
            FrontendKind::ExternalIp => {
                let index = index_of("/spec/externalIPs", "");
                ("external IP", format!("spec.externalIPs[{index}]"))
            }
            FrontendKind::LoadBalancerIp => {
                let index = index_of("/status/loadBalancer/ingress", "/ip");
                let field = format!("status.loadBalancer.ingress[{index}].ip");
                ("load balancer IP", field)
            }
            FrontendKind::NodePort => {
                let field = own.map_or_else(String::new, |own| own.field("nodePort"));
                ("node port", field)
            }
        };
        let at = match frontend.address {
            Some(address) if port.is_range => {
                let (first, last) = (frontend.port, frontend.last_port);
                format!("{address}, port range {first}-{last}")
            }
            Some(address) => SocketAddr::new(address, frontend.port).to_string(),
            None => frontend.port.to_string(),
        };
        let name = match &*port.key.port {
            _ if port.is_range => String::new(),
            "" => String::new(),
            name => format!(", port {name:?}"),
        };
        let key = &port.key.service;
        Step::new(
            StepKind::Frontend,
            format!("{kind} {at} of Service {key}{name}, {protocol}"),
        )
        .by(service.0, field)
    }

    /// The Service of the name claims the frontend, and another one owns it; or another one waits for it.
    fn conflict(&self, owner: Service<'_>, frontend: &Frontend) -> Option<Step> {
        let is_here = |fault: &Fault| {
            matches!(fault, Fault::Conflict { address, port, protocol, .. }
                if *address == frontend.address && *port == frontend.port && *protocol == self.packet.protocol)
        };
        let mut others = self.plan.faults().filter(|(_, fault)| is_here(fault));
        let (other, _) = others.next()?;
        let other = self.objects.service(other)?;
        let is_same = other.namespace == owner.namespace && other.name == owner.name;
        let text = if is_same {
            "another port of the Service claims the same frontend".to_owned()
        } else {
            format!(
                "Service {}/{} claims the same frontend; Service {}/{} is older and owns it",
                other.namespace, other.name, owner.namespace, owner.name
            )
        };
        Some(Step::new(StepKind::Conflict, text).by(other.0, "spec.ports"))
    }

    fn source_ranges(&self, service: Service<'_>, frontend: &Frontend) -> Option<Step> {
        if frontend.source_ranges.is_empty() {
            return None;
        }
        let source = self.packet.source;
        let admitting = frontend
            .source_ranges
            .iter()
            .find(|range| range.contains(&source));
        let text = match admitting {
            Some(range) => format!("{range} admits {source}"),
            None => format!("no range admits {source}"),
        };
        Some(Step::new(StepKind::SourceRanges, text).by(service.0, "spec.loadBalancerSourceRanges"))
    }

    fn traffic_policy(&self, service: Service<'_>, restriction: &Restriction<'_>) -> Step {
        let policy = restriction.policy();
        let is_local = service.text(&format!("/spec/{policy}")) == "Local";
        let text = match (is_local, restriction.set, self.decision.origin) {
            (true, EndpointSet::Local, _) => format!("{policy} Local: endpoints of this node only"),
            (true, EndpointSet::Cluster, Origin::Pod) => {
                format!("{policy} Local does not restrict Pods: endpoints of all nodes")
            }
            (true, EndpointSet::Cluster, _) => {
                format!("{policy} Local does not restrict the node itself: endpoints of all nodes")
            }
            (false, ..) => format!("{policy} Cluster: endpoints of all nodes"),
        };
        Step::new(StepKind::TrafficPolicy, text).by(service.0, format!("spec.{policy}"))
    }

    /// Returns the kind of hints that restricts the endpoints, or the reason why hints have no effect (EPT-04).
    fn topology(&self, service: Service<'_>, found: &[Candidate<'_>], choices: usize) -> Option<Step> {
        let ready: Vec<&Candidate<'_>> = counted_endpoints(found)
            .into_values()
            .filter(|candidate| candidate.is_ready())
            .collect();
        let has_zone = |candidate: &Candidate<'_>| candidate.zone_hints().next().is_some();
        let has_node = |candidate: &Candidate<'_>| candidate.node_hints().next().is_some();
        let hinted = ready
            .iter()
            .filter(|candidate| has_zone(candidate) || has_node(candidate));
        if hinted.count() == 0 {
            return None;
        }
        let name = self.node.name.as_str();
        let hinted_to_node = ready
            .iter()
            .filter(|candidate| candidate.node_hints().any(|node| node == name));
        if ready.iter().all(|candidate| has_node(candidate)) && hinted_to_node.count() > 0 {
            let text = format!("hints restrict the endpoints to {choices} for this node");
            return Some(self.by_topology_field(service, Step::new(StepKind::Topology, text)));
        }
        let without = ready.iter().find(|candidate| !has_zone(candidate));
        let zone = self.node.facts.zone.as_deref();
        let hinted_to_zone = ready
            .iter()
            .filter(|candidate| candidate.zone_hints().any(|hint| Some(hint) == zone));
        let count = hinted_to_zone.count();
        let step = |text: String| Step::new(StepKind::Topology, text);
        Some(match (without, zone) {
            (Some(candidate), _) => {
                let mut step = step("an endpoint has no zone hint, so hints have no effect".to_owned());
                step.object = Some(candidate.slice_name());
                step.field = "endpoints[].hints.forZones".to_owned();
                step
            }
            (None, None) => step("the node has no zone, so hints have no effect".to_owned()),
            (None, Some(zone)) if count == 0 => {
                step(format!("no hint is for zone {zone}, so hints have no effect"))
            }
            (None, Some(zone)) => {
                let text = format!("hints restrict the endpoints to {choices} for zone {zone}");
                self.by_topology_field(service, step(text))
            }
        })
    }

    /// Adds the field of the Service that requests hints.
    fn by_topology_field(&self, service: Service<'_>, step: Step) -> Step {
        let annotation = TOPOLOGY_ANNOTATIONS
            .iter()
            .find(|name| service.annotation(name).is_some());
        match annotation {
            _ if !service.text("/spec/trafficDistribution").is_empty() => {
                step.by(service.0, "spec.trafficDistribution")
            }
            Some(name) => step.by(service.0, format!("metadata.annotations[{name}]")),
            None => step,
        }
    }

    fn masquerade(&self, service: Service<'_>, frontend: &Frontend, endpoints: &[ChosenEndpoint]) -> Step {
        let is_requested = matches!(
            frontend.target(self.decision.origin),
            Target::Balance { masquerade: true, .. }
        );
        let count = endpoints.iter().filter(|endpoint| endpoint.masquerade).count();
        let step = |text: &str| Step::new(StepKind::Masquerade, text);
        if !is_requested {
            return match count {
                0 => step("no: endpoints see the address of the client"),
                _ => step("only if the client gets itself as its endpoint"),
            };
        }
        if count == 0 {
            return step("no: the packet stays in the network of the node");
        }
        let settings = self.plan.settings();
        match frontend.kind {
            FrontendKind::ClusterIp if settings.masquerade_all => {
                step("yes: the proxy masquerades all traffic to cluster IPs (--masquerade-all)")
            }
            FrontendKind::ClusterIp => step("yes: the client is in no Pod CIDR (--cluster-cidr)"),
            _ if service.text("/spec/externalTrafficPolicy") == "Local" => {
                step("yes: the client is the node itself").by(service.0, "spec.externalTrafficPolicy")
            }
            _ => step("yes: externalTrafficPolicy is Cluster, so endpoints see an address of the node")
                .by(service.0, "spec.externalTrafficPolicy"),
        }
    }
}

fn verdict(decided: &PlanVerdict, service: Service<'_>, frontend: &Frontend) -> (Verdict, String) {
    let name = format!("{}/{}", service.namespace, service.name);
    match decided {
        PlanVerdict::Balanced { choices, .. } => {
            let plural = if choices.len() == 1 { "" } else { "s" };
            let reason = format!("{} endpoint{plural} of Service {name}", choices.len());
            (Verdict::Reaches, reason)
        }
        PlanVerdict::NoEndpoints => (Verdict::Refused, format!("Service {name} has no usable endpoint")),
        PlanVerdict::NoLocalEndpoints => {
            let policy = match frontend.kind {
                FrontendKind::ClusterIp => "internalTrafficPolicy",
                _ => "externalTrafficPolicy",
            };
            let reason =
                format!("{policy} of Service {name} is Local, and no usable endpoint is on this node");
            (Verdict::Dropped, reason)
        }
        PlanVerdict::OutOfSourceRanges => (
            Verdict::Dropped,
            format!("no source range of Service {name} admits the client"),
        ),
        // The remaining verdicts have no frontend, or are about echo requests.
        PlanVerdict::Answered
        | PlanVerdict::NotAService
        | PlanVerdict::UndefinedPort
        | PlanVerdict::Unallocated => (Verdict::NotAService, String::new()),
    }
}

fn scheduler(service: Service<'_>, port: &ServicePortPlan) -> Option<Step> {
    if port.is_range {
        let text = "port range: the address of the client determines the endpoint, which gets the port of the client";
        return Some(Step::new(StepKind::Scheduler, text).by(service.0, port_ranges_field()));
    }
    let text = match port.scheduler {
        Scheduler::Random => return None,
        Scheduler::RoundRobin => "rr: endpoints get connections in turn",
        Scheduler::LeastConnections => "lc: the endpoint with the fewest connections gets the next one",
        Scheduler::Maglev => "maglev: address and port of the client determine the endpoint",
        Scheduler::Ipvs(_) => "a scheduler of IPVS chooses the endpoint; other modes choose at random",
    };
    let field = format!("metadata.annotations[{SCHEDULER_ANNOTATION}]");
    Some(Step::new(StepKind::Scheduler, text).by(service.0, field))
}

fn affinity(service: Service<'_>, seconds: Option<u32>) -> Option<Step> {
    let seconds = seconds?;
    let text = format!("ClientIP: a client keeps its endpoint for {seconds} s after its last connection");
    Some(Step::new(StepKind::Affinity, text).by(service.0, "spec.sessionAffinity"))
}
