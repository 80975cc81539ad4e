//! Report of a node's edge about ports that it cannot serve.
//!
//! The report is an annotation of the Lease `kube-system/portolan-edge-NODE`, which only that edge writes. The assigner
//! copies it to the port states in the status of Services. Edges therefore need no right to write Services.
//!
//! A report expires [`LEASE_DURATION`] after its last renewal. An edge without faults writes no Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use api::object::{Lease, ObjectKey, Protocol, Resource};
use client::{APPLY_PATCH, Client, ClientError};
use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Namespace of the Leases.
pub const NAMESPACE: &str = "kube-system";
/// Prefix of the name of a Lease; the name of the node follows.
const LEASE_PREFIX: &str = "portolan-edge-";
/// Annotation with the report, a JSON list of [`PortFault`].
const ANNOTATION: &str = "portolan.dev/edge-faults";
/// Field manager of the report.
const FIELD_MANAGER: &str = "portolan-edge";
/// Validity of a report that is not renewed.
pub const LEASE_DURATION: Duration = Duration::from_secs(180);
/// Interval between renewals of a report with faults.
pub const RENEW_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of faults in a report. A fault has less than 500 bytes, and annotations of an object are
/// limited to 256 KiB.
const FAULTS_MAX: usize = 256;
/// Maximum length of an annotation that is read. Annotations of an object are limited to 256 KiB.
const ANNOTATION_BYTES_MAX: usize = 200_000;

/// Errors of ports that an edge may report, in the form that the API requires: domain, slash, CamelCase word.
pub const ERRORS: [&str; 4] = [
    "portolan.dev/CannotListen",
    crate::annotations::NO_CERTIFICATE,
    "portolan.dev/BadCertificate",
    crate::annotations::PROTOCOL_NOT_SUPPORTED,
];

/// Port of a Service that an edge cannot serve at one address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortFault {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Address of the Service.
    pub address: IpAddr,
    /// Port number.
    pub port: u16,
    /// Protocol of the port.
    pub protocol: Protocol,
    /// One of [`ERRORS`].
    pub error: String,
}

impl PortFault {
    /// Returns the key of the Service.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.service)
    }
}

/// Faults of all ports of an edge.
pub type Report = BTreeSet<PortFault>;

/// Returns the Node and report of a Lease; `None` for other Leases. Malformed faults are ignored.
pub fn read(lease: &Lease) -> Option<(&str, Report)> {
    let node = node_of(&lease.metadata.name)?;
    let text = lease.metadata.annotations.get(ANNOTATION);
    let text = text.filter(|text| text.len() <= ANNOTATION_BYTES_MAX);
    let faults: Vec<Value> = text
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let faults = faults
        .into_iter()
        .take(FAULTS_MAX)
        .filter_map(|fault| serde_json::from_value::<PortFault>(fault).ok());
    let known = faults.filter(|fault| ERRORS.contains(&fault.error.as_str()));
    Some((node, known.collect()))
}

/// Returns the Node of the Lease with this name; `None` for other Leases.
pub fn node_of(lease_name: &str) -> Option<&str> {
    lease_name
        .strip_prefix(LEASE_PREFIX)
        .filter(|node| !node.is_empty())
}

/// Writes the report of a node.
///
/// # Errors
/// The request failed.
pub async fn write(client: &Client, node: &str, report: &Report, now: Timestamp) -> Result<(), ClientError> {
    let mut path = Lease::collection(Some(NAMESPACE));
    path.push('/');
    client::push_escaped(&mut path, &format!("{LEASE_PREFIX}{node}"));
    path.push_str(&format!("?fieldManager={FIELD_MANAGER}&force=true"));
    // Server-side apply instead of create: only for patches can RBAC restrict the right to one name.
    client
        .request(
            Method::PATCH,
            &path,
            APPLY_PATCH,
            Some(&object(node, report, now)),
        )
        .await
        .map(drop)
}

fn object(node: &str, report: &Report, now: Timestamp) -> Value {
    let faults: Vec<&PortFault> = report.iter().take(FAULTS_MAX).collect();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "namespace": NAMESPACE, "name": format!("{LEASE_PREFIX}{node}"),
            "annotations": {ANNOTATION: json!(faults).to_string()},
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_DURATION.as_secs(),
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        },
    })
}

/// Reports of all nodes.
#[derive(Debug, Default)]
pub struct Reports {
    by_node: BTreeMap<String, Report>,
    /// True once all existing reports are read.
    are_synced: bool,
}

impl Reports {
    /// Replaces the report of a node. Returns the Services whose port states may change.
    pub fn set(&mut self, node: &str, report: Report) -> BTreeSet<ObjectKey> {
        let before = if report.is_empty() {
            self.by_node.remove(node)
        } else {
            self.by_node.insert(node.to_owned(), report.clone())
        };
        let before = before.unwrap_or_default();
        let changed = before.symmetric_difference(&report);
        changed.map(PortFault::key).collect()
    }

    /// Ends the initial list of reports. Until then port states in statuses stay.
    pub fn set_synced(&mut self) {
        self.are_synced = true;
    }

    /// Returns true once all existing reports are read.
    pub fn are_synced(&self) -> bool {
        self.are_synced
    }

    /// Returns the first error of a port at an address in the reports of nodes that satisfy `is_relevant`.
    pub fn error(
        &self,
        service: &ObjectKey,
        address: IpAddr,
        (port, protocol): (u16, Protocol),
        is_relevant: impl Fn(&str) -> bool,
    ) -> Option<&str> {
        let reports = self.by_node.iter().filter(|(node, _)| is_relevant(node));
        let mut faults = reports.flat_map(|(_, report)| report);
        let fault = faults.find(|fault| {
            *fault.namespace == *service.namespace
                && *fault.service == *service.name
                && fault.address == address
                && (fault.port, fault.protocol) == (port, protocol)
        });
        fault.map(|fault| fault.error.as_str())
    }
}

#[cfg(test)]
mod tests;
