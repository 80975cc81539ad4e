//! Latency from a change to the last of many watches.

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
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::server::{self, ServerFlags};

/// Namespace of the watched EndpointSlices, so that other changes are not counted.
const NAMESPACE: &str = "bench-watch";
/// Maximum number of writes in flight.
const IN_FLIGHT_MAX: usize = 64;
/// Timeout for the last change to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Flags of `bench watch`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of watches
    #[arg(long, default_value_t = 1_000)]
    watches: usize,
    /// Number of connections for the watches
    #[arg(long, default_value_t = 20)]
    connections: usize,
    /// Changes per second
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Duration of the changes in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Number of EndpointSlices, changed in turn
    #[arg(long, default_value_t = 100)]
    slices: usize,
    /// Number of endpoints per EndpointSlice
    #[arg(long, default_value_t = 10)]
    endpoints: usize,
    /// File for a line per change: seconds since the first write, latency in milliseconds
    #[arg(long, value_name = "FILE")]
    each: Option<PathBuf>,
    #[command(flatten)]
    server: ServerFlags,
}

/// Arrival of changes at watches, by the index of the change. Every watch receives all changes in the same
/// order, so that counting lines suffices.
struct Arrivals {
    start: Instant,
    last_nanoseconds: Vec<AtomicU64>,
    count: Vec<AtomicU32>,
}

/// Acknowledged change.
struct Write {
    revision: u64,
    sent: Instant,
    acknowledged: Instant,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
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
    let mut reader = start_reader(config, path, flags, arrivals.clone())?;
    reader.ready().await?;
    let mut writes = change(&writer, flags, changes).await?;
    wait_for_last(&arrivals, flags.watches, &mut reader).await?;
    writes.sort_unstable_by_key(|write| write.revision);
    print_latencies(flags, &arrivals, &writes)?;
    if let Some(file) = &flags.each {
        write_each(file, &arrivals, &writes)?;
    }
    drop(reader);
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    writer
        .send(Method::DELETE, &namespace, JSON, Bytes::new())
        .await?;
    Ok(())
}

/// Thread that reads the watches, so that it does not delay the writer.
struct Reader {
    is_ready: Option<oneshot::Receiver<()>>,
    /// Resolves with the error of a watch; the thread exits when it is dropped.
    ended: oneshot::Receiver<Failure>,
}

impl Reader {
    /// Resolves when all watches are open.
    async fn ready(&mut self) -> Result<(), Failure> {
        let ready = self.is_ready.take().ok_or("called twice")?;
        match ready.await {
            Ok(()) => Ok(()),
            Err(_) => Err((&mut self.ended).await.unwrap_or_else(Failure::from)),
        }
    }

    /// Fails if a watch has ended.
    fn check(&mut self) -> Result<(), Failure> {
        match self.ended.try_recv() {
            Ok(error) => Err(error),
            Err(_) => Ok(()),
        }
    }
}

