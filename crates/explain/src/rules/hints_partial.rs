//! PTL-0027: zone hints are ignored, or lead to a single zone.

use std::collections::BTreeSet;

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::kubectl;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::views::{Endpoint, Node, Service};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("hints_partial.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(27);
/// Annotations that request hints.
const TOPOLOGY_MODES: [&str; 2] = [
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
];
/// Values of `trafficDistribution` that give endpoints hints with zones.
const ZONE_DISTRIBUTIONS: [&str; 2] = ["PreferClose", "PreferSameZone"];
/// Labels of the nodes of the control plane.
const CONTROL_PLANE_LABELS: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let service = subject.service;
    // Without Pods, an update in progress is not visible. It adds endpoints before their hints.
    let is_known = subject.has(Kind::EndpointSlice) && (subject.has(Kind::Pod) || !service.has_selector());
    if service.is_headless() || !is_known || subject.is_rolling() {
        return Vec::new();
    }
    let slices = subject.slices().iter();
    let ready: Vec<_> = slices
        .flat_map(|slice| slice.endpoints().map(move |endpoint| (slice, endpoint)))
        .filter(|(_, endpoint)| endpoint.is_ready())
        .collect();
    let without: Vec<_> = ready
        .iter()
        .filter(|(_, endpoint)| endpoint.zone_hints().next().is_none() && !endpoint.has_node_hint())
        .collect();
    if without.len() == ready.len() {
        let zones: BTreeSet<&str> = ready.iter().map(|(_, endpoint)| endpoint.zone()).collect();
        return dropped_hints(subject, &zones).into_iter().collect();
    }
    if let Some(finding) = one_zone(
        subject,
        &ready.iter().map(|(_, endpoint)| *endpoint).collect::<Vec<_>>(),
    ) {
        return vec![finding];
    }
    let Some((slice, endpoint)) = without.first() else {
        return Vec::new();
    };
    let address = endpoint.addresses().next().unwrap_or_default();
    let message = format!(
        "{} of {} ready endpoints of Service {} have no zone hint, such as {address}. All proxies ignore the hints of the others, and connections \
         leave their zones",
        without.len(),
        ready.len(),
        service.name
    );
    let node = subject
        .world
        .node(endpoint.node())
        .filter(|node| node.zone().is_empty());
    vec![match node {
        Some(node) => without_zone(node, &message),
        None => {
            let remedy = format!(
                "Give each endpoint a hint, or none: {}",
                kubectl::command("edit", slice.0)
            );
            finding_about(
                slice.0,
                CODE,
                Severity::Warning,
                "endpoints[].hints",
                message,
                remedy,
            )
        }
    }]
}

/// Returns the finding for a node whose zone is missing.
fn without_zone(node: Node<'_>, message: &str) -> Finding {
    let message = format!("{message}: node {} has no zone", node.name);
    let remedy = format!(
        "{} topology.kubernetes.io/zone=ZONE",
        kubectl::command("label", node.0)
    );
    finding_about(
        node.0,
        CODE,
        Severity::Warning,
        "metadata.labels[topology.kubernetes.io/zone]",
        message,
        remedy,
    )
}

/// Returns a node without zone beside others that have one. The controller writes no hints of the annotation then. It
/// leaves out the nodes of the control plane and those that are not ready (upstream's `topologycache`).
fn node_without_zone(world: &World) -> Option<Node<'_>> {
    let is_counted = |node: &Node<'_>| {
        let mut labels = CONTROL_PLANE_LABELS.iter();
        node.is_ready() && !labels.any(|label| node.label(label).is_some())
    };
    let (with, without): (Vec<Node<'_>>, Vec<Node<'_>>) = world
        .nodes()
        .filter(is_counted)
        .partition(|node| !node.zone().is_empty());
    without.first().copied().filter(|_| !with.is_empty())
}

