//! The statistics of the attacked server, measured while the attack runs.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::Client;
use serde_json::Value;
use testbed::Member;

use crate::Failure;
use crate::environment::run_in;
use crate::percentiles::Percentiles;
use crate::proxy::changes::replace;
use crate::proxy::wait_for;

/// Pause between two requests of the administrator.
const READ_PAUSE: Duration = Duration::from_millis(10);
/// Interval between reads of the Node's Lease.
const LEASE_PAUSE: Duration = Duration::from_millis(250);
/// Pause between two changes of an endpoint.
const CHANGE_PAUSE: Duration = Duration::from_millis(50);
/// Timeout of a request; a failed one counts with this duration.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Statistics of one attack.
pub(super) struct Statistics {
    /// Times of the administrator's GET on an open connection.
    pub reads: Percentiles,
    /// Requests of the administrator that failed.
    pub reads_failed: usize,
    /// Longest time without a renewal of the Node's Lease.
    pub lease_gap_longest: Duration,
    /// Times from the write of an endpoint to the first connection that reaches it.
    pub changes: Percentiles,
}

/// Measured server, with the clients of the measurement.
pub(super) struct MeasuredServer<'a> {
    /// Member with the measuring clients.
    pub node: &'a Member,
    /// Creates a client of the administrator.
    pub administrator: &'a (dyn Fn() -> Result<Client, Failure> + Sync),
    /// The Service whose endpoint is replaced.
    pub service: SocketAddr,
    /// The two endpoints that alternate.
    pub backends: [IpAddr; 2],
}

impl MeasuredServer<'_> {
    /// Measures until `is_over`.
    pub(super) fn measure(&self, is_over: &AtomicBool) -> Result<Statistics, Failure> {
        let (reads, lease, changes) = std::thread::scope(|scope| {
            let reads = scope.spawn(|| run_in(self.node, async || self.measure_reads(is_over).await));
            let lease = scope.spawn(|| run_in(self.node, async || self.lease_gap(is_over).await));
            let changes = scope.spawn(|| run_in(self.node, async || self.measure_changes(is_over).await));
            (reads.join(), lease.join(), changes.join())
        });
        let panicked = |_| Failure::from("a measuring thread panicked");
        let (reads, reads_failed) = reads.map_err(panicked)??;
        Ok(Statistics {
            reads: Percentiles::of(reads).ok_or("no measurement")?,
            reads_failed,
            lease_gap_longest: lease.map_err(panicked)??,
            changes: Percentiles::of(changes.map_err(panicked)??).ok_or("no measurement")?,
        })
    }

    async fn measure_reads(&self, is_over: &AtomicBool) -> Result<(Vec<Duration>, usize), Failure> {
        let client = (self.administrator)()?;
        let (mut times, mut failed) = (Vec::new(), 0);
        while !is_over.load(Ordering::Relaxed) {
            let started = Instant::now();
            let read = client.get::<Value>("/api/v1/namespaces/default");
            match tokio::time::timeout(READ_TIMEOUT, read).await {
                Ok(Ok(_)) => {}
                _ => failed += 1,
            }
            times.push(started.elapsed());
            tokio::time::sleep(READ_PAUSE).await;
        }
        Ok((times, failed))
    }

    async fn lease_gap(&self, is_over: &AtomicBool) -> Result<Duration, Failure> {
        let client = (self.administrator)()?;
        let nodes: Value = client.get("/api/v1/nodes").await?;
        let name = nodes["items"][0]["metadata"]["name"]
            .as_str()
            .ok_or("the cluster has no Node")?;
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
        client.get::<Value>(&path).await?;
        let (mut last, mut renewed, mut longest) = (Value::Null, Instant::now(), Duration::ZERO);
        while !is_over.load(Ordering::Relaxed) {
            if let Ok(Ok(lease)) = tokio::time::timeout(READ_TIMEOUT, client.get::<Value>(&path)).await
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

    async fn measure_changes(&self, is_over: &AtomicBool) -> Result<Vec<Duration>, Failure> {
        let client = (self.administrator)()?;
        let mut times = Vec::new();
        for backend in self.backends.iter().cycle() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let started = Instant::now();
            replace(&client, super::SERVICE_NAME, backend).await?;
            wait_for(self.service, *backend)?;
            times.push(started.elapsed());
            tokio::time::sleep(CHANGE_PAUSE).await;
        }
        Ok(times)
    }
}
