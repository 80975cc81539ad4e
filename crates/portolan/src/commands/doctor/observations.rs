//! Observations that the nodes of the cluster give through the API server.

use std::str::FromStr;
use std::time::{Duration, Instant};

use agent::server::reports::ReportKind;
use api::object::ObjectKey;
use clap::{ArgAction, Args};
use client::{Client, ClientError};
use explain::observation::{API_VERSION, KIND};
use explain::{Kind, NodeObservation};

use super::client::ExaminedClient;
use super::source::Source;
use crate::error::CommandError;
use crate::flags::values::duration;
use crate::node_observation::Cluster;
use crate::node_reports::{self, Reports};

/// Maximum number of Nodes that are observed for one Service. All of them are read at the same time.
const NODES_OF_SERVICE_MAX: usize = node_reports::CONCURRENT_MAX;
/// Maximum number of Nodes that are observed on request: their observations are in memory at the same time.
const NODES_MAX: usize = 256;

/// Flags of the observations of nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Observations of nodes")]
pub(super) struct ObservationFlags {
    /// Nodes to observe through their agents: `none`, `all`, names, or `auto`. With a named Service, `auto` selects the
    /// nodes of its endpoints and of the client; otherwise none
    #[arg(long, default_value = "auto", value_name = "auto|none|all|NAME,…", conflicts_with_all = ["from_file", "interval"])]
    nodes: NodeSelection,
    /// Let these nodes send packets to the endpoints and addresses of the Service [default: true if --from is a Pod]
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = ArgAction::Set,
        value_name = "BOOL",
        conflicts_with_all = ["from_file", "interval"]
    )]
    probe: Option<bool>,
    /// Send packets from this host, as a client outside of the cluster, to the node ports, load balancer IPs and
    /// external IPs of the examined Services
    #[arg(long, conflicts_with = "interval")]
    probe_outside: bool,
    /// Time for the observation of a node. 16 are read at a time; a warning names each one that is late
    #[arg(long, default_value = "4s", value_name = "DURATION", value_parser = duration, conflicts_with_all = ["from_file", "interval"])]
    timeout: Duration,
}

/// Nodes to observe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeSelection {
    /// Nodes of the client, and of the endpoints of a named Service.
    Auto,
    /// No nodes.
    None,
    /// All nodes.
    All,
    /// Nodes by their names.
    Named(Vec<String>),
}

impl FromStr for NodeSelection {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "all" => Ok(Self::All),
            names => {
                let names: Vec<String> = names.split(',').map(str::to_owned).collect();
                if names.iter().any(String::is_empty) {
                    return Err("expected auto, none, all, or names of nodes with commas between them");
                }
                Ok(Self::Named(names))
            }
        }
    }
}

impl ObservationFlags {
    /// Returns true if this host sends probes to the addresses of the examined Services.
    pub(super) fn probes_outside(&self) -> bool {
        self.probe_outside
    }

    /// Reads observations, and adds them to the objects. Returns the reasons why they are less than the user expects.
    ///
    /// # Errors
    ///
    /// An error if an observation cannot be encoded.
    pub(super) async fn add(
        &self,
        client: &Client,
        source: &mut Source,
        service: Option<&ObjectKey>,
        examined_client: &ExaminedClient,
    ) -> Result<Vec<String>, CommandError> {
        let mut nodes = self.nodes.of(source, service, examined_client);
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let start = Instant::now();
        match self.discover(client).await {
            Discovery::Served => {}
            Discovery::NotServed if self.nodes == NodeSelection::Auto => return Ok(Vec::new()),
            Discovery::NotServed => {
                return Ok(vec!["the server does not serve observations of nodes".to_owned()]);
            }
            Discovery::Unknown(reason) => return Ok(vec![format!("no node is observed: {reason}")]),
        }
        let report_timeout = self.timeout.saturating_sub(start.elapsed());
        let most = match self.nodes {
            NodeSelection::Auto => NODES_OF_SERVICE_MAX,
            _ => NODES_MAX,
        };
        let mut problems = Vec::new();
        if nodes.len() > most {
            problems.push(format!("only {most} of {} nodes are observed", nodes.len()));
            nodes.truncate(most);
        }
        let probes = self.probe.unwrap_or(examined_client.pod.is_some());
        let mut parameters = vec![("probe", probes.to_string())];
        parameters.extend(service.map(|service| ("service", service.to_string())));
        let mut from_pod = parameters.clone();
        from_pod.extend(examined_client.pod.as_ref().map(|pod| ("from", pod.to_string())));
        let (own, others): (Vec<String>, Vec<String>) = nodes
            .into_iter()
            .partition(|node| examined_client.pod.is_some() && examined_client.node.as_ref() == Some(node));
        let kind = ReportKind::Observation;
        let (own, others) = tokio::join!(
            node_reports::read(client, kind, &own, &from_pod, report_timeout),
            node_reports::read(client, kind, &others, &parameters, report_timeout)
        );
        for reports in [own, others] {
            add_reports(source, reports, &mut problems)?;
        }
        Ok(problems)
    }