/// Returns the node of an endpoint if no endpoint is in a zone, although the cluster has zones. `trafficDistribution` has
/// no effect then.
fn node_of_endpoints<'w>(subject: &Subject<'w>, zones: &BTreeSet<&str>) -> Option<Node<'w>> {
    let world = subject.world;
    let is_by_zone = ZONE_DISTRIBUTIONS.contains(&subject.service.text("/spec/trafficDistribution"));
    let has_zones = world.nodes().any(|node| !node.zone().is_empty());
    if !is_by_zone || !has_zones || zones.iter().any(|zone| !zone.is_empty()) {
        return None;
    }
    let endpoints = subject.slices().iter().flat_map(|slice| slice.endpoints());
    let mut nodes = endpoints.filter_map(|endpoint| world.node(endpoint.node()));
    nodes.find(|node| node.zone().is_empty())
}

/// Reports that the Service requests hints, its endpoints are in zones, and the controller writes none.
fn dropped_hints(subject: &Subject<'_>, zones: &BTreeSet<&str>) -> Option<Finding> {
    let service = subject.service;
    let (mode, field) = request_for_hints(service)?;
    let mut slices = subject.slices().iter();
    let is_current = slices.all(|slice| slice.is_from_selector());
    let event = subject
        .world
        .latest_event(service.0, &["TopologyAwareHintsDisabled"]);
    // One zone has no use for the hints of the annotation.
    let zones_min = if mode.is_some() { 2 } else { 1 };
    let has_zones = zones.len() >= zones_min && !zones.contains("");
    if !is_current || zones.is_empty() {
        return None;
    }
    let node = match mode {
        Some(_) => node_without_zone(subject.world),
        None => node_of_endpoints(subject, zones),
    };
    let message = format!(
        "Service {} requests zone hints, and no ready endpoint has one, so connections leave their zones",
        service.name
    );
    if let Some(node) = node {
        return Some(without_zone(node, &message));
    }
    if !has_zones && event.is_none() {
        return None;
    }
    let reason = event.map_or_else(String::new, |event| {
        format!(": {}", event.message().trim_end_matches('.'))
    });
    let remedy = if mode.is_some() {
        format!(
            "Run at least 3 Pods for each zone, or use trafficDistribution, which has no minimum: {}",
            kubectl::add(service.0, "/spec/trafficDistribution", "PreferClose")
        )
    } else {
        format!(
            "Read the log of the endpoint controller, and the Events: {}",
            kubectl::command("describe", service.0)
        )
    };
    let message = format!("{message}{reason}");
    Some(subject.finding(CODE, Severity::Warning, field, message, remedy))
}

/// Returns the annotation by which a Service requests hints, if it has one, and the field of the request.
fn request_for_hints(service: Service<'_>) -> Option<(Option<&'static str>, String)> {
    let values: Vec<&str> = TOPOLOGY_MODES
        .iter()
        .filter_map(|name| service.annotation(name))
        .collect();
    // Annotations that contradict each other are a finding of their own (PTL-0034).
    if values
        .windows(2)
        .any(|pair| !pair[0].eq_ignore_ascii_case(pair[1]))
    {
        return None;
    }
    let mode = TOPOLOGY_MODES.into_iter().find(|name| {
        service
            .annotation(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("auto"))
    });
    let is_preferred = service.text("/spec/trafficDistribution").starts_with("Prefer");
    match mode {
        Some(name) => Some((mode, format!("metadata.annotations[{name}]"))),
        None if is_preferred => Some((None, "spec.trafficDistribution".to_owned())),
        None => None,
    }
}

/// Reports that the hints name one zone only, although endpoints in other zones exist.
fn one_zone(subject: &Subject<'_>, ready: &[Endpoint<'_>]) -> Option<Finding> {
    let hinted: BTreeSet<&str> = ready.iter().flat_map(|endpoint| endpoint.zone_hints()).collect();
    let zone = hinted.first().filter(|_| hinted.len() == 1)?;
    let other = ready
        .iter()
        .find(|endpoint| !endpoint.zone().is_empty() && endpoint.zone() != *zone)?;
    let slice = subject.slices().first()?;
    let message = format!(
        "All hints of Service {} name zone {zone}, although its endpoint {} is in zone {}: clients of other zones get no endpoint of their own",
        subject.service.name,
        other.addresses().next().unwrap_or_default(),
        other.zone()
    );
    let remedy = format!("Correct the hints: {}", kubectl::command("edit", slice.0));
    Some(finding_about(
        slice.0,
        CODE,
        Severity::Warning,
        "endpoints[].hints",
        message,
        remedy,
    ))
}
