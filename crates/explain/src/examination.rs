//! Application of the rules to a cluster or to Services.
//!
//! Findings that another finding explains are left out ([`Rule::explained_by`]). The others are ordered by severity and
//! code. The first one is therefore the most likely cause, which `portolan doctor` names in its summary.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Finding, ObjectName};
use crate::kind::Kind;
use crate::rule::Rule;
use crate::rules::{self, ALL, OF_NODES};
use crate::subject::Subject;
use crate::views::Service;
use crate::world::World;

/// Maximum number of findings of one rule about a Service, unless the user names the Service. Each port can have one.
const FINDINGS_OF_RULE_MAX: usize = 16;
/// Maximum number of bytes of a message or an observation of a finding, unless the user names the Service. Both can
/// quote lists of objects.
const TEXT_BYTES_MAX: usize = 1_024;

/// Services to examine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All Services, and the objects that belong to none.
    All,
    /// One Service. If it does not exist, that is the finding.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
}

/// Options of an examination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Node whose clients are judged; `None` for all nodes.
    pub node: Option<String>,
}

/// A Service with findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFindings {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
    /// UID of the Service; "" in manifests.
    pub uid: String,
    /// Findings, in the order of [`examine`].
    pub findings: Vec<Finding>,
}

/// Findings of a cluster, and those of its Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFindings {
    /// All findings, as [`examine`] returns them for all Services.
    pub all: Vec<Finding>,
    /// Services with findings, as [`examine_services`] returns them.
    pub services: Vec<ServiceFindings>,
}

/// Applies all rules once, and returns the findings of the cluster and of its Services.
pub fn examine_cluster(world: &World, options: &Options) -> ClusterFindings {
    let node_findings = findings_of_nodes(world);
    let mut all = findings_of_cluster(world);
    let mut services = Vec::new();
    for service in examined_services(world) {
        let found = findings_of_service(world, service, options, false, &node_findings);
        all.extend_from_slice(&found);
        services.push(service_findings(service, found));
    }
    all.extend(node_findings);
    services.retain(|service| !service.findings.is_empty());
    ClusterFindings {
        all: order_and_merge(all),
        services,
    }
}

/// Applies the rules to each Service. Returns the Services with findings, ordered by namespace and name.
pub fn examine_services(world: &World, options: &Options) -> Vec<ServiceFindings> {
    let node_findings = findings_of_nodes(world);
    let examined = examined_services(world).map(|service| {
        service_findings(
            service,
            findings_of_service(world, service, options, false, &node_findings),
        )
    });
    examined.filter(|service| !service.findings.is_empty()).collect()
}

/// Returns the Services that are examined: not those that are deleted with their namespace.
fn examined_services(world: &World) -> impl Iterator<Item = Service<'_>> {
    let services = world.services();
    services.filter(|service| !rules::is_deleted_with_namespace(world, *service))
}

fn service_findings(service: Service<'_>, found: Vec<Finding>) -> ServiceFindings {
    ServiceFindings {
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        uid: service.text("/metadata/uid").to_owned(),
        findings: order_and_merge(found),
    }
}

/// Applies all rules. The findings are ordered by severity, then by code, namespace, name, kind, field and message.
pub fn examine(world: &World, scope: &Scope, options: &Options) -> Vec<Finding> {
    let node_findings = findings_of_nodes(world);
    let mut findings = Vec::new();
    match scope {
        Scope::All => {
            for service in examined_services(world) {
                findings.extend(findings_of_service(
                    world,
                    service,
                    options,
                    false,
                    &node_findings,
                ));
            }
            findings.extend(findings_of_cluster(world));
            findings.extend(node_findings);
        }
        Scope::Service { namespace, name } => match world.service(namespace, name) {
            Some(service) => {
                findings.extend(findings_of_service(world, service, options, true, &node_findings));
                findings.extend(node_findings);
            }
            None => findings.push(rules::absent_service(world, namespace, name)),
        },
    }
    order_and_merge(findings)
}

