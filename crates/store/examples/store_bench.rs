//! Durable writes a second by the number of clients that wait for their own.
//!
//! `cargo run --release -p store --example store_bench -- [DIRECTORY] [SECONDS]`: the directory decides
//! which disk is measured; a new one inside it is used and removed.

use std::sync::Arc;
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
        latencies.sort_unstable();
        let quantile = |per_cent: usize| {
            latencies
                .get(latencies.len() * per_cent / 100)
                .map_or(0, Duration::as_micros)
        };
        let rate = latencies.len() as u64 / seconds;
        println!(
            "{clients:>8} {rate:>12} {:>12} {:>12}",
            quantile(50),
            quantile(99)
        );
    }
    Ok(())
}

/// Lets clients put one key after the other until the time is over; the latency of each put.
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