    /// Finds out if the server has observations of nodes.
    async fn discover(&self, client: &Client) -> Discovery {
        let served = node_reports::is_served(client, ReportKind::Observation);
        match tokio::time::timeout(self.timeout, served).await {
            Ok(Ok(true)) => Discovery::Served,
            Ok(Ok(false)) => Discovery::NotServed,
            Ok(Err(ClientError::Status { status, .. })) => Discovery::Unknown(status.message),
            Ok(Err(error)) => Discovery::Unknown(error.to_string()),
            Err(_) => Discovery::Unknown(format!(
                "the server listed no resources within {:.1} s",
                self.timeout.as_secs_f64()
            )),
        }
    }
}

/// Knowledge about the observations that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Discovery {
    Served,
    NotServed,
    /// The server did not respond, for this reason.
    Unknown(String),
}

impl NodeSelection {
    /// Returns the names of the nodes, that of the client first.
    fn of(
        &self,
        source: &Source,
        service: Option<&ObjectKey>,
        examined_client: &ExaminedClient,
    ) -> Vec<String> {
        let mut nodes = match self {
            Self::None => Vec::new(),
            Self::Named(names) => names.clone(),
            Self::All => {
                let nodes = source.builder.trees(Kind::Node);
                nodes
                    .filter_map(|node| Some(node["metadata"]["name"].as_str()?.to_owned()))
                    .collect()
            }
            Self::Auto => service.map_or_else(Vec::new, |service| nodes_of(source, service, examined_client)),
        };
        let mut seen = std::collections::BTreeSet::new();
        nodes.retain(|node| !node.is_empty() && seen.insert(node.clone()));
        nodes
    }
}

/// Returns the node of the client, and those of the endpoints of a Service.
fn nodes_of(source: &Source, service: &ObjectKey, examined_client: &ExaminedClient) -> Vec<String> {
    let cluster = Cluster::read(&source.builder, Some(service));
    let endpoints = cluster
        .endpoints_of(service)
        .into_iter()
        .map(|endpoint| endpoint.node);
    examined_client.node.iter().cloned().chain(endpoints).collect()
}

/// Adds the observations to the objects. An observation of another node would replace that one's own.
fn add_reports(
    source: &mut Source,
    reports: Reports<NodeObservation>,
    problems: &mut Vec<String>,
) -> Result<(), CommandError> {
    for (node, mut observation) in reports.found {
        if observation.metadata.name != node {
            problems.push(format!(
                "node {node} is not observed: its agent sent the observation of another node"
            ));
            continue;
        }
        API_VERSION.clone_into(&mut observation.api_version);
        KIND.clone_into(&mut observation.kind);
        source.builder.add(serde_json::to_value(&observation)?);
    }
    if reports.is_forbidden && !source.forbidden.contains(&KIND) {
        source.forbidden.push(KIND);
    }
    let unobserved = reports.problems.into_iter();
    problems.extend(unobserved.map(|(node, reason)| format!("node {node} is not observed: {reason}")));
    Ok(())
}

#[cfg(test)]
mod tests;
