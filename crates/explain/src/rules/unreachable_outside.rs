//! PTL-0057: the Service is reachable from one side only.

use std::collections::BTreeMap;

use super::{
    address_unanswered, bgp_session, endpoints_missing, external_policy_local, forwarding_filtered,
    frontend_conflict, kernel_parameters, load_balancer_pending, node_address, node_unusable, pods_not_ready,
    pods_not_running, proxy_absent, rules_changed, selector_matches_no_pod, source_ranges,
};
use crate::facts::probes::{self, ObservedProbe};
use crate::finding::{Code, Finding, Severity};
use crate::observation::ProbeSource;
use crate::rule::Rule;
use crate::subject::Subject;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("unreachable_outside.md"),
    explained_by: &[
        selector_matches_no_pod::CODE,
        pods_not_ready::CODE,
        pods_not_running::CODE,
        endpoints_missing::CODE,
        load_balancer_pending::CODE,
        source_ranges::CODE,
        external_policy_local::CODE,
        frontend_conflict::CODE,
        node_unusable::CODE,
        proxy_absent::CODE,
        rules_changed::CODE,
        forwarding_filtered::CODE,
        kernel_parameters::CODE,
        node_address::CODE,
        address_unanswered::CODE,
        bgp_session::CODE,
    ],
    service: Some(check),
    cluster: None,
};

const CODE: Code = Code(57);
const PATH_REMEDY: &str = "Examine the path from the client to a node: the route or ARP entry for the address, firewalls, and the health checks of \
                          the load balancer";

/// Probes of one target.
#[derive(Default)]
struct Target<'w> {
    outside: Vec<ObservedProbe<'w>>,
    inside: Vec<ObservedProbe<'w>>,
}

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let cluster_ips = subject.service.cluster_ips();
    let mut targets: BTreeMap<&str, Target<'_>> = BTreeMap::new();
    for found in probes::of_service(subject) {
        let (_, probe) = found;
        // Cluster IPs are for clients in the cluster.
        let is_internal = probe
            .address()
            .is_some_and(|address| cluster_ips.contains(&address));
        if !probes::is_connection(probe) || is_internal || !probes::is_to_frontend(subject, probe) {
            continue;
        }
        let target = targets.entry(&probe.target).or_default();
        if probe.from == ProbeSource::Outside {
            target.outside.push(found);
        } else {
            target.inside.push(found);
        }
    }
    targets
        .iter()
        .filter_map(|(name, target)| finding(subject, name, target))
        .collect()
}

fn finding(subject: &Subject<'_>, name: &str, target: &Target<'_>) -> Option<Finding> {
    let failed = |found: &[ObservedProbe<'_>]| {
        !found.is_empty() && found.iter().all(|(_, probe)| probes::is_failed(probe))
    };
    let connected = |found: &[ObservedProbe<'_>]| found.iter().any(|(_, probe)| probes::is_connected(probe));
    let service = &subject.service.name;
    let (message, remedy, first) = if failed(&target.outside) && connected(&target.inside) {
        let message = format!(
            "{name} of Service {service} is reachable from nodes or Pods, but not from outside of the cluster. A node translates the connection itself, so this shows nothing about the way from outside"
        );
        (message, PATH_REMEDY.to_owned(), target.outside.first()?)
    } else if failed(&target.outside) && target.inside.is_empty() && subject.has_ready_endpoint() {
        let message = format!(
            "{name} of Service {service} is not reachable from outside of the cluster, although the Service has a ready endpoint"
        );
        (message, PATH_REMEDY.to_owned(), target.outside.first()?)
    } else if connected(&target.outside) && failed(&target.inside) {
        let message = format!(
            "{name} of Service {service} is reachable from outside of the cluster, but not from nodes or Pods"
        );
        let remedy = format!(
            "Let clients in the cluster use the cluster IP, or the name {service}.{}.svc",
            subject.service.namespace
        );
        (message, remedy, target.inside.first()?)
    } else {
        return None;
    };
    let finding = subject.finding(CODE, Severity::Warning, "spec.type", message, remedy);
    Some(finding.with_evidence(probes::description(*first)))
}
