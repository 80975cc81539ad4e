//! Decisions about echo requests (ping).

use plan::{FrontendKind, Packet, PingDecision, Verdict as PlanVerdict};

use super::report::{Path, Step, StepKind, Verdict};

/// Returns the path of an echo request at a node.
pub(super) fn path(node: &str, decider: Step, packet: &Packet, decision: &PingDecision<'_>) -> Path {
    let address = packet.destination;
    let mut steps = vec![decider];
    let service = decision.service.map(ToString::to_string).unwrap_or_default();
    if let Some(frontend) = decision.frontend {
        let kind = match frontend.kind {
            FrontendKind::ClusterIp => "cluster IP",
            FrontendKind::LoadBalancerIp => "load balancer IP",
            // A plan decides about neither of these.
            FrontendKind::ExternalIp | FrontendKind::NodePort => "address",
        };
        let text = format!("{kind} {address} of Service {service}, echo requests");
        steps.push(Step::new(StepKind::Frontend, text));
    }
    let (verdict, reason) = match decision.verdict {
        PlanVerdict::Answered => (
            Verdict::Reaches,
            format!("the node answers for Service {service}, in the modes nftables and userspace"),
        ),
        PlanVerdict::NoEndpoints => (
            Verdict::Refused,
            format!("Service {service} has no usable endpoint"),
        ),
        PlanVerdict::NoLocalEndpoints => (
            Verdict::Dropped,
            format!("the policy of Service {service} is Local, and no usable endpoint is on this node"),
        ),
        PlanVerdict::OutOfSourceRanges => (
            Verdict::Dropped,
            format!("no source range of Service {service} admits the client"),
        ),
        PlanVerdict::UndefinedPort => (
            Verdict::Refused,
            format!("{address} is a cluster IP, and the node has no address that answers for it"),
        ),
        PlanVerdict::Unallocated => (
            Verdict::Dropped,
            format!("no Service has the cluster IP {address}"),
        ),
        PlanVerdict::NotAService | PlanVerdict::Balanced { .. } => (
            Verdict::NotAService,
            format!("{address} is not a cluster IP or load balancer IP of a Service"),
        ),
    };
    Path {
        nodes: vec![node.to_owned()],
        addresses: vec![address],
        source: Some(packet.source),
        steps,
        endpoints: Vec::new(),
        excluded: Vec::new(),
        affinity_seconds: None,
        verdict,
        reason,
    }
}
