//! End of the cold start: the measured Service answers, the kernel has all virtual servers, the first sync has ended.
//!
//! A proxy in IPVS mode adds virtual servers one by one, in an order of its own. It writes rules or address sets
//! afterwards. So the answer of one Service is not the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::wait_for_within;
use crate::Failure;

#[cfg(test)]
mod tests;

/// Virtual servers of the network namespace of the calling thread, as text (`net/netfilter/ipvs/ip_vs_ctl.c`).
const SERVERS_FILE: &str = "/proc/thread-self/net/ip_vs";
/// Port 80 of the Services, as the kernel writes it.
const SERVICE_PORT: &str = ":0050";
/// Pause after a reading of the virtual servers, in durations of the reading: the reader takes a fifth of one
/// processor at most.
const PAUSE_READINGS: u32 = 4;
/// Address of the metrics of a proxy, Portolan's and kube-proxy's by default.
const METRICS_ADDRESS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 10_249);
/// Time of the last sync in seconds since the epoch, of Portolan and kube-proxy.
const LAST_SYNC: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} ";
/// Pause between two requests for metrics. The metric contains the time, so the pause does not limit the precision.
const METRICS_PAUSE: Duration = Duration::from_millis(500);

/// Flags of the cold start.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cold start")]
pub(super) struct Flags {
    /// Print when the kernel has the virtual servers of all Services, too; IPVS mode only
    #[arg(long)]
    virtual_servers: bool,
    /// Print when the first sync ended according to the metrics of the proxy, too; changes follow it
    #[arg(long)]
    first_sync: bool,
    /// Limit of the cold start and of each change, in seconds
    #[arg(long, default_value_t = 120)]
    timeout_seconds: u64,
}

impl Flags {
    /// Limit of the cold start and of each change.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

/// Time of exec, by two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    instant: Instant,
    since_epoch: Duration,
}

impl Start {
    /// Returns the present time.
    pub(super) fn now() -> Result<Self, Failure> {
        Ok(Self {
            instant: Instant::now(),
            since_epoch: SystemTime::now().duration_since(UNIX_EPOCH)?,
        })
    }
}

/// Numbers of virtual servers at the port of the Services, and of their endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VirtualServers {
    /// Virtual servers.
    pub servers: usize,
    /// Destinations of all virtual servers.
    pub endpoints: usize,
}

/// Waits for the end of the cold start and prints its times since `start`. Runs in the namespace of the node.
pub(super) fn run(
    flags: &Flags,
    service: SocketAddr,
    backend: IpAddr,
    expected: VirtualServers,
    start: Start,
) -> Result<(), Failure> {
    wait_for_within(service, backend, flags.timeout())?;
    println!(
        "cold start: last Service answers {:.3} s after exec",
        start.instant.elapsed().as_secs_f64()
    );
    let deadline = start.instant + flags.timeout();
    if flags.virtual_servers {
        wait_for_servers(expected, deadline)?;
        println!(
            "cold start: all {} virtual servers with endpoints {:.3} s after exec",
            expected.servers,
            start.instant.elapsed().as_secs_f64()
        );
    }
    if flags.first_sync {
        let ended = wait_for_sync(deadline)?;
        println!(
            "cold start: first sync ended {:.3} s after exec",
            ended - start.since_epoch.as_secs_f64()
        );
    }
    Ok(())
}

/// Reads the virtual servers until all are there.
fn wait_for_servers(expected: VirtualServers, deadline: Instant) -> Result<(), Failure> {
    loop {
        let reading = Instant::now();
        let table = fs::read_to_string(SERVERS_FILE)
            .map_err(|error| format!("cannot read {SERVERS_FILE}: {error}"))?;
        let found = count(&table);
        if found == expected {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("expected {expected:?}, found {found:?}").into());
        }
        std::thread::sleep(reading.elapsed() * PAUSE_READINGS);
    }
}

/// Counts different virtual servers and endpoints: while servers are added, the kernel may list one twice.
fn count(table: &str) -> VirtualServers {
    let mut endpoints_of = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut server = None;
    for line in table.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next(), server) {
            (Some("->"), Some(endpoint), Some(server)) => {
                endpoints_of.entry(server).or_default().insert(endpoint);
            }
            (Some("TCP"), Some(address), _) if address.ends_with(SERVICE_PORT) => {
                endpoints_of.entry(address).or_default();
                server = Some(address);
            }
            _ => server = None,
        }
    }
    VirtualServers {
        servers: endpoints_of.len(),
        endpoints: endpoints_of.values().map(BTreeSet::len).sum(),
    }
}

/// Reads the metrics until they contain a sync. Returns its time in seconds since the epoch.
fn wait_for_sync(deadline: Instant) -> Result<f64, Failure> {
    loop {
        match read_metrics() {
            Ok(metrics) => {
                if let Some(ended) = last_sync(&metrics) {
                    return Ok(ended);
                }
            }
            // The proxy does not listen yet.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(format!("cannot read the metrics of the proxy: {error}").into()),
        }
        if Instant::now() > deadline {
            return Err("the metrics of the proxy contain no sync".into());
        }
        std::thread::sleep(METRICS_PAUSE);
    }
}

/// Response of the proxy to a request for its metrics. HTTP/1.0 has no chunks, and the server closes the connection.
fn read_metrics() -> std::io::Result<String> {
    let mut stream = TcpStream::connect(METRICS_ADDRESS)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Time of the last sync in seconds since the epoch; `None` before the first one.
fn last_sync(metrics: &str) -> Option<f64> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(LAST_SYNC))?;
    value.trim().parse().ok().filter(|seconds| *seconds > 0.0)
}
