//! Measurements of the store: memory of an object; durable writes per second by the number of concurrent clients;
//! time until the last of many watches has received a write.
//!
//! `cargo run --release -p store --example store_bench -- [DIRECTORY] [SECONDS]`: the directory decides
//! which disk is measured; a new one inside it is used and removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::{Expectation, SqliteOptions, SqliteStore, Store, Transaction, Value, Write};

const CLIENTS: [usize; 5] = [1, 4, 16, 64, 256];
const VALUE_BYTES: usize = 1_024;
/// Keys of each client; written over and over.
const KEYS: usize = 1_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let seconds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    // First, while no freed memory hides the growth.
    println!(
        "{MEMORY_OBJECTS} objects of {VALUE_BYTES} bytes cost {} bytes each in memory\n",
        memory().await?
    );
    println!(
        "{:>8} {:>12} {:>12} {:>12}",
        "clients", "puts/s", "p50 us", "p99 us"
    );
    for clients in CLIENTS {
        let directory = tempfile::tempdir_in(&directory)?;
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default())?);
        let mut latencies = measure(store, clients, Duration::from_secs(seconds)).await?;
        let rate = latencies.len() as u64 / seconds;
        let (p50, p99) = quantiles(&mut latencies);
        println!("{clients:>8} {rate:>12} {p50:>12} {p99:>12}");
    }
    let directory = tempfile::tempdir_in(&directory)?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(directory.path(), SqliteOptions::default())?);
    let (p50, p99) = quantiles(&mut write_while_watched(store, WATCHED_PER_SECOND * seconds).await?);
    println!("\n{WATCHES} watches, {WATCHED_PER_SECOND} writes/s: from commit called to the last watch");
    println!("{:>8} {:>12} {p50:>12} {p99:>12}", "", "");
    Ok(())
}

/// Lets clients put one key after the other until the time is over. Returns the latency of each put.
async fn measure(store: Arc<dyn Store>, clients: usize, span: Duration) -> Result<Vec<Duration>, Failure> {
    let end = Instant::now() + span;
    let client = |number: usize| {
        let store = store.clone();
        async move {
            let mut latencies = Vec::new();
            for key in (0..KEYS).cycle() {
                let begin = Instant::now();
                if begin >= end {
                    break;
                }
                store.commit(put(format!("/bench/{number}/{key}"))).await?;
                latencies.push(begin.elapsed());
            }
            Ok::<_, Failure>(latencies)
        }
    };
    let tasks: Vec<_> = (0..clients).map(|number| tokio::spawn(client(number))).collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok(latencies)
}

const WATCHES: usize = 1_000;
const WATCHED_PER_SECOND: u64 = 500;

/// Writes at a constant rate while many watches are open. Measures for each write the time until the last watch has
/// received it.
async fn write_while_watched(store: Arc<dyn Store>, events: u64) -> Result<Vec<Duration>, Failure> {
    let begin = Instant::now();
    let last_seen: Arc<Vec<AtomicU64>> = Arc::new((0..events).map(|_| AtomicU64::new(0)).collect());
    let start = store.index().revision();
    let watcher = |_| {
        let (last_seen, watch) = (last_seen.clone(), store.index().watch("/bench/", start));
        tokio::spawn(async move {
            let mut watch = watch?;
            for last_seen in last_seen.iter() {
                watch.next().await?;
                last_seen.fetch_max(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
            Ok::<_, Failure>(())
        })
    };
    let watchers: Vec<_> = (0..WATCHES).map(watcher).collect();
    let mut written = Vec::new();
    let mut pace = tokio::time::interval(Duration::from_micros(1_000_000 / WATCHED_PER_SECOND));
    for event in 0..events {
        pace.tick().await;
        written.push(begin.elapsed());
        store.commit(put(format!("/bench/{event}"))).await?;
    }
    for watcher in watchers {
        watcher.await??;
    }
    let seen = last_seen
        .iter()
        .map(|micros| Duration::from_micros(micros.load(Ordering::Relaxed)));
    Ok(seen
        .zip(written)
        .map(|(seen, written)| seen.saturating_sub(written))
        .collect())
}

/// The median and the 99th percentile, in microseconds.
fn quantiles(latencies: &mut [Duration]) -> (u128, u128) {
    latencies.sort_unstable();
    let at = |per_cent: usize| {
        latencies
            .get(latencies.len() * per_cent / 100)
            .map_or(0, Duration::as_micros)
    };
    (at(50), at(99))
}

const MEMORY_OBJECTS: usize = 10_000;

/// Growth of resident memory for each object that is put, history and SQLite's page cache included.
async fn memory() -> Result<usize, Failure> {
    let directory = tempfile::tempdir()?;
    let store = SqliteStore::open(directory.path(), SqliteOptions::default())?;
    let before = resident_bytes()?;
    for key in 0..MEMORY_OBJECTS {
        let mut transaction = put(format!("/services/default/service-{key}"));
        transaction.expectations.extend([(
            format!("/services/default/service-{key}").into(),
            Expectation::Absent,
        )]);
        store.commit(transaction).await?;
    }
    Ok(resident_bytes()?.saturating_sub(before) / MEMORY_OBJECTS)
}

fn resident_bytes() -> Result<usize, Failure> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident: usize = pages
        .split_whitespace()
        .nth(1)
        .ok_or("statm has no second field")?
        .parse()?;
    Ok(resident * 4_096)
}

fn put(key: String) -> Transaction {
    let value = Value {
        bytes: Bytes::from(vec![b'x'; VALUE_BYTES]),
        revision_at: Some(100),
    };
    Transaction {
        expectations: Vec::new(),
        writes: vec![Write::Put(key.into(), value)],
    }
}
