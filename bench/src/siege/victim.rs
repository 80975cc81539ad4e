//! The figures of the attacked server, measured while the attack runs.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::Client;
use serde_json::Value;
use testbed::Member;

use crate::Failure;
use crate::percentiles::Percentiles;
use crate::proxy::changes::replace;
use crate::proxy::wait_for;
use crate::setting::run_in;

/// Pause between two requests of the administrator.
const READ_PAUSE: Duration = Duration::from_millis(10);
/// Pause between two looks at the Node's Lease.
const LEASE_PAUSE: Duration = Duration::from_millis(250);
/// Pause between two changes of an endpoint.
const CHANGE_PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for an answer; it counts as that long.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// Figures of one attack.
pub struct Figures {
    /// Times of the administrator's GET on an open connection.
    pub reads: Percentiles,
    /// Requests of the administrator that failed.
    pub reads_failed: usize,
    /// Longest time without a renewal of the Node's Lease.
    pub lease_gap_longest: Duration,
    /// Times from the write of an endpoint to the first connection that reaches it.
    pub changes: Percentiles,
}

/// The parties to a measurement.
pub struct Victim<'a> {
    /// Member that runs the measuring clients.
    pub node: &'a Member,
    /// Makes the administrator's client.
    pub administrator: &'a (dyn Fn() -> Result<Client, Failure> + Sync),
    /// The Service whose endpoint is replaced.
    pub service: SocketAddr,
    /// The two endpoints that take turns.
    pub backends: [IpAddr; 2],
}

impl Victim<'_> {
    /// Measures until `is_over`.
    pub fn measure(&self, is_over: &AtomicBool) -> Result<Figures, Failure> {
        let (reads, lease, changes) = std::thread::scope(|scope| {
            let reads = scope.spawn(|| run_in(self.node, async || self.reads(is_over).await));
            let lease = scope.spawn(|| run_in(self.node, async || self.lease_gap(is_over).await));
            let changes = scope.spawn(|| run_in(self.node, async || self.changes(is_over).await));
            (reads.join(), lease.join(), changes.join())
        });
        let broke = |_| Failure::from("a measuring thread broke");
        let (reads, reads_failed) = reads.map_err(broke)??;
        Ok(Figures {
            reads: Percentiles::of(reads).ok_or("no request was measured")?,
            reads_failed,
            lease_gap_longest: lease.map_err(broke)??,
            changes: Percentiles::of(changes.map_err(broke)??).ok_or("no change was measured")?,
        })
    }

    async fn reads(&self, is_over: &AtomicBool) -> Result<(Vec<Duration>, usize), Failure> {
        let client = (self.administrator)()?;
        let (mut times, mut failed) = (Vec::new(), 0);
        while !is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let read = client.get::<Value>("/api/v1/namespaces/default");
            match tokio::time::timeout(READ_LIMIT, read).await {
                Ok(Ok(_)) => {}
                _ => failed += 1,
            }
            times.push(begun.elapsed());
            tokio::time::sleep(READ_PAUSE).await;
        }
        Ok((times, failed))
    }

    async fn lease_gap(&self, is_over: &AtomicBool) -> Result<Duration, Failure> {
        let client = (self.administrator)()?;
        let nodes: Value = client.get("/api/v1/nodes").await?;
        let name = nodes["items"][0]["metadata"]["name"]
            .as_str()
            .ok_or("the machine has no Node")?;
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
        client.get::<Value>(&path).await?;
        let (mut last, mut renewed, mut longest) = (Value::Null, Instant::now(), Duration::ZERO);
        while !is_over.load(Ordering::Relaxed) {
            if let Ok(Ok(lease)) = tokio::time::timeout(READ_LIMIT, client.get::<Value>(&path)).await
                && lease["spec"]["renewTime"] != last
            {
                last = lease["spec"]["renewTime"].clone();
                renewed = Instant::now();
            }
            longest = longest.max(renewed.elapsed());
            tokio::time::sleep(LEASE_PAUSE).await;
        }
        Ok(longest)
    }

    async fn changes(&self, is_over: &AtomicBool) -> Result<Vec<Duration>, Failure> {
        let client = (self.administrator)()?;
        let mut times = Vec::new();
        for backend in self.backends.iter().cycle() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            replace(&client, super::SERVICE_NAME, backend).await?;
            wait_for(self.service, *backend)?;
            times.push(begun.elapsed());
            tokio::time::sleep(CHANGE_PAUSE).await;
        }
        Ok(times)
    }
}
