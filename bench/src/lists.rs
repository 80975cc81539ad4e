//! Cost of many Services and endpoints for an API server: creation, lists, memory, start.

use std::process::ExitCode;
use std::time::Instant;

use bytes::Bytes;
use clap::Args;
use client::{Client, Config, JSON};
use http::Method;

use crate::Failure;
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::server::{self, ServerFlags};

/// Flags of `bench list`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of Services
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Number of endpoints per Service
    #[arg(long, default_value_t = 10)]
    endpoints: usize,
    /// Number of reads of each list
    #[arg(long, default_value_t = 20)]
    reads: usize,
    #[command(flatten)]
    server: ServerFlags,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    server::run(
        &flags.server,
        async |config| measure(flags, config).await,
        |environment| {
            let started = Instant::now();
            environment.restart_api()?;
            println!("start with all of it: {:.3} s", started.elapsed().as_secs_f64());
            println!(
                "server resident memory after the start: {:.1} MiB",
                environment.apiserver.resident_mib()?
            );
            Ok(())
        },
    )
}

async fn measure(flags: &Flags, config: Config) -> Result<(), Failure> {
    let clients = (0..8)
        .map(|_| Client::new(config.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    fixtures::create_services(&clients, flags.services, flags.endpoints).await?;
    println!(
        "{} Services and slices with {} endpoints created in {:.1} s",
        flags.services,
        flags.services * flags.endpoints,
        started.elapsed().as_secs_f64()
    );
    for path in ["/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"] {
        let mut times = Vec::with_capacity(flags.reads);
        let mut bytes = 0;
        for _ in 0..flags.reads {
            let started = Instant::now();
            bytes = clients[0]
                .send(Method::GET, path, JSON, Bytes::new())
                .await?
                .len();
            times.push(started.elapsed());
        }
        let times = Percentiles::of(times).ok_or("no measurement")?;
        println!(
            "list {path}, {:.1} MB: p50 {:.1} ms, p99 {:.1} ms",
            bytes as f64 / 1e6,
            times.milliseconds(50),
            times.milliseconds(99)
        );
    }
    Ok(())
}
