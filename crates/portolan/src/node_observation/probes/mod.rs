//! Probes: packets to the endpoints and addresses of Services, and their outcomes.
//!
//! [`targets`] and [`outside`] select them from the objects, the other modules send them. Each probe has a timeout,
//! their number is bounded, and several run at the same time.

mod arp;
mod connection;
mod datagram;
mod outside;
mod path_mtu;
mod targets;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use explain::observation::{Outcome, Probe, ProbeSource};

use super::cluster::Cluster;
use super::pods::PodNamespace;
pub(super) use targets::{Job, Request, Selection};

/// Time for connections and datagrams.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Time for a response to an HTTP request. Applications are slower than kernels.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Maximum number of probes at the same time.
const CONCURRENT_MAX: usize = 64;
/// Time after which no further probe starts.
const START_TIMEOUT: Duration = Duration::from_secs(1);

/// Result of sending a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProbeAnswer {
    outcome: Outcome,
    /// Time until the outcome.
    elapsed: Duration,
    status: Option<u16>,
    answers: Option<Vec<String>>,
    expires: Option<String>,
    detail: Option<String>,
}

impl ProbeAnswer {
    fn of(outcome: Outcome, elapsed: Duration) -> Self {
        Self {
            outcome,
            elapsed,
            status: None,
            answers: None,
            expires: None,
            detail: None,
        }
    }

    /// Returns the answer for an error, with its text.
    fn failed(error: &std::io::Error, elapsed: Duration) -> Self {
        Self {
            detail: Some(error.to_string()),
            ..Self::of(outcome_of(error), elapsed)
        }
    }
}

/// Returns the outcome that an error of a socket stands for.
fn outcome_of(error: &std::io::Error) -> Outcome {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => Outcome::Refused,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => Outcome::Reset,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Outcome::Timeout,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Outcome::Unreachable,
        ErrorKind::UnexpectedEof => Outcome::Closed,
        // A rule that rejects with "administratively prohibited".
        ErrorKind::PermissionDenied => Outcome::Unreachable,
        _ => Outcome::Other,
    }
}

/// Sends the probes. The result has their order. Returns true if some were not sent in time.
pub(super) fn run(jobs: Vec<Job>, pods: &[PodNamespace]) -> (Vec<Probe>, bool) {
    let number = jobs.len();
    let queue: Mutex<VecDeque<(usize, Job)>> = Mutex::new(jobs.into_iter().enumerate().collect());
    let done: Mutex<Vec<(usize, Probe)>> = Mutex::new(Vec::with_capacity(number));
    let start = Instant::now();
    let work = || {
        while start.elapsed() < START_TIMEOUT {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((position, job)) = next else { return };
            if let Some(probe) = send(job, pods) {
                done.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((position, probe));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..CONCURRENT_MAX.min(number) {
            scope.spawn(work);
        }
    });
    let is_truncated = !queue
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .is_empty();
    let mut probes = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    probes.sort_by_key(|(position, _)| *position);
    (probes.into_iter().map(|(_, probe)| probe).collect(), is_truncated)
}

/// Sends probes from this host, as a client outside of the cluster, to the addresses of the examined Services. `own`
/// are the addresses of this host. Returns true if some were not sent in time.
pub(crate) fn run_outside(cluster: &Cluster, own: &[IpAddr]) -> (Vec<Probe>, bool) {
    run(outside::jobs(cluster, own), &[])
}

/// Sends a probe from its network namespace; `None` if it cannot be sent or has no result.
fn send(job: Job, pods: &[PodNamespace]) -> Option<Probe> {
    let Job { mut probe, request } = job;
    let answer = match &probe.from {
        ProbeSource::Pod(pod) => {
            let namespace = pods.iter().find(|found| found.pod == *pod)?;
            namespace.namespace.enter(|| send_request(&request)).ok()?
        }
        ProbeSource::Node | ProbeSource::Outside => send_request(&request),
    }?;
    probe.outcome = answer.outcome;
    probe.milliseconds = u64::try_from(answer.elapsed.as_millis()).ok();
    probe.status = answer.status;
    probe.answers = answer.answers;
    probe.expires = answer.expires;
    probe.detail = answer.detail;
    Some(probe)
}

fn send_request(request: &Request) -> Option<ProbeAnswer> {
    match request {
        Request::Tcp(target) => Some(connection::open(*target, TIMEOUT)),
        Request::Http {
            target,
            host,
            has_proxy_header,
        } => Some(connection::http(
            *target,
            host,
            *has_proxy_header,
            RESPONSE_TIMEOUT,
        )),
        Request::Tls(target) => Some(connection::tls(*target, TIMEOUT)),
        Request::Udp(target) => datagram::send_empty(*target, TIMEOUT),
        Request::Dns { server, name, kind } => Some(datagram::send_dns_query(*server, name, *kind, TIMEOUT)),
        Request::PathMtu { target, bytes } => path_mtu::send(*target, *bytes, TIMEOUT),
        Request::Arp {
            link,
            own,
            requester,
            target,
        } => arp::resolve(*link, *own, *requester, *target, TIMEOUT),
    }
}

#[cfg(test)]
mod tests;