/// Orders findings, and merges those about one field, such as a Pod that two Services select. The messages of the later
/// ones become evidence of the first one.
fn order_and_merge(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    let mut merged: Vec<Finding> = Vec::new();
    let mut positions = BTreeMap::new();
    for finding in findings {
        let key = (finding.code, finding.object.clone(), finding.field.clone());
        let position = *positions.entry(key).or_insert(merged.len());
        match merged.get_mut(position) {
            Some(first) if first.message != finding.message => first.evidence.push(finding.message),
            Some(_) => {}
            None => merged.push(finding),
        }
    }
    merged
}

fn sort_key(finding: &Finding) -> impl Ord + '_ {
    let object = &finding.object;
    (
        finding.severity,
        finding.code,
        &object.namespace,
        &object.name,
        &object.kind,
        &finding.field,
        &finding.message,
    )
}

/// Findings about a Service. Findings about nodes can be their causes.
fn findings_of_service(
    world: &World,
    service: Service<'_>,
    options: &Options,
    is_named: bool,
    node_findings: &[Finding],
) -> Vec<Finding> {
    let subject = Subject::new(world, service, options.node.as_deref(), is_named);
    if !is_named && subject.is_oversized() {
        return Vec::new();
    }
    let checks = ALL.iter().filter_map(|rule| Some((*rule, rule.service?)));
    let mut found: Vec<(&Rule, Finding)> = Vec::new();
    for (rule, check) in checks {
        let findings = check(&subject).into_iter().map(|finding| (rule, finding));
        if is_named {
            found.extend(findings);
        } else {
            let bounded = findings.take(FINDINGS_OF_RULE_MAX);
            found.extend(bounded.map(|(rule, finding)| (rule, shorten(finding))));
        }
    }
    without_consequences(found, node_findings)
}

/// Shortens the message and the observations of a finding. The remedy stays, because it is a command.
fn shorten(mut finding: Finding) -> Finding {
    let texts = std::iter::once(&mut finding.message).chain(&mut finding.evidence);
    for text in texts.filter(|text| text.len() > TEXT_BYTES_MAX) {
        let mut ends = (0..=TEXT_BYTES_MAX).rev();
        let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        *text = format!("{}…", &text[..end]);
    }
    finding
}

/// Findings about the objects that belong to no existing Service.
fn findings_of_cluster(world: &World) -> Vec<Finding> {
    let is_of_nodes = |rule: &Rule| OF_NODES.iter().any(|other| other.code == rule.code);
    let rules = ALL.iter().filter(|rule| !is_of_nodes(rule));
    let checks = rules.filter_map(|rule| rule.cluster);
    checks.flat_map(|check| check(world)).collect()
}

/// Findings about nodes. A root cause suppresses its consequences on the same node.
fn findings_of_nodes(world: &World) -> Vec<Finding> {
    let mut by_node: BTreeMap<ObjectName, Vec<(&Rule, Finding)>> = BTreeMap::new();
    for rule in OF_NODES {
        for finding in rule.cluster.into_iter().flat_map(|check| check(world)) {
            let findings_of_node = by_node.entry(finding.object.clone()).or_default();
            findings_of_node.push((*rule, finding));
        }
    }
    let findings_by_node = by_node.into_values();
    findings_by_node
        .flat_map(|found| without_consequences(found, &[]))
        .collect()
}

/// Removes the findings that a root cause of at least the same severity explains. `others` are further causes. They also
/// replace findings about the same field of a Pod, such as the state of a node proxy that is an endpoint.
fn without_consequences(found: Vec<(&Rule, Finding)>, others: &[Finding]) -> Vec<Finding> {
    let is_replaced = |finding: &Finding| {
        let is_same = |other: &Finding| other.object == finding.object && other.field == finding.field;
        finding.object.kind == Kind::Pod.name() && others.iter().any(is_same)
    };
    let codes = others.iter().map(|finding| (finding.code, finding.severity));
    let causes: BTreeSet<_> = found
        .iter()
        .map(|(rule, finding)| (rule.code, finding.severity))
        .chain(codes)
        .collect();
    let is_explained = |rule: &Rule, finding: &Finding| {
        let mut causes = causes.iter();
        causes.any(|(code, severity)| rule.explained_by.contains(code) && *severity <= finding.severity)
    };
    found
        .into_iter()
        .filter(|(rule, finding)| !is_explained(rule, finding) && !is_replaced(finding))
        .map(|(_, finding)| finding)
        .collect()
}

#[cfg(test)]
mod tests;
