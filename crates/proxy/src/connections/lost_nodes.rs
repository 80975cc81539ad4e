//! Endpoints whose node has failed. Their connections would wait for TCP timeouts, because no host closes them.
//!
//! The endpoints of a node are lost under three conditions. They left without termination, their Node is unreachable or
//! deleted, and neither the kubelet nor an endpoint of the node answers an attempt to connect. A refusal is an answer,
//! too, so the connections of a node stay if only its kubelet failed. The proxy reads Nodes one by one when endpoints
//! leave. With a watch of all Nodes, each proxy would receive all heartbeats.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::names::dns_subdomain;
use api::object::{Node, ObjectKey, Resource};
use client::{Client, ClientError};
use dataplane::ServiceEndpoints;
use plan::DepartedEndpoint;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, WeakSender};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::worker::Update;

/// Taint of a Node whose kubelet sends no heartbeats.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";
/// Port of the kubelet: the default of `status.daemonEndpoints.kubeletEndpoint.Port`. On another port, the host
/// refuses the connection, which is an answer, too.
const KUBELET_PORT: u16 = 10_250;
/// Capacity of the queue, in batches. A batch holds the endpoints that left in one sync.
pub(crate) const QUEUE_BATCHES_MAX: usize = 256;
/// Times of the checks after an endpoint has left. The Node of the endpoint can change later than the endpoint: for
/// example, it is deleted only after its host was removed. The first check waits for the other endpoints of the node.
const CHECK_DELAYS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(45),
    Duration::from_secs(120),
];
/// Maximum additional delay of the checks by this proxy. The delays differ, so the proxies of a cluster do not
/// read a Node at the same time.
const CHECK_DELAY_MAX: Duration = Duration::from_secs(2);
/// Maximum number of nodes that wait for checks; endpoints of further ones are not checked.
const NODES_MAX: usize = 1_024;
/// Maximum number of nodes that are checked at the same time: 32 requests to the API server, and 256 file descriptors.
const CONCURRENT_NODES_MAX: usize = 32;
/// Maximum number of endpoints of a node: twice the Pods that a large one runs.
const ENDPOINTS_PER_NODE_MAX: usize = 1_024;
/// Maximum number of addresses of a node to which a check connects: several, because a firewall can drop the packets to
/// one endpoint.
const PROBES_PER_NODE_MAX: usize = 8;
/// Time for an address to answer. It covers one retransmission of the SYN.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2_500);

/// Channel for endpoints that left.
pub(crate) type DepartedSender = Sender<Vec<DepartedEndpoint>>;

/// Endpoints of a node with their Services.
type Endpoints = BTreeSet<(ObjectKey, SocketAddr)>;

/// Returns the additional delay of the checks of this node.
pub(crate) fn check_delay(node_name: &str) -> Duration {
    let mut hasher = DefaultHasher::new();
    node_name.hash(&mut hasher);
    let span = u64::try_from(CHECK_DELAY_MAX.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(hasher.finish() % (span + 1))
}

/// Checks the nodes of departed endpoints, and sends the lost endpoints to `updates`. Ends with the sender of
/// `departed`.
pub(crate) async fn check_departed(
    client: Client,
    check_delay: Duration,
    mut departed: Receiver<Vec<DepartedEndpoint>>,
    updates: WeakSender<Update>,
) {
    let mut checks = NodeChecks::new(check_delay);
    let mut running: JoinSet<(Arc<str>, CheckResult)> = JoinSet::new();
    loop {
        let room = CONCURRENT_NODES_MAX.saturating_sub(running.len());
        let next = checks.next().filter(|_| room > 0);
        let wait = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            received = departed.recv() => match received {
                Some(endpoints) => checks.add(endpoints, Instant::now()),
                None => return,
            },
            Some(finished) = running.join_next() => {
                // A check does not panic; without a result, the connections stay.
                let Ok((node, checked)) = finished else {
                    continue;
                };
                let lost = checks.finish(&node, checked);
                let Some(updates) = updates.upgrade().filter(|_| !lost.is_empty()) else {
                    continue;
                };
                if updates.send(Update::EndpointsLost(lost)).await.is_err() {
                    return;
                }
            }
            () = wait => {
                for (node, endpoints) in checks.due(Instant::now(), room) {
                    running.spawn(check(client.clone(), node, endpoints));
                }
            }
        }
    }
}

/// Result of a check.
#[derive(Debug)]
enum CheckResult {
    /// The Node is ready. Its state changes before its endpoints leave, so the endpoints left for another reason.
    Ready,
    /// The state of the node may change, or is not known.
    Undecided,
    /// The node has failed with these endpoints.
    Lost(Endpoints),
}

/// Checks a node with the endpoints that left.
async fn check(client: Client, node: Arc<str>, endpoints: Endpoints) -> (Arc<str>, CheckResult) {
    let path = format!("{}/{node}", Node::collection(None));
    let object = match client.get::<Node>(&path).await {
        Ok(object) if is_unreachable(&object) => Some(object),
        Ok(object) if object.is_ready() => return (node, CheckResult::Ready),
        Ok(_) => return (node, CheckResult::Undecided),
        Err(error) if is_deleted(&error) => None,
        Err(error) => {
            tracing::warn!(%node, %error, "Node of endpoints that left not read");
            return (node, CheckResult::Undecided);
        }
    };
    let checked = if answers(object.as_ref(), &endpoints).await {
        CheckResult::Undecided
    } else {
        CheckResult::Lost(endpoints)
    };
    (node, checked)
}

