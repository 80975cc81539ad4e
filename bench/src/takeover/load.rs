//! Requests at a fixed rate from several network namespaces, each from a thread of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netlink::route::NetworkNamespace;
use tokio::net::UdpSocket;
use tokio::time::MissedTickBehavior;

use super::request;
use crate::Failure;

/// Time after which a request without response has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of requests of a client in flight: the rate of a client times the timeout is below.
const IN_FLIGHT_MAX: usize = 8_192;
/// UDP sockets of a client that send several queries, as those of a forwarder do.
const KEPT_SOCKETS: usize = 8;

/// Kind of request.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Request over TCP; the name is for the report.
    Http(&'static str, SocketAddr),
    /// Query over UDP from a new socket.
    Dns(SocketAddr),
    /// Query over UDP from one of [`KEPT_SOCKETS`] sockets.
    DnsKept(SocketAddr),
}

impl Target {
    fn name(&self) -> &'static str {
        match self {
            Self::Http(name, _) => name,
            Self::Dns(_) => "DNS",
            Self::DnsKept(_) => "DNS, kept socket",
        }
    }
}

/// Client in a network namespace.
pub(super) struct ClientLocation {
    /// Name for the report.
    pub name: String,
    /// Namespace.
    pub namespace: NetworkNamespace,
    /// Targets, requested in turn. A target that appears twice gets twice the rate.
    pub targets: Vec<Target>,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Requests that have ended.
    pub requests: u64,
    /// Requests without a successful response in time.
    pub failed: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.failed += other.failed;
    }
}

/// Results of requests.
#[derive(Debug, Default)]
pub(super) struct RequestResults {
    /// Requests over new connections and from new sockets.
    pub new: Counts,
    /// Queries from kept UDP sockets, which have a conntrack entry from before the step.
    pub kept: Counts,
    /// Longest time of a successful response.
    pub longest: Duration,
    /// Failures by client, target and error: number, and times of the first and the last one.
    pub failures: BTreeMap<String, (u64, Instant, Instant)>,
}

impl RequestResults {
    /// Adds requests that were in flight at the end. Their failures are reported by themselves.
    pub(super) fn add(&mut self, last: Self) {
        self.new.add(last.new);
        self.kept.add(last.kept);
        self.longest = self.longest.max(last.longest);
    }

    fn record(&mut self, place: &str, target: &Target, started: Instant, error: Option<String>) {
        let counts = match target {
            Target::Http(..) | Target::Dns(_) => &mut self.new,
            Target::DnsKept(_) => &mut self.kept,
        };
        counts.requests += 1;
        let Some(error) = error else {
            self.longest = self.longest.max(started.elapsed());
            return;
        };
        counts.failed += 1;
        let key = format!("{place}, {}: {error}", target.name());
        let entry = self.failures.entry(key).or_insert((0, started, started));
        *entry = (entry.0 + 1, entry.1.min(started), entry.2.max(started));
    }
}

/// Load that runs until it is stopped.
pub(super) struct Load {
    tally: Arc<Mutex<RequestResults>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), Failure>>>,
}

impl Load {
    /// Starts the clients. `rate` is the number of requests a second of all targets together.
    pub(super) fn start(places: Vec<ClientLocation>, rate: u32) -> Self {
        let (tally, is_over) = (Arc::default(), Arc::default());
        let targets: usize = places.iter().map(|place| place.targets.len()).sum();
        let threads = places
            .into_iter()
            .map(|place| {
                let share = f64::from(rate) * place.targets.len() as f64 / targets as f64;
                let (tally, is_over) = (Arc::clone(&tally), Arc::clone(&is_over));
                std::thread::spawn(move || run(&place, share, &tally, &is_over))
            })
            .collect();
        Self {
            tally,
            is_over,
            threads,
        }
    }

    /// Results since the previous call.
    pub(super) fn take(&self) -> RequestResults {
        std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops the clients and waits for requests in flight.
    pub(super) fn stop(self) -> Result<RequestResults, Failure> {
        self.is_over.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().map_err(|_| "a client panicked")??;
        }
        Ok(std::mem::take(
            &mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}

fn run(
    place: &ClientLocation,
    rate: f64,
    tally: &Arc<Mutex<RequestResults>>,
    is_over: &AtomicBool,
) -> Result<(), Failure> {
    place.namespace.enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(send_all(place, rate, tally, is_over))
    })?
}

async fn send_all(
    place: &ClientLocation,
    rate: f64,
    tally: &Arc<Mutex<RequestResults>>,
    is_over: &AtomicBool,
) -> Result<(), Failure> {
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let permits = Arc::new(tokio::sync::Semaphore::new(IN_FLIGHT_MAX));
    let sockets = Arc::new(Mutex::new(Vec::new()));
    for target in place.targets.iter().cycle() {
        ticks.tick().await;
        if is_over.load(Ordering::Acquire) {
            break;
        }
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let (name, target) = (place.name.clone(), target.clone());
        let (tally, sockets) = (Arc::clone(tally), Arc::clone(&sockets));
        tokio::spawn(async move {
            let started = Instant::now();
            let result = tokio::time::timeout(REQUEST_TIMEOUT, send(&target, &sockets)).await;
            let error = match result {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("no response in time".to_owned()),
            };
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.record(&name, &target, started, error);
            drop(permit);
        });
    }
    let all = u32::try_from(IN_FLIGHT_MAX)?;
    drop(permits.acquire_many(all).await?);
    Ok(())
}

async fn send(target: &Target, sockets: &Mutex<Vec<UdpSocket>>) -> std::io::Result<()> {
    match target {
        Target::Http(_, server) => request::http(*server).await,
        Target::Dns(server) => request::dns(&request::dns_socket(*server).await?, super::DNS_NAME).await,
        Target::DnsKept(server) => {
            let kept = sockets.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let socket = match kept {
                Some(socket) => socket,
                None => request::dns_socket(*server).await?,
            };
            let result = request::dns(&socket, super::DNS_NAME).await;
            let mut sockets = sockets.lock().unwrap_or_else(PoisonError::into_inner);
            if sockets.len() < KEPT_SOCKETS {
                sockets.insert(0, socket);
            }
            result
        }
    }
}
