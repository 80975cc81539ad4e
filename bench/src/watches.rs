//! How long a change takes to reach every one of many watches.

mod connection;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use self::connection::Connection;
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::server::{self, ServerFlags};
use crate::world;

/// Where the watched slices are, so that nobody else's changes are counted.
const NAMESPACE: &str = "bench-watch";
/// Writes under way at a time; more wait, and are told as such.
const IN_FLIGHT_MAX: usize = 64;
/// How long the last change may take to arrive.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(30);

/// Flags of `bench watch`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Watches
    #[arg(long, default_value_t = 1_000)]
    watches: usize,
    /// Connections that they share
    #[arg(long, default_value_t = 20)]
    connections: usize,
    /// Changes a second
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Seconds of changes
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// EndpointSlices that are changed by turns
    #[arg(long, default_value_t = 100)]
    slices: usize,
    /// Endpoints of each
    #[arg(long, default_value_t = 10)]
    endpoints: usize,
    /// File that gets a line for each change: seconds since the first request, milliseconds from the answer to the writer
    /// until the last watch had it
    #[arg(long, value_name = "FILE")]
    each: Option<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
}

/// When each change has reached how many watches, by its place in the order of changes. Every watch gets all changes in
/// that order, so counting lines is enough.
struct Arrivals {
    start: Instant,
    last_nanoseconds: Vec<AtomicU64>,
    count: Vec<AtomicU32>,
}

/// A change that was acknowledged.
struct Write {
    revision: u64,
    sent: Instant,
    answered: Instant,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    server::run(
        &flags.server,
        async |config| measure(flags, config).await,
        |_| Ok(()),
    )
}

async fn measure(flags: &Flags, config: Config) -> Result<(), Failure> {
    let writer = Client::new(config.clone())?;
    let start = prepare(&writer, flags).await?;
    let changes = (flags.rate * flags.seconds) as usize;
    let arrivals = Arc::new(Arrivals {
        start: Instant::now(),
        last_nanoseconds: (0..changes).map(|_| AtomicU64::new(0)).collect(),
        count: (0..changes).map(|_| AtomicU32::new(0)).collect(),
    });
    let path = format!("{}?watch=true&resourceVersion={start}", slices());
    let mut reading = read(config, path, flags, arrivals.clone())?;
    reading.ready().await?;
    let mut writes = change(&writer, flags, changes).await?;
    wait_for_last(&arrivals, flags.watches, &mut reading).await?;
    writes.sort_unstable_by_key(|write| write.revision);
    tell(flags, &arrivals, &writes)?;
    if let Some(file) = &flags.each {
        write_each(file, &arrivals, &writes)?;
    }
    drop(reading);
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    writer
        .send(Method::DELETE, &namespace, JSON, Bytes::new())
        .await?;
    Ok(())
}

/// The thread that reads the watches: what it does must not hold up the one that writes.
struct Reading {
    is_ready: Option<oneshot::Receiver<()>>,
    /// Resolves with what went wrong; dropping it ends the thread.
    ended: oneshot::Receiver<Failure>,
}

impl Reading {
    /// Resolves when all watches are open.
    async fn ready(&mut self) -> Result<(), Failure> {
        let ready = self.is_ready.take().ok_or("asked twice")?;
        match ready.await {
            Ok(()) => Ok(()),
            Err(_) => Err((&mut self.ended).await.unwrap_or_else(Failure::from)),
        }
    }

    /// An error if a watch has ended.
    fn must_go_on(&mut self) -> Result<(), Failure> {
        match self.ended.try_recv() {
            Ok(error) => Err(error),
            Err(_) => Ok(()),
        }
    }
}

fn read(config: Config, path: String, flags: &Flags, arrivals: Arc<Arrivals>) -> Result<Reading, Failure> {
    let (ready, is_ready) = oneshot::channel();
    let (mut end, ended) = oneshot::channel::<Failure>();
    let (watches, connections) = (flags.watches, flags.connections.max(1));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("watches".to_owned())
        .spawn(move || {
            let reading = read_all(&config, &path, watches, connections, arrivals, ready);
            let outcome = runtime.block_on(async {
                tokio::select! {
                    Err(error) = reading => Some(error),
                    () = end.closed() => None,
                    else => None,
                }
            });
            if let Some(error) = outcome {
                // Nobody listens once the measuring is over.
                end.send(error).ok();
            }
        })?;
    Ok(Reading {
        is_ready: Some(is_ready),
        ended,
    })
}