fn start_reader(
    config: Config,
    path: String,
    flags: &Flags,
    arrivals: Arc<Arrivals>,
) -> Result<Reader, Failure> {
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
                // The receiver was dropped after the measurement.
                end.send(error).ok();
            }
        })?;
    Ok(Reader {
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
    ready.send(()).map_err(|()| "the receiver was dropped")?;
    let mut tasks = JoinSet::new();
    for (share, connection) in open {
        let arrivals = arrivals.clone();
        let mut next = vec![0; share];
        tasks.spawn(connection.read(move |watch, lines| arrivals.add(&mut next[watch], lines)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

impl Arrivals {
    /// Adds changes, starting with `next`, that arrived at a watch.
    fn add(&self, next: &mut usize, lines: usize) -> Result<(), Failure> {
        let now = u64::try_from(self.start.elapsed().as_nanos())?;
        for change in *next..*next + lines {
            let (Some(last), Some(count)) = (self.last_nanoseconds.get(change), self.count.get(change))
            else {
                return Err("a watch received more events than changes".into());
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

/// Creates the EndpointSlices; returns the resourceVersion to watch from.
async fn prepare(client: &Client, flags: &Flags) -> Result<String, Failure> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    client
        .request(Method::POST, "/api/v1/namespaces", JSON, Some(&namespace))
        .await?;
    for number in 0..flags.slices {
        let addresses: Vec<_> = (0..flags.endpoints)
            .map(|endpoint| fixtures::unused_address(number * flags.endpoints + endpoint))
            .collect();
        let slice = fixtures::slice(&format!("s-{number}"), &addresses);
        client
            .request(Method::POST, &slices(), JSON, Some(&slice))
            .await?;
    }
    let list: Value = client.get(&slices()).await?;
    let revision = list["metadata"]["resourceVersion"].as_str();
    Ok(revision.ok_or("list without resourceVersion")?.to_owned())
}

/// Changes EndpointSlices at the rate of the flags.
async fn change(client: &Client, flags: &Flags, changes: usize) -> Result<Vec<Write>, Failure> {
    let permits = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / flags.rate.max(1));
    let mut tasks = JoinSet::new();
    for number in 0..changes {
        ticks.tick().await;
        let permit = permits.clone().acquire_owned().await?;
        let client = client.clone();
        let path = format!("{}/s-{}-1", slices(), number % flags.slices.max(1));
        let patch = json!({"metadata": {"annotations": {"bench": number.to_string()}}});
        tasks.spawn(async move {
            let sent = Instant::now();
            let changed = client
                .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
                .await?;
            let acknowledged = Instant::now();
            drop(permit);
            let revision = changed["metadata"]["resourceVersion"].as_str().map(str::parse);
            let revision = revision.ok_or("object without resourceVersion")??;
            Ok::<_, Failure>(Write {
                revision,
                sent,
                acknowledged,
            })
        });
    }
    tasks.join_all().await.into_iter().collect()
}

async fn wait_for_last(arrivals: &Arrivals, watches: usize, reader: &mut Reader) -> Result<(), Failure> {
    let deadline = Instant::now() + ARRIVAL_TIMEOUT;
    let all = u32::try_from(watches)?;
    while arrivals
        .count
        .iter()
        .any(|count| count.load(Ordering::Acquire) < all)
    {
        reader.check()?;
        if Instant::now() > deadline {
            return Err("some changes have not reached all watches".into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Writes time and latency of each change to a file.
fn write_each(file: &Path, arrivals: &Arrivals, writes: &[Write]) -> Result<(), Failure> {
    let first = writes.iter().map(|write| write.sent).min();
    let mut lines = String::new();
    for (write, nanoseconds) in writes.iter().zip(&arrivals.last_nanoseconds) {
        let arrived = arrivals.start + Duration::from_nanos(nanoseconds.load(Ordering::Acquire));
        let since_first = write.sent.saturating_duration_since(first.unwrap_or(write.sent));
        let latency = arrived.saturating_duration_since(write.acknowledged);
        writeln!(
            lines,
            "{:.4},{:.3}",
            since_first.as_secs_f64(),
            latency.as_secs_f64() * 1e3
        )?;
    }
    Ok(std::fs::write(file, lines)?)
}

fn print_latencies(flags: &Flags, arrivals: &Arrivals, writes: &[Write]) -> Result<(), Failure> {
    let (Some(first), Some(last)) = (
        writes.iter().map(|write| write.sent).min(),
        writes.iter().map(|write| write.acknowledged).max(),
    ) else {
        return Err("no measurement".into());
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
        Percentiles::of(times.collect()).ok_or("no measurement")
    };
    for (subject, times) in [
        (
            "from the answer to the writer",
            latency(|write| write.acknowledged)?,
        ),
        ("from the request of the writer", latency(|write| write.sent)?),
    ] {
        println!(
            "last watch, {subject}: p50 {:.2} ms, p99 {:.2} ms",
            times.milliseconds(50),
            times.milliseconds(99)
        );
    }
    Ok(())
}
