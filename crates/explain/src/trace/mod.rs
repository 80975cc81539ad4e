//! Path of a connection, from the name that a client uses to the endpoints, computed from the objects and by
//! [`plan::Plan::decide`]. The module performs no I/O.
//!
//! - [`Destination`], [`ClientName`]: the connection, as the user names it
//! - `resolver`, `cluster_dns`, `name`: search list, answers of cluster DNS, and the resolution of a name
//! - `node_settings`, `objects`: inputs of the plans of nodes
//! - `ping`: decisions about echo requests
//! - `decision`: paths of the first packet; `explanation`, `endpoints` and `route` give the reasons
//! - [`live`]: packets that were sent, compared with a path
//! - `report`: result, which programs read as JSON
//!
//! ```
//! use explain::World;
//! use explain::trace::{Request, trace};
//! use serde_json::json;
//!
//! let mut world = World::builder();
//! world.add(json!([
//!     {"kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
//!      "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}]}},
//!     {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "web-1",
//!      "labels": {"kubernetes.io/service-name": "web"}}, "addressType": "IPv4",
//!      "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": ["10.244.1.2"]}]},
//!     {"kind": "Pod", "metadata": {"namespace": "shop", "name": "cart"}, "spec": {"nodeName": "node-a"},
//!      "status": {"podIP": "10.244.1.9"}}]));
//! let request = Request::new("http://web/".parse()?, "pod/shop/cart".parse()?);
//! let trace = trace(&world.build(), &request)?;
//! assert_eq!(trace.verdict.as_str(), "reaches");
//! assert_eq!(trace.paths[0].endpoints[0].port, 8080);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod cluster_dns;
mod decision;
mod destination;
mod endpoints;
mod explanation;
pub mod live;
mod name;
mod node_settings;
mod objects;
mod ping;
mod report;
mod resolver;
mod route;

use std::fmt;
use std::net::IpAddr;

pub use client::{Client, ClientError, ClientKind, ClientName, InvalidClient};
pub use cluster_dns::{Answer, AnswerKind};
use decision::{Connection, DecidingNodes};
pub use destination::{Destination, Host, InvalidDestination};
pub use name::NameResolution;
use name::{ResolvedName, resolve};
use node_settings::PlanNode;
pub use node_settings::{NodePorts, ProxySettings};
pub use report::{ChosenEndpoint, EndpointState, ExcludedEndpoint, Path, Step, StepKind, Trace, Verdict};
pub use resolver::{NameServers, Resolver};

use crate::examination::{Options, Scope, examine};
use crate::finding::{Finding, ObjectName};
use crate::kind::Kind;
use crate::world::World;

/// Domain of clusters, unless they are configured otherwise.
pub const CLUSTER_DOMAIN_DEFAULT: &str = "cluster.local";

/// Nodes whose decisions are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// Node of the client. For a client outside of the cluster: the node with the address of the destination, or else
    /// all nodes.
    #[default]
    OfClient,
    /// Node that packets of a client outside of the cluster reach.
    Named(String),
    /// All nodes.
    All,
}

/// Connection to trace, with settings that the objects do not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Destination.
    pub destination: Destination,
    /// Client.
    pub client: ClientName,
    /// Nodes that decide.
    pub nodes: Nodes,
    /// Domain of the cluster.
    pub cluster_domain: String,
    /// Search list of the nodes, which Pods inherit.
    pub host_searches: Vec<String>,
    /// Settings of the node proxies.
    pub proxy: ProxySettings,
}

impl Request {
    /// Returns a request with the default settings.
    pub fn new(destination: Destination, client: ClientName) -> Self {
        Self {
            destination,
            client,
            nodes: Nodes::default(),
            cluster_domain: CLUSTER_DOMAIN_DEFAULT.to_owned(),
            host_searches: Vec::new(),
            proxy: ProxySettings::default(),
        }
    }
}

/// Reasons why a connection cannot be traced. A retry with other objects can help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// The objects do not describe the client.
    Client(ClientError),
    /// The input has no Node with the requested name.
    Node(String),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Node(name) => write!(f, "the input has no node/{name}"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::Node(_) => None,
        }
    }
}

impl From<ClientError> for TraceError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Traces a connection.
///
/// # Errors
///
/// A [`TraceError`] if the objects do not describe the client or the requested node.
pub fn trace(world: &World, request: &Request) -> Result<Trace, TraceError> {
    let client = Client::find(world, &request.client)?;
    let (name, resolved) = resolved_host(world, request, &client);
    let mut found = Trace {
        destination: request.destination.clone(),
        client,
        name,
        paths: Vec::new(),
        verdict: Verdict::NoName,
        reason: String::new(),
        findings: Vec::new(),
    };
    let service = match resolved {
        ResolvedName::Addresses { addresses, service } => {
            let deciding_nodes = deciding_nodes(world, request, &found.client, &addresses)?;
            let connection = Connection {
                world,
                client: &found.client,
                port: request.destination.port,
                protocol: request.destination.protocol,
                is_ping: request.destination.is_ping(),
                named: service.as_ref(),
                proxy: &request.proxy,
            };
            found.paths = connection.paths(&addresses, &deciding_nodes);
            let worst = worst_path(&found.paths);
            if let Some((verdict, reason)) = worst.map(|path| (path.verdict, path.reason.clone())) {
                found.verdict = verdict;
                found.reason = reason;
            }
            service.or_else(|| service_of(&found.paths))
        }
        ResolvedName::Outside { reason, service, .. } => {
            found.verdict = Verdict::LeavesTheCluster;
            found.reason = reason;
            service
        }
        ResolvedName::NoName { reason, service, .. } => {
            found.reason = reason;
            service
        }
    };
    if let Some((namespace, name)) = service {
        found.findings = findings(world, request, &found, namespace, name);
    }
    Ok(found)
}

