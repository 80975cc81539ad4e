//! Comparison of a trace, which is computed from the plan, with packets that were sent through the kernel.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::client::{Client, ClientKind};
use super::report::{ChosenEndpoint, Path, Verdict};

/// Endpoints that a text names; the trace has all.
const ENDPOINTS_SHOWN: usize = 4;

/// Connections that were sent, with their comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Live {
    /// Mode of the node proxy; absent if it is unknown.
    pub mode: Option<String>,
    /// Facts that were read of the kernel.
    pub evidence: Evidence,
    /// Reasons why something was not read.
    pub notes: Vec<String>,
    /// Connections, in the order in which they were sent.
    pub connections: Vec<Connection>,
}

/// Facts that were read besides the responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// True if conntrack entries were read.
    pub conntrack: bool,
    /// True if the rules of nftables were traced.
    pub rules: bool,
    /// True if the kernel of this node chooses the endpoint. In userspace mode a process does, except for port ranges. For
    /// a node port of another node, that node does.
    pub translation: bool,
}

/// A connection, or a datagram, that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Source address and port of the client.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Response.
    pub response: Response,
    /// Milliseconds until the response.
    pub milliseconds: u64,
    /// Decision of an eBPF program when the client connected; absent if no program decided, or the decision was not read.
    pub at_connect: Option<AtConnect>,
    /// Conntrack entry; absent if the connection has no entry, or the entry was not read.
    pub entry: Option<Entry>,
    /// Rules of nftables that the first packet met, in order.
    pub rules: Vec<MatchedRule>,
    /// Differences between plan and kernel.
    pub disagreements: Vec<Disagreement>,
}

impl Connection {
    /// Returns the endpoint that the kernel chose, with the address of the client that it sees.
    fn translation(&self) -> Option<Entry> {
        match self.at_connect {
            Some(AtConnect::Endpoint(endpoint)) => Some(Entry {
                endpoint,
                client_seen: self.source.ip(),
            }),
            Some(AtConnect::Refused) => None,
            None => self.entry,
        }
    }
}

/// Decision of an eBPF program when a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AtConnect {
    /// The connection leads to this endpoint.
    Endpoint(SocketAddr),
    /// The connection is refused.
    Refused,
}

/// Response to a connection or datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// The connection is open, or a datagram came back.
    Answered,
    /// TCP reset of the handshake, or ICMP port unreachable.
    Refused,
    /// Another ICMP error, or no route.
    Unreachable,
    /// Nothing within the timeout.
    Timeout,
    /// The kernel dropped or rejected the packet on output.
    NotPermitted,
    /// Another error of the socket.
    Failed,
}

impl Response {
    /// Returns the human-readable text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Timeout => "no response",
            Self::NotPermitted => "dropped or rejected on output",
            Self::Failed => "failed",
        }
    }
}

/// Conntrack entry of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Source of replies: the endpoint that the kernel chose, or the destination itself.
    pub endpoint: SocketAddr,
    /// Destination of replies: the address that the endpoint sees.
    pub client_seen: IpAddr,
}

/// Rule that a packet met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchedRule {
    /// Family and table, such as `inet portolan`.
    pub table: String,
    /// Chain.
    pub chain: String,
    /// Verdict, such as `jump services`.
    pub verdict: String,
    /// True if the verdict ends the packet.
    pub drops: bool,
}

/// Difference between plan and kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// Decision of the plan.
    pub plan: String,
    /// Behaviour of the kernel.
    pub kernel: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan: {}, kernel: {}", self.plan, self.kernel)
    }
}

impl Disagreement {
    fn new(plan: impl Into<String>, kernel: impl Into<String>) -> Self {
        Self {
            plan: plan.into(),
            kernel: kernel.into(),
        }
    }
}

impl Live {
    /// Returns true if a connection disagrees with the plan.
    pub fn has_disagreement(&self) -> bool {
        self.connections
            .iter()
            .any(|connection| !connection.disagreements.is_empty())
    }

    /// Fills the disagreements of the connections with a path.
    pub fn compare(&mut self, path: &Path, client: &Client) {
        for connection in &mut self.connections {
            connection.disagreements = disagreements(path, client, connection, self.evidence)
                .into_iter()
                .collect();
        }
        self.compare_affinity(path);
    }