/// Returns true if the kubelet sends no heartbeats, so the host may have failed. A host whose Node reports that it is
/// not ready has not failed.
fn is_unreachable(node: &Node) -> bool {
    let is_tainted = node
        .spec
        .taints
        .iter()
        .any(|taint| taint.key == UNREACHABLE_TAINT);
    is_tainted
        || node
            .condition("Ready")
            .is_some_and(|ready| ready.status == "Unknown")
}

fn is_deleted(error: &ClientError) -> bool {
    error.code() == Some(404)
}

/// Returns true if the host of a Node, or one of its endpoints, answers. A NetworkPolicy may drop connections from
/// nodes to endpoints, but not those to hosts.
async fn answers(node: Option<&Node>, endpoints: &Endpoints) -> bool {
    let hosts = node.map(kubelet_addresses).unwrap_or_default();
    any_answers(hosts).await || any_answers(sample(endpoints)).await
}

/// Returns the addresses of the kubelet.
fn kubelet_addresses(node: &Node) -> Vec<SocketAddr> {
    let internal = node
        .status
        .addresses
        .iter()
        .filter(|address| address.kind == "InternalIP");
    let ips = internal.filter_map(|address| address.address.parse().ok());
    ips.map(|ip| SocketAddr::new(ip, KUBELET_PORT))
        .take(PROBES_PER_NODE_MAX)
        .collect()
}

/// Returns addresses of endpoints, of as many Services as possible.
fn sample(endpoints: &Endpoints) -> Vec<SocketAddr> {
    let step = endpoints.len().div_ceil(PROBES_PER_NODE_MAX).max(1);
    let chosen = endpoints.iter().step_by(step);
    chosen.map(|(_, address)| *address).collect()
}

/// Returns true if one of the addresses answers an attempt to connect.
async fn any_answers(addresses: Vec<SocketAddr>) -> bool {
    let mut attempts: JoinSet<bool> = JoinSet::new();
    for address in addresses {
        attempts.spawn(async move {
            let connected = tokio::time::timeout(ANSWER_TIMEOUT, TcpStream::connect(address)).await;
            connected.is_ok_and(|result| !result.is_err_and(|error| means_no_answer(error.kind())))
        });
    }
    while let Some(finished) = attempts.join_next().await {
        // An attempt does not panic; without a result, the connections stay.
        if finished.unwrap_or(true) {
            return true;
        }
    }
    false
}

/// Returns true for errors without an answer of the address: a timeout, or an unreachable host or network. A refusal is
/// an answer.
fn means_no_answer(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}

/// Nodes to check.
#[derive(Debug)]
struct NodeChecks {
    nodes: BTreeMap<Arc<str>, NodeCheck>,
    /// Additional delay of all checks.
    check_delay: Duration,
}

/// Checks of one node.
#[derive(Debug)]
struct NodeCheck {
    endpoints: Endpoints,
    /// Time from which the delays count.
    begin: Instant,
    /// Number of the next check.
    index: usize,
}

impl NodeCheck {
    /// Returns the time of the next check; `None` after the last one.
    fn at(&self) -> Option<Instant> {
        CHECK_DELAYS.get(self.index).map(|delay| self.begin + *delay)
    }
}

impl NodeChecks {
    fn new(check_delay: Duration) -> Self {
        Self {
            nodes: BTreeMap::new(),
            check_delay,
        }
    }

    /// Adds endpoints that left now. The checks of their nodes begin again.
    fn add(&mut self, departed: Vec<DepartedEndpoint>, now: Instant) {
        let begin = now + self.check_delay;
        for DepartedEndpoint {
            service,
            endpoint,
            node,
        } in departed
        {
            // A slice may contain any text, and the name becomes a part of a path.
            if !dns_subdomain(&node).is_empty() {
                continue;
            }
            if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(&node) {
                continue;
            }
            let check = self.nodes.entry(node).or_insert_with(|| NodeCheck {
                endpoints: BTreeSet::new(),
                begin,
                index: 0,
            });
            if check.endpoints.len() < ENDPOINTS_PER_NODE_MAX {
                check.endpoints.insert((service, endpoint));
            }
            if check.index > 0 {
                (check.begin, check.index) = (begin, 0);
            }
        }
    }

    /// Returns the time of the next check.
    fn next(&self) -> Option<Instant> {
        self.nodes.values().filter_map(NodeCheck::at).min()
    }

    /// Returns the nodes to check now with their endpoints, at most `nodes_max`. Nodes without a further check are
    /// removed.
    fn due(&mut self, now: Instant, nodes_max: usize) -> Vec<(Arc<str>, Endpoints)> {
        let mut due = Vec::new();
        self.nodes.retain(|node, check| {
            if due.len() < nodes_max && check.at().is_some_and(|at| at <= now) {
                check.index += 1;
                due.push((node.clone(), check.endpoints.clone()));
            }
            check.at().is_some()
        });
        due
    }

    /// Applies the result of a check. Returns the lost endpoints.
    fn finish(&mut self, node: &str, checked: CheckResult) -> ServiceEndpoints {
        match checked {
            CheckResult::Ready => {
                // Endpoints that left during the check begin checks of their own.
                if self.nodes.get(node).is_some_and(|check| check.index > 0) {
                    self.nodes.remove(node);
                }
                HashSet::new()
            }
            CheckResult::Undecided => HashSet::new(),
            CheckResult::Lost(lost) => {
                if let Some(check) = self.nodes.get_mut(node) {
                    check.endpoints.retain(|endpoint| !lost.contains(endpoint));
                    if check.endpoints.is_empty() {
                        self.nodes.remove(node);
                    }
                }
                let lost = lost.into_iter();
                lost.map(|(service, endpoint)| (service, endpoint.ip())).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
