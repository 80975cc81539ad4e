//! What the edge of a node reports: ports that it cannot serve as asked. The report is an annotation of the Lease
//! `kube-system/portolan-edge-NODE`, which that node's edge alone writes; what assigns addresses brings it into the states of
//! ports in the Services' status. So edges need no right to write Services.
//!
//! A report that is not renewed is dropped after [`LEASE_DURATION`]. An edge without faults writes nothing.

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
/// Prefix of a Lease's name; the node's name follows.
const LEASE_PREFIX: &str = "portolan-edge-";
/// The annotation that holds the report, a list in JSON.
const ANNOTATION: &str = "portolan.dev/edge-faults";
/// Field manager of the report.
const FIELD_MANAGER: &str = "portolan-edge";
/// Validity of a report that is not renewed.
pub const LEASE_DURATION: Duration = Duration::from_secs(180);
/// Interval between renewals of a report with faults.
pub const RENEW_PERIOD: Duration = Duration::from_secs(60);
/// Faults of one report; more are left out. A fault is less than 500 bytes, an object has 256 KiB of annotations.
const FAULTS_MAX: usize = 256;
/// Longest annotation that is read.
const ANNOTATION_BYTES_MAX: usize = 200_000;

/// The errors of ports that an edge may report, as the API has them: a domain, a slash, a word.
pub const ERRORS: [&str; 4] = [
    "portolan.dev/CannotListen",
    crate::annotations::wish::NO_CERTIFICATE,
    "portolan.dev/BadCertificate",
    crate::annotations::wish::PROTOCOL_NOT_SUPPORTED,
];

/// A port of a Service at one of its addresses that an edge cannot serve as asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortFault {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service.
    pub service: String,
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// Protocol of the port.
    pub protocol: Protocol,
    /// One of [`ERRORS`].
    pub error: String,
}

impl PortFault {
    /// The Service.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.service)
    }
}

/// All faults that an edge reports.
pub type Report = BTreeSet<PortFault>;

/// The node of a Lease with a report, and the report; nothing if it is another Lease. What cannot be read counts as no fault.
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

/// The node of a Lease of that name.
pub fn node_of(lease_name: &str) -> Option<&str> {
    lease_name
        .strip_prefix(LEASE_PREFIX)
        .filter(|node| !node.is_empty())
}

/// Writes the report of a node.
///
/// # Errors
/// The server does not take it.
pub async fn write(client: &Client, node: &str, report: &Report, now: Timestamp) -> Result<(), ClientError> {
    let mut path = Lease::collection(Some(NAMESPACE));
    path.push('/');
    client::push_escaped(&mut path, &format!("{LEASE_PREFIX}{node}"));
    path.push_str(&format!("?fieldManager={FIELD_MANAGER}&force=true"));
    // Applied, not created: the right to create can be had for this one name only in this way.
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

/// The reports of all nodes.
#[derive(Debug, Default)]
pub struct Reports {
    of_nodes: BTreeMap<String, Report>,
    /// Set once all existing reports are read.
    are_known: bool,
}

impl Reports {
    /// Takes in the report of a node; the Services whose ports may have other states.
    pub fn set(&mut self, node: &str, report: Report) -> BTreeSet<ObjectKey> {
        let before = match report.is_empty() {
            true => self.of_nodes.remove(node),
            false => self.of_nodes.insert(node.to_owned(), report.clone()),
        };
        let before = before.unwrap_or_default();
        let changed = before.symmetric_difference(&report);
        changed.map(PortFault::key).collect()
    }

    /// All of them were read. Until then the states of ports stay as they are told.
    pub fn set_known(&mut self) {
        self.are_known = true;
    }

    /// Returns true once all of them are read.
    pub fn are_known(&self) -> bool {
        self.are_known
    }

    /// The first error of a port at an address, of those that nodes report for which `counts` holds.
    pub fn error(
        &self,
        service: &ObjectKey,
        address: IpAddr,
        (port, protocol): (u16, Protocol),
        counts: impl Fn(&str) -> bool,
    ) -> Option<&str> {
        let of_nodes = self.of_nodes.iter().filter(|(node, _)| counts(node));
        let mut faults = of_nodes.flat_map(|(_, report)| report);
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
