//! Endpoints whose node has died. Their connections would wait for timeouts of TCP, because no host closes them.
//!
//! An endpoint is lost if it left without termination, its Node is unreachable or deleted, and it does not answer an
//! attempt to connect. The attempt keeps the connections of a node on which only the kubelet failed. Nodes are read one by
//! one when endpoints leave; a watch of all Nodes would cost each proxy their heartbeats.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::names::dns_subdomain;
use api::object::{Node, Resource};
use client::{Client, ClientError};
use plan::Departed;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, WeakSender};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::worker::Update;

/// Taint of a Node whose kubelet sends no heartbeats.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";
/// Capacity of the queue, in batches. A batch holds the endpoints that left in one sync.
pub(crate) const QUEUE_BATCHES_MAX: usize = 256;
/// Times of the checks after an endpoint has left. Its Node may change later than the endpoint: it may be deleted only
/// when its host is gone. The first check waits for the other endpoints of the node.
const CHECK_DELAYS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(45),
    Duration::from_secs(120),
];
/// Maximum of nodes that are checked at the same time; endpoints of further ones are not checked.
const NODES_MAX: usize = 1_024;
/// Maximum of endpoints of a node: twice the Pods that a large one runs.
const ENDPOINTS_PER_NODE_MAX: usize = 1_024;
/// Time for an endpoint to answer. It covers one retransmission of the SYN.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Maximum of attempts to connect at the same time; each needs a file descriptor.
const ATTEMPTS_MAX: usize = 128;

/// Channel for endpoints that left.
pub(crate) type DepartedSender = Sender<Vec<Departed>>;

/// Checks the nodes of departed endpoints, and sends the lost endpoints to `updates`. Ends with the sender of `departed`.
pub(crate) async fn check_departed(
    client: Client,
    mut departed: Receiver<Vec<Departed>>,
    updates: WeakSender<Update>,
) {
    let mut checks = Checks::default();
    loop {
        let next = checks.next();
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
            () = wait => {
                let lost = check_due(&client, &mut checks).await;
                let Some(updates) = updates.upgrade().filter(|_| !lost.is_empty()) else {
                    continue;
                };
                if updates.send(Update::EndpointsLost(lost)).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Runs the checks that are due. Returns the addresses of lost endpoints.
async fn check_due(client: &Client, checks: &mut Checks) -> HashSet<IpAddr> {
    let mut suspects = Vec::new();
    for (node, endpoints) in checks.due(Instant::now()) {
        let path = format!("{}/{node}", Node::collection(None));
        match client.get::<Node>(&path).await {
            Ok(object) if !is_unreachable(&object) => {}
            Err(error) if !is_deleted(&error) => {
                tracing::warn!(%node, %error, "Node of departed endpoints not read");
            }
            Ok(_) | Err(_) => suspects.extend(endpoints),
        }
    }
    let silent = silent(suspects).await;
    checks.remove(&silent);
    silent
}

/// Returns true if the kubelet sends no heartbeats, so that the host may be dead. A Node that reports itself not ready is
/// alive.
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

/// Returns the addresses of the endpoints that do not answer.
async fn silent(endpoints: Vec<SocketAddr>) -> HashSet<IpAddr> {
    let mut remaining = endpoints.into_iter();
    let mut attempts: JoinSet<Option<IpAddr>> = JoinSet::new();
    let attempt = |endpoint: SocketAddr| async move {
        let connected = tokio::time::timeout(ANSWER_TIMEOUT, TcpStream::connect(endpoint)).await;
        let is_silent = connected.map_or(true, |result| {
            result.is_err_and(|error| means_silence(error.kind()))
        });
        is_silent.then_some(endpoint.ip())
    };
    for endpoint in remaining.by_ref().take(ATTEMPTS_MAX) {
        attempts.spawn(attempt(endpoint));
    }
    let mut silent = HashSet::new();
    while let Some(finished) = attempts.join_next().await {
        // An attempt does not panic; without a result, its connections stay.
        silent.extend(finished.ok().flatten());
        if let Some(endpoint) = remaining.next() {
            attempts.spawn(attempt(endpoint));
        }
    }
    silent
}

/// Returns true for an error that no host caused by an answer, and this node not by itself.
fn means_silence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}

/// Nodes to check.
#[derive(Debug, Default)]
struct Checks(BTreeMap<Arc<str>, Check>);

/// Checks of one node.
#[derive(Debug)]
struct Check {
    endpoints: BTreeSet<SocketAddr>,
    begin: Instant,
    /// Number of the next check.
    index: usize,
}

impl Check {
    /// Returns the time of the next check; `None` after the last one.
    fn at(&self) -> Option<Instant> {
        CHECK_DELAYS.get(self.index).map(|delay| self.begin + *delay)
    }
}

impl Checks {
    /// Adds endpoints that left now. The checks of their nodes begin again.
    fn add(&mut self, departed: Vec<Departed>, now: Instant) {
        for Departed { endpoint, node } in departed {
            // A slice may contain any text, and the name becomes a part of a path.
            if !dns_subdomain(&node).is_empty() {
                continue;
            }
            if self.0.len() >= NODES_MAX && !self.0.contains_key(&node) {
                continue;
            }
            let check = self.0.entry(node).or_insert_with(|| Check {
                endpoints: BTreeSet::new(),
                begin: now,
                index: 0,
            });
            if check.endpoints.len() < ENDPOINTS_PER_NODE_MAX {
                check.endpoints.insert(endpoint);
            }
            if check.index > 0 {
                (check.begin, check.index) = (now, 0);
            }
        }
    }

    /// Returns the time of the next check.
    fn next(&self) -> Option<Instant> {
        self.0.values().filter_map(Check::at).min()
    }

    /// Returns the nodes to check now with their endpoints. Nodes without a further check are removed.
    fn due(&mut self, now: Instant) -> Vec<(Arc<str>, BTreeSet<SocketAddr>)> {
        let mut due = Vec::new();
        self.0.retain(|node, check| {
            if check.at().is_some_and(|at| at <= now) {
                check.index += 1;
                due.push((node.clone(), check.endpoints.clone()));
            }
            check.at().is_some()
        });
        due
    }

    /// Removes endpoints whose loss is known.
    fn remove(&mut self, addresses: &HashSet<IpAddr>) {
        self.0.retain(|_, check| {
            check
                .endpoints
                .retain(|endpoint| !addresses.contains(&endpoint.ip()));
            !check.endpoints.is_empty()
        });
    }
}

#[cfg(test)]
mod tests;