async fn read_all(
    config: &Config,
    path: &str,
    watches: usize,
    connections: usize,
    arrivals: Arc<Arrivals>,
    ready: oneshot::Sender<()>,
) -> Result<(), Failure> {
    let mut open = Vec::new();
    for number in 0..connections {
        let share = watches / connections + usize::from(number < watches % connections);
        open.push((share, Connection::open(config, path, share).await?));
    }
    ready.send(()).map_err(|()| "nobody waits for the watches")?;
    let mut tasks = JoinSet::new();
    for (share, connection) in open {
        let arrivals = arrivals.clone();
        let mut next = vec![0; share];
        tasks.spawn(connection.read(move |watch, lines| arrivals.note(&mut next[watch], lines)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

impl Arrivals {
    /// Notes that a watch, which was told all changes before `next`, was told some more.
    fn note(&self, next: &mut usize, lines: usize) -> Result<(), Failure> {
        let now = u64::try_from(self.start.elapsed().as_nanos())?;
        for change in *next..*next + lines {
            let (Some(last), Some(count)) = (self.last_nanoseconds.get(change), self.count.get(change))
            else {
                return Err("a watch told more than was changed".into());
            };
            last.fetch_max(now, Ordering::Relaxed);
            count.fetch_add(1, Ordering::Release);
        }
        *next += lines;
        Ok(())
    }
}

fn slices() -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")
}

/// Makes the slices; gives the revision from which to watch.
async fn prepare(client: &Client, flags: &Flags) -> Result<String, Failure> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    client
        .request(Method::POST, "/api/v1/namespaces", JSON, Some(&namespace))
        .await?;
    for number in 0..flags.slices {
        let addresses: Vec<_> = (0..flags.endpoints)
            .map(|e| world::nobody(number * flags.endpoints + e))
            .collect();
        let slice = world::slice(&format!("s-{number}"), &addresses);
        client
            .request(Method::POST, &slices(), JSON, Some(&slice))
            .await?;
    }
    let list: Value = client.get(&slices()).await?;
    let revision = list["metadata"]["resourceVersion"].as_str();
    Ok(revision.ok_or("a list without resourceVersion")?.to_owned())
}

/// Changes slices at the wanted rate.
async fn change(client: &Client, flags: &Flags, changes: usize) -> Result<Vec<Write>, Failure> {
    let places = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / flags.rate.max(1));
    let mut tasks = JoinSet::new();
    for number in 0..changes {
        ticks.tick().await;
        let place = places.clone().acquire_owned().await?;
        let client = client.clone();
        let path = format!("{}/s-{}-1", slices(), number % flags.slices.max(1));
        let patch = json!({"metadata": {"annotations": {"bench": number.to_string()}}});
        tasks.spawn(async move {
            let sent = Instant::now();
            let changed = client
                .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
                .await?;
            let answered = Instant::now();
            drop(place);
            let revision = changed["metadata"]["resourceVersion"].as_str().map(str::parse);
            let revision = revision.ok_or("an object without resourceVersion")??;
            Ok::<_, Failure>(Write {
                revision,
                sent,
                answered,
            })
        });
    }
    tasks.join_all().await.into_iter().collect()
}

async fn wait_for_last(arrivals: &Arrivals, watches: usize, reading: &mut Reading) -> Result<(), Failure> {
    let deadline = Instant::now() + ARRIVAL_LIMIT;
    let all = u32::try_from(watches)?;
    while arrivals
        .count
        .iter()
        .any(|count| count.load(Ordering::Acquire) < all)
    {
        reading.must_go_on()?;
        if Instant::now() > deadline {
            return Err("some changes have not reached all watches".into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Writes what became of each change, for whoever looks for the reason of a tail.
fn write_each(file: &Path, arrivals: &Arrivals, writes: &[Write]) -> Result<(), Failure> {
    let first = writes.iter().map(|write| write.sent).min();
    let mut lines = String::new();
    for (write, nanoseconds) in writes.iter().zip(&arrivals.last_nanoseconds) {
        let arrived = arrivals.start + Duration::from_nanos(nanoseconds.load(Ordering::Acquire));
        let since_first = write.sent.saturating_duration_since(first.unwrap_or(write.sent));
        let latency = arrived.saturating_duration_since(write.answered);
        writeln!(
            lines,
            "{:.4},{:.3}",
            since_first.as_secs_f64(),
            latency.as_secs_f64() * 1e3
        )?;
    }
    Ok(std::fs::write(file, lines)?)
}

fn tell(flags: &Flags, arrivals: &Arrivals, writes: &[Write]) -> Result<(), Failure> {
    let (Some(first), Some(last)) = (
        writes.iter().map(|write| write.sent).min(),
        writes.iter().map(|write| write.answered).max(),
    ) else {
        return Err("nothing was measured".into());
    };
    println!(
        "{} changes at {:.0}/s to {} watches on {} connections",
        writes.len(),
        writes.len() as f64 / (last - first).as_secs_f64(),
        flags.watches,
        flags.connections
    );
    let latency = |from: fn(&Write) -> Instant| {
        let times = writes
            .iter()
            .zip(&arrivals.last_nanoseconds)
            .map(|(write, nanoseconds)| {
                let arrived = arrivals.start + Duration::from_nanos(nanoseconds.load(Ordering::Acquire));
                arrived.saturating_duration_since(from(write))
            });
        Percentiles::of(times.collect()).ok_or("nothing was measured")
    };
    for (what, times) in [
        ("from the answer to the writer", latency(|write| write.answered)?),
        ("from the request of the writer", latency(|write| write.sent)?),
    ] {
        println!(
            "last watch, {what}: p50 {:.2} ms, p99 {:.2} ms",
            times.milliseconds(50),
            times.milliseconds(99)
        );
    }
    Ok(())
}
