//! Parts of a trace that programs read. The names of the fields are stable.

use std::net::IpAddr;

use plan::PORT_RANGES_ANNOTATION;
use serde::Serialize;

use super::client::Client;
use super::destination::Destination;
use super::name::NameResolution;
use crate::finding::{Finding, ObjectName};
use crate::object::Object;

/// Way of a connection from a client to its endpoints, as the objects and the plans of nodes describe it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trace {
    /// Destination that the client names.
    pub destination: Destination,
    /// Client.
    pub client: Client,
    /// Resolution of the name; absent for an address.
    pub name: Option<NameResolution>,
    /// Ways to the addresses of the destination. Nodes with the same decision share a path, and so do addresses that
    /// differ only in their endpoint.
    pub paths: Vec<Path>,
    /// Verdict about the whole connection: the worst one of the paths.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: String,
    /// Findings of the Service that concern this connection.
    pub findings: Vec<Finding>,
}

/// Result of a connection, the best one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// The connection reaches an endpoint.
    #[serde(rename = "reaches")]
    Reaches,
    /// The destination is a host outside of the cluster.
    #[serde(rename = "leaves the cluster")]
    LeavesTheCluster,
    /// The destination is a process of a node, and no Service.
    #[serde(rename = "not a Service")]
    NotAService,
    /// The connection is rejected.
    #[serde(rename = "refused")]
    Refused,
    /// The packets are dropped, so the client waits.
    #[serde(rename = "dropped")]
    Dropped,
    /// The name has no address.
    #[serde(rename = "no name")]
    NoName,
}

impl Verdict {
    /// Returns the name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reaches => "reaches",
            Self::LeavesTheCluster => "leaves the cluster",
            Self::NotAService => "not a Service",
            Self::Refused => "refused",
            Self::Dropped => "dropped",
            Self::NoName => "no name",
        }
    }
}

/// Way to an address of the destination.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Path {
    /// Nodes whose plans decide alike about the packet. Empty if no plan decides.
    pub nodes: Vec<String>,
    /// Addresses of the destination. A headless Service has several.
    pub addresses: Vec<IpAddr>,
    /// Source address of the packet.
    pub source: Option<IpAddr>,
    /// Decisions, in order.
    pub steps: Vec<Step>,
    /// Endpoints that receive the connection.
    pub endpoints: Vec<ChosenEndpoint>,
    /// Other endpoints of the Service port, with the reasons.
    pub excluded: Vec<ExcludedEndpoint>,
    /// Time for which a client keeps its endpoint after the last connection (`sessionAffinity`).
    pub affinity_seconds: Option<u32>,
    /// Verdict.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: String,
}

impl Path {
    /// Returns true if a port range of a Service leads to the endpoints. The kernel chooses them then, in every mode.
    pub fn ends_at_port_range(&self) -> bool {
        let field = port_ranges_field();
        let mut steps = self.steps.iter();
        steps.any(|step| step.step == StepKind::Scheduler && step.field == field)
    }
}

/// Returns the field of the annotation for port ranges.
pub(super) fn port_ranges_field() -> String {
    format!("metadata.annotations[{PORT_RANGES_ANNOTATION}]")
}

/// Part of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// Node that decides, and the reason for it.
    Node,
    /// Frontend with the address and port of the destination.
    Frontend,
    /// Another Service that claims the frontend.
    Conflict,
    /// Source ranges of a load balancer.
    SourceRanges,
    /// Traffic policy.
    TrafficPolicy,
    /// Topology hints.
    Topology,
    /// Scheduler of connections.
    Scheduler,
    /// Session affinity.
    Affinity,
    /// Masquerading.
    Masquerade,
    /// Way to a destination that is not a Service address.
    Route,
}

impl StepKind {
    /// Returns the human-readable name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Frontend => "frontend",
            Self::Conflict => "conflict",
            Self::SourceRanges => "source ranges",
            Self::TrafficPolicy => "traffic policy",
            Self::Topology => "topology",
            Self::Scheduler => "scheduler",
            Self::Affinity => "affinity",
            Self::Masquerade => "masquerade",
            Self::Route => "route",
        }
    }
}

/// A decision on the way, with the object and field that caused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Part of the decision.
    pub step: StepKind,
    /// Result with its reason.
    pub result: String,
    /// Object that decided; absent if a setting of the proxy decided.
    pub object: Option<ObjectName>,
    /// Field of that object, or "".
    pub field: String,
}

impl Step {
    /// Returns a step that no object decided.
    pub fn new(step: StepKind, result: impl Into<String>) -> Self {
        Self {
            step,
            result: result.into(),
            object: None,
            field: String::new(),
        }
    }

    /// Returns the step with the object and the field that decided.
    #[must_use]
    pub fn by(mut self, object: &Object, field: impl Into<String>) -> Self {
        self.object = Some(object.object_name());
        self.field = field.into();
        self
    }
}

/// State of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointState {
    /// Namespace and name of the Pod, such as `shop/web-1`, or "".
    pub pod: String,
    /// Node, or "".
    pub node: String,
    /// Zone, or "".
    pub zone: String,
    /// True if the endpoint is ready.
    pub ready: bool,
    /// True if the endpoint serves.
    pub serving: bool,
    /// True if the endpoint terminates.
    pub terminating: bool,
}

/// Endpoint that receives the connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChosenEndpoint {
    /// Address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// Part of the connections of many clients, from 0 to 1.
    pub chance: f64,
    /// True if the endpoint sees an address of the node instead of the client's.
    pub masquerade: bool,
    /// State.
    #[serde(flatten)]
    pub state: EndpointState,
    /// Container that declares the port; "" if no container declares it, absent if the Pod is unknown.
    pub declared_by: Option<String>,
}

/// Endpoint that receives no connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedEndpoint {
    /// Address, as text: it may be invalid.
    pub address: String,
    /// Port; absent if its slice does not have the port.
    pub port: Option<u16>,
    /// State.
    #[serde(flatten)]
    pub state: EndpointState,
    /// Reason.
    pub reason: String,
    /// Object that decided.
    pub object: ObjectName,
    /// Field of that object.
    pub field: String,
}
