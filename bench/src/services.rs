//! Rate and latency of creating Services.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, Config};

use crate::Failure;
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::server::{self, ServerFlags};

/// Flags of `bench create-services`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of Services
    #[arg(long, default_value_t = 5_000)]
    services: usize,
    /// Number of clients, each with one connection and one request in flight
    #[arg(long, default_value_t = 16)]
    clients: usize,
    #[command(flatten)]
    server: ServerFlags,
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
    let mut clients = Vec::new();
    for _ in 0..flags.clients.max(1) {
        let client = Client::new(config.clone())?;
        client.get::<serde_json::Value>("/version").await?;
        clients.push(client);
    }
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        let share = (flags.services + flags.clients - 1 - number) / flags.clients;
        tasks.spawn(create_share(client, number, share));
    }
    let mut latencies = Vec::with_capacity(flags.services);
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let count = latencies.len();
    let latencies = Percentiles::of(latencies).ok_or("no measurement")?;
    println!(
        "{count} Services by {} clients in {elapsed:.2} s: {:.0}/s",
        flags.clients,
        count as f64 / elapsed
    );
    println!(
        "latency: p50 {:.2} ms, p99 {:.2} ms",
        latencies.milliseconds(50),
        latencies.milliseconds(99)
    );
    Ok(())
}

async fn create_share(client: Client, number: usize, share: usize) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::with_capacity(share);
    for index in 0..share {
        let service = fixtures::service(&format!("bench-{number}-{index}"));
        let started = Instant::now();
        fixtures::post(&client, &service).await?;
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}
