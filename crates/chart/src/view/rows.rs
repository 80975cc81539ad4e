//! Rows of a snapshot, as the page reads them. The names of the fields are stable.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::traffic::Traffic;

/// Health of a Service or node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// No endpoint is expected.
    #[default]
    Idle,
    /// No fault is known.
    Ok,
    /// Some connections fail.
    Warning,
    /// Connections fail.
    Error,
}

impl Health {
    /// Returns the name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Type of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the variants have the names of the Kubernetes API")]
pub enum ServiceType {
    #[default]
    ClusterIP,
    NodePort,
    LoadBalancer,
    ExternalName,
}

impl ServiceType {
    /// Reads `spec.type`. Unknown texts read as the default.
    pub fn of(text: &str) -> Self {
        match text {
            "NodePort" => Self::NodePort,
            "LoadBalancer" => Self::LoadBalancer,
            "ExternalName" => Self::ExternalName,
            _ => Self::ClusterIP,
        }
    }

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
            Self::ExternalName => "ExternalName",
        }
    }
}

/// Kind of a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FrontendKind {
    /// Cluster IP.
    #[serde(rename = "clusterIP")]
    ClusterIp,
    /// Node port, at the addresses of the nodes.
    NodePort,
    /// External IP.
    #[serde(rename = "externalIP")]
    ExternalIp,
    /// Address or name of a load balancer.
    LoadBalancer,
    /// Name of a host outside of the cluster.
    ExternalName,
}

impl FrontendKind {
    /// Returns the human-readable name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster IP",
            Self::NodePort => "node port",
            Self::ExternalIp => "external IP",
            Self::LoadBalancer => "load balancer",
            Self::ExternalName => "external name",
        }
    }

    /// Returns true if hosts outside of the cluster use the frontend.
    pub fn is_external(self) -> bool {
        !matches!(self, Self::ClusterIp | Self::ExternalName)
    }
}

/// Address and port that clients use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Frontend {
    /// Kind.
    pub kind: FrontendKind,
    /// Address or name; "" for a node port.
    pub address: String,
    /// Port; 0 for an external name without ports.
    pub port: u16,
    /// TCP, UDP or SCTP.
    pub protocol: &'static str,
    /// Name of the port, or "".
    pub port_name: String,
}

/// Numbers of errors, warnings and information about a Service.
pub type FindingCounts = [u32; 3];

/// A Service without its traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceShape {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: ServiceType,
    /// True if the Service has no cluster IP on purpose.
    pub headless: bool,
    /// Frontends, at most [`super::frontends::FRONTENDS_MAX`].
    pub frontends: Vec<Frontend>,
    /// Ready endpoints. An endpoint with several addresses counts once.
    pub ready: u32,
    /// Endpoints that serve, also while they terminate.
    pub serving: u32,
    /// Endpoints that terminate.
    pub terminating: u32,
    /// All endpoints.
    pub total: u32,
    /// Node, ready endpoints and all endpoints; the node is "" for endpoints without one.
    pub nodes: Vec<(Arc<str>, u32, u32)>,
    /// Health.
    pub health: Health,
    /// Findings.
    pub findings: FindingCounts,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceRow {
    /// Everything besides the traffic. Rows of several times share it.
    #[serde(flatten)]
    pub shape: Arc<ServiceShape>,
    /// Traffic; absent if no node reports flows.
    pub traffic: Option<Traffic>,
}

impl ServiceShape {
    /// Returns the estimate of the memory in bytes.
    pub fn bytes(&self) -> usize {
        let frontends = self.frontends.iter();
        let frontends: usize = frontends
            .map(|frontend| {
                size_of::<Frontend>() + frontend.address.capacity() + frontend.port_name.capacity()
            })
            .sum();
        let nodes = self.nodes.capacity() * size_of::<(Arc<str>, u32, u32)>();
        size_of::<Self>() + self.namespace.capacity() + self.name.capacity() + frontends + nodes
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeRow {
    /// Name.
    pub name: String,
    /// Zone, or "".
    pub zone: String,
    /// True if the condition Ready is true.
    pub ready: bool,
    /// True if the scheduler assigns new Pods.
    pub schedulable: bool,
    /// Addresses, without host names.
    pub addresses: Vec<String>,
    /// Endpoints of all Services on the node.
    pub endpoints: u32,
    /// Health.
    pub health: Health,
}

impl NodeRow {
    /// Returns the estimate of the memory in bytes.
    pub fn bytes(&self) -> usize {
        let addresses = self.addresses.iter();
        let addresses: usize = addresses
            .map(|address| size_of::<String>() + address.capacity())
            .sum();
        size_of::<Self>() + self.name.capacity() + self.zone.capacity() + addresses
    }
}

/// Sums over the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Services.
    pub services: u32,
    /// Ready endpoints of all Services.
    pub endpoints_ready: u32,
    /// Endpoints of all Services.
    pub endpoints: u32,
    /// Findings for which connections fail.
    pub errors: u32,
    /// Findings for which some connections fail.
    pub warnings: u32,
    /// Open connections; absent if no node reports flows.
    pub connections: Option<u64>,
    /// New connections each second; absent if no node reports flows.
    pub connections_per_second: Option<f64>,
}

/// State of a cluster at one revision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Revision. Changes with larger revisions follow it.
    pub revision: u64,
    /// Time of the state.
    #[serde(serialize_with = "as_rfc3339")]
    pub time: Timestamp,
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// Nodes, by name.
    pub nodes: Vec<Arc<NodeRow>>,
    /// Services, by namespace and name.
    pub services: Vec<ServiceRow>,
    /// Sums.
    pub totals: Totals,
    /// True if the flows of at least one node are known.
    pub traffic_known: bool,
    /// Time of the earliest past state that is kept.
    #[serde(serialize_with = "as_optional_rfc3339")]
    pub history_from: Option<Timestamp>,
}

/// Difference between two revisions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Revision after the change.
    pub revision: u64,
    /// Time of the change.
    #[serde(serialize_with = "as_rfc3339")]
    pub time: Timestamp,
    /// New and changed Services.
    pub services: Vec<ServiceRow>,
    /// Removed Services, such as `shop/web`.
    pub removed_services: Vec<String>,
    /// New and changed nodes.
    pub nodes: Vec<Arc<NodeRow>>,
    /// Names of removed nodes.
    pub removed_nodes: Vec<String>,
    /// Sums after the change.
    pub totals: Totals,
}

/// Writes a time in the form of RFC 3339.
///
/// # Errors
///
/// The error of the serializer.
pub fn as_rfc3339<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

fn as_optional_rfc3339<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}