    /// A client with session affinity keeps its endpoint.
    fn compare_affinity(&mut self, path: &Path) {
        if path.affinity_seconds.is_none() || !self.evidence.translation {
            return;
        }
        let entries = self.connections.iter().filter_map(Connection::translation);
        let endpoints: BTreeSet<SocketAddr> = entries.map(|entry| entry.endpoint).collect();
        if let (2.., Some(last)) = (endpoints.len(), self.connections.last_mut()) {
            let chosen: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
            last.disagreements.push(Disagreement::new(
                "session affinity, so one endpoint for all connections",
                format!("endpoints {}", chosen.join(" and ")),
            ));
        }
    }
}

/// Compares a connection with a path.
pub fn disagreements(
    path: &Path,
    client: &Client,
    connection: &Connection,
    evidence: Evidence,
) -> Option<Disagreement> {
    let is_translated = |entry: &Entry| evidence.translation && entry.endpoint != connection.destination;
    let translated = connection.translation().filter(is_translated);
    match path.verdict {
        Verdict::Reaches => compare_forwarded(path, client, connection, evidence),
        Verdict::Refused => {
            let is_refused = matches!(connection.response, Response::Refused | Response::NotPermitted);
            unwanted_translation(translated, "refuses the connection").or_else(|| {
                (!is_refused).then(|| response_disagreement("refuses the connection", connection))
            })
        }
        Verdict::Dropped => {
            let is_dropped = matches!(connection.response, Response::Timeout | Response::NotPermitted);
            unwanted_translation(translated, "drops the packets")
                .or_else(|| (!is_dropped).then(|| response_disagreement("drops the packets", connection)))
        }
        Verdict::LeavesTheCluster | Verdict::NotAService => {
            unwanted_translation(translated, "forwards the packets without translation")
        }
        Verdict::NoName => None,
    }
}

fn unwanted_translation(translated: Option<Entry>, plan: &str) -> Option<Disagreement> {
    translated
        .map(|entry| Disagreement::new(plan, format!("translates the destination to {}", entry.endpoint)))
}

/// The response contradicts the plan.
fn response_disagreement(plan: &str, connection: &Connection) -> Disagreement {
    Disagreement::new(plan, connection.response.as_str())
}

/// Compares a connection that the plan forwards to an endpoint.
fn compare_forwarded(
    path: &Path,
    client: &Client,
    connection: &Connection,
    evidence: Evidence,
) -> Option<Disagreement> {
    let plan = || format!("forwards to {}", endpoints(&path.endpoints));
    if let Some(rule) = connection.rules.iter().find(|rule| rule.drops) {
        let kernel = format!(
            "drops or rejects the packet in chain {} of table {}",
            rule.chain, rule.table
        );
        return Some(Disagreement::new(plan(), kernel));
    }
    if !evidence.translation || (!evidence.conntrack && connection.at_connect.is_none()) {
        return None;
    }
    if connection.at_connect == Some(AtConnect::Refused) {
        return Some(Disagreement::new(
            plan(),
            "an eBPF program refuses the connection",
        ));
    }
    let Some(entry) = connection.translation() else {
        let kernel = match connection.response {
            Response::Answered => "answered by a connection without a conntrack entry".to_owned(),
            other => format!("{}, without a conntrack entry", other.as_str()),
        };
        return Some(Disagreement::new(plan(), kernel));
    };
    let is_chosen =
        |endpoint: &&ChosenEndpoint| SocketAddr::new(endpoint.address, endpoint.port) == entry.endpoint;
    let Some(endpoint) = path.endpoints.iter().find(is_chosen) else {
        let kernel = if entry.endpoint == connection.destination {
            "does not translate the destination".to_owned()
        } else {
            format!("translates the destination to {}", entry.endpoint)
        };
        return Some(Disagreement::new(plan(), kernel));
    };
    // Nothing translates the packets of such a connection.
    if connection.at_connect.is_some() {
        return None;
    }
    // Masquerading can leave the address of a process of the node as it is.
    let is_masqueraded = entry.client_seen != connection.source.ip();
    if client.kind == ClientKind::Node || is_masqueraded == endpoint.masquerade {
        return None;
    }
    let plan = if endpoint.masquerade {
        "masquerades"
    } else {
        "does not masquerade"
    };
    Some(Disagreement::new(
        format!("{plan} connections to {}", entry.endpoint),
        format!("the endpoint sees {}", entry.client_seen),
    ))
}

fn endpoints(all: &[ChosenEndpoint]) -> String {
    let shown = all.iter().take(ENDPOINTS_SHOWN);
    let shown: Vec<String> = shown
        .map(|endpoint| SocketAddr::new(endpoint.address, endpoint.port).to_string())
        .collect();
    let more = match all.len().saturating_sub(ENDPOINTS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests;
