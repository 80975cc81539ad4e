//! Findings of the latest examination, by object.

use std::collections::{BTreeMap, BTreeSet};

use api::object::ObjectKey;
use explain::{ClusterFindings, Code, Finding, ObjectName, Severity, documentation_of};
use serde::Serialize;

use super::rows::{FindingCounts, Health};

/// Maximum number of findings that are kept for the whole cluster: the first ones in the order of `explain::examine`.
pub const FINDINGS_MAX: usize = 2_000;
/// Maximum number of findings that are kept for one Service.
const SERVICE_FINDINGS_MAX: usize = 100;
/// Maximum number of Services of a finding that are kept: one about a node can concern all.
const FINDING_SERVICES_MAX: usize = 100;
/// Maximum number of bytes of a message or remedy. Both can quote objects.
const TEXT_BYTES_MAX: usize = 4_096;
/// Maximum number of bytes of the documentation of a code.
const DOCUMENTATION_BYTES_MAX: usize = 8 << 10;

/// A finding, as the page reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingRow {
    /// Code.
    pub code: Code,
    /// Severity.
    pub severity: Severity,
    /// Object to change.
    pub object: ObjectName,
    /// Field of that object, or "".
    pub field: String,
    /// Fault.
    pub message: String,
    /// Step that removes the fault.
    pub remedy: String,
    /// Title of the code.
    pub title: &'static str,
    /// Documentation of the code as Markdown. Only the first finding of a code in a list has it; for the others it is "".
    pub documentation: &'static str,
    /// Services that the finding concerns, such as `shop/web`, at most [`FINDING_SERVICES_MAX`].
    pub services: Vec<String>,
}

/// Identity of a finding: two Services can have the same one.
type FindingKey<'f> = (Code, &'f ObjectName, &'f str);

/// Findings of the latest examination.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order of `explain::examine`.
    all: Vec<FindingRow>,
    by_service: BTreeMap<ObjectKey, Vec<FindingRow>>,
    counts: BTreeMap<ObjectKey, FindingCounts>,
    /// Health of nodes with findings about them.
    nodes: BTreeMap<String, Health>,
    errors: u32,
    warnings: u32,
}

impl Findings {
    /// Returns the findings of an examination.
    pub fn of(found: ClusterFindings) -> Self {
        let mut concerned: BTreeMap<FindingKey<'_>, Vec<String>> = BTreeMap::new();
        for service in &found.services {
            for finding in &service.findings {
                let services = concerned.entry(key(finding)).or_default();
                if services.len() < FINDING_SERVICES_MAX {
                    services.push(format!("{}/{}", service.namespace, service.name));
                }
            }
        }
        let rows = |findings: &[Finding], limit: usize| {
            let mut documented = BTreeSet::new();
            let findings = findings.iter().take(limit);
            findings
                .map(|finding| {
                    let services = concerned.get(&key(finding)).cloned().unwrap_or_default();
                    row(finding, services, documented.insert(finding.code))
                })
                .collect::<Vec<_>>()
        };
        let mut findings = Self {
            all: rows(&found.all, FINDINGS_MAX),
            errors: count(&found.all, Severity::Error),
            warnings: count(&found.all, Severity::Warning),
            ..Self::default()
        };
        for service in &found.services {
            let key = ObjectKey::new(&service.namespace, &service.name);
            let severities = [Severity::Error, Severity::Warning, Severity::Info];
            let counts = severities.map(|severity| count(&service.findings, severity));
            findings.counts.insert(key.clone(), counts);
            let rows = rows(&service.findings, SERVICE_FINDINGS_MAX);
            findings.by_service.insert(key, rows);
        }
        let node_findings = found.all.iter().filter(|finding| finding.object.kind == "Node");
        for finding in node_findings {
            let health = match finding.severity {
                Severity::Error => Health::Error,
                Severity::Warning => Health::Warning,
                Severity::Info => Health::Idle,
            };
            let known = findings.nodes.entry(finding.object.name.clone()).or_default();
            *known = health.max(*known);
        }
        findings
    }

    /// Returns the findings of the cluster, at most [`FINDINGS_MAX`].
    pub fn all(&self) -> &[FindingRow] {
        &self.all
    }

    /// Returns the findings of a Service.
    pub fn of_service(&self, key: &ObjectKey) -> &[FindingRow] {
        self.by_service.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the numbers of findings of a Service.
    pub fn counts(&self, key: &ObjectKey) -> FindingCounts {
        self.counts.get(key).copied().unwrap_or_default()
    }

    /// Returns the health of a node after its findings.
    pub fn of_node(&self, name: &str) -> Health {
        self.nodes.get(name).copied().unwrap_or_default()
    }

    /// Returns the numbers of errors and warnings in the cluster.
    pub fn totals(&self) -> (u32, u32) {
        (self.errors, self.warnings)
    }

    /// Returns the Services with other numbers of findings than in `earlier`.
    pub fn changed_services<'f>(&'f self, earlier: &'f Self) -> impl Iterator<Item = &'f ObjectKey> {
        let both = self.counts.keys().chain(earlier.counts.keys());
        both.filter(|key| self.counts(key) != earlier.counts(key))
    }

    /// Returns the Nodes with another health than in `earlier`.
    pub fn changed_nodes<'f>(&'f self, earlier: &'f Self) -> impl Iterator<Item = &'f str> {
        let both = self.nodes.keys().chain(earlier.nodes.keys());
        both.map(String::as_str)
            .filter(|name| self.of_node(name) != earlier.of_node(name))
    }
}

fn key(finding: &Finding) -> FindingKey<'_> {
    (finding.code, &finding.object, &finding.field)
}

fn count(findings: &[Finding], severity: Severity) -> u32 {
    let alike = findings.iter().filter(|finding| finding.severity == severity);
    u32::try_from(alike.count()).unwrap_or(u32::MAX)
}

fn row(finding: &Finding, services: Vec<String>, is_first: bool) -> FindingRow {
    let entry = documentation_of(finding.code);
    let text = entry.filter(|_| is_first).map_or("", |entry| entry.text);
    FindingRow {
        code: finding.code,
        severity: finding.severity,
        object: finding.object.clone(),
        field: super::truncate(&finding.field, TEXT_BYTES_MAX).to_owned(),
        message: super::truncate(&finding.message, TEXT_BYTES_MAX).to_owned(),
        remedy: super::truncate(&finding.remedy, TEXT_BYTES_MAX).to_owned(),
        title: entry.map_or("", |entry| entry.title),
        documentation: super::truncate(text, DOCUMENTATION_BYTES_MAX),
        services,
    }
}