/// Resolves the host of the destination. An address, and a name of a node, have no resolution by DNS.
fn resolved_host(
    world: &World,
    request: &Request,
    client: &Client,
) -> (Option<NameResolution>, ResolvedName) {
    let without_dns = |addresses: Vec<IpAddr>| {
        let service = None;
        (None, ResolvedName::Addresses { addresses, service })
    };
    let host = match &request.destination.host {
        Host::Address(address) => return without_dns(vec![*address]),
        Host::Name(host) => host,
    };
    if let Some(addresses) = node_named(world, host, client) {
        return without_dns(addresses);
    }
    let (domain, searches) = (&request.cluster_domain, &request.host_searches);
    let (name, resolved) = resolve(world, client, host, domain, searches);
    (Some(name), resolved)
}

/// Returns the path with the worst verdict. A client without an address of one family uses the other family.
fn worst_path(paths: &[Path]) -> Option<&Path> {
    let usable = paths.iter().filter(|path| path.source.is_some());
    usable.max_by_key(|path| path.verdict).or(paths.first())
}

/// Returns the addresses of a node for its name, which is not a name of a Service to the client.
fn node_named(world: &World, host: &str, client: &Client) -> Option<Vec<IpAddr>> {
    let node = world.node(host)?;
    let is_service = world.service(&client.namespace, host).is_some();
    let addresses = node.primary_ips();
    (!is_service && !addresses.is_empty()).then_some(addresses)
}

/// Returns the nodes whose plans decide.
fn deciding_nodes(
    world: &World,
    request: &Request,
    client: &Client,
    addresses: &[IpAddr],
) -> Result<DecidingNodes, TraceError> {
    let step = |text: &str| Step::new(StepKind::Node, text);
    let unnamed = || vec![PlanNode::named(world, "")];
    let all = |text: &str| {
        let nodes = PlanNode::all(world);
        DecidingNodes {
            nodes: if nodes.is_empty() { unnamed() } else { nodes },
            reason: step(text),
        }
    };
    match &request.nodes {
        Nodes::All => return Ok(all("decisions of all nodes")),
        Nodes::Named(name) => {
            if world.has(Kind::Node) && world.node(name).is_none() {
                return Err(TraceError::Node(name.clone()));
            }
            return Ok(DecidingNodes {
                nodes: vec![PlanNode::named(world, name)],
                reason: step("the node that the user names receives the packet"),
            });
        }
        Nodes::OfClient => {}
    }
    if client.kind == ClientKind::Outside {
        let receiving = world
            .nodes()
            .find(|node| node.ips().iter().any(|address| addresses.contains(address)));
        return Ok(match receiving {
            Some(node) => DecidingNodes {
                nodes: vec![PlanNode::named(world, &node.name)],
                reason: step("the destination is an address of the node").by(node.0, "status.addresses"),
            },
            None => all("any node can receive packets from outside"),
        });
    }
    let reason = match world.object(Kind::Pod, &client.namespace, &client.name) {
        Some(pod) if client.kind == ClientKind::Pod => match client.node.as_str() {
            "" => step("the Pod has no node yet").by(pod, "spec.nodeName"),
            _ => step("the client runs on the node").by(pod, "spec.nodeName"),
        },
        _ => step("the client is the node"),
    };
    let nodes = vec![PlanNode::named(world, &client.node)];
    Ok(DecidingNodes { nodes, reason })
}

/// Returns the Service of the first frontend of the paths.
fn service_of(paths: &[Path]) -> Option<(String, String)> {
    let steps = paths.iter().flat_map(|path| &path.steps);
    let mut objects = steps.filter_map(|step| step.object.as_ref());
    let service = objects.find(|object| object.kind == Kind::Service.name())?;
    Some((service.namespace.clone(), service.name.clone()))
}

/// Returns the findings of a Service, without those about Pods that are neither the client nor behind the Service.
fn findings(
    world: &World,
    request: &Request,
    found: &Trace,
    namespace: String,
    name: String,
) -> Vec<Finding> {
    let node = match &request.nodes {
        Nodes::OfClient => Some(found.client.node.clone()).filter(|node| !node.is_empty()),
        Nodes::Named(name) => Some(name.clone()),
        Nodes::All => None,
    };
    let service = world.service(&namespace, &name);
    let is_concerned = |object: &ObjectName| {
        let is_client = object.namespace == found.client.namespace && object.name == found.client.name;
        let pod = world.object(Kind::Pod, &object.namespace, &object.name);
        let is_selected = pod.zip(service).is_some_and(|(pod, service)| {
            pod.namespace == service.namespace && service.selects(|key| pod.label(key))
        });
        object.kind != Kind::Pod.name() || is_client || is_selected
    };
    let findings = examine(world, &Scope::Service { namespace, name }, &Options { node });
    findings
        .into_iter()
        .filter(|finding| is_concerned(&finding.object))
        .collect()
}

#[cfg(test)]
mod tests;
