//! Import of Services that another cluster of a set exports: time, changes of endpoints, memory.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Failure;
use crate::environment::{Environment, TIMEOUT, run_enclosed};
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::process::{Measured, portolan};

const EXPORTS: &str = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/default/serviceexports";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// Ranges of cluster IPs of the exporting cluster.
const EXPORTER_CIDRS: &str = "10.97.0.0/16,fd00:10:97::/112";
/// Port of the API server of the exporting cluster.
const EXPORTER_PORT: u16 = 6444;
/// Maximum number of requests in flight.
const CONCURRENT_REQUESTS_MAX: usize = 32;
/// Pause between two reads of a state that changes.
const PAUSE: Duration = Duration::from_millis(1);

/// Flags of `bench multicluster`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of exported Services
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..))]
    services: u16,
    /// Number of endpoints per Service, in one EndpointSlice
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    endpoints: u16,
    /// Number of replacements of an endpoint
    #[arg(long, default_value_t = 200)]
    changes: u16,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed(false, |environment| {
        let mut exporter = start_exporter(&environment)?;
        environment.with_api(async || export(&environment, flags).await)?;
        let started = Instant::now();
        let mut controllers = start_controllers(&environment)?;
        environment.with_api(async || wait_for_slices(&environment, flags).await)?;
        println!(
            "{} Services x {} endpoints imported {:.2} s after exec; {:.2} s of CPU, {:.1} MiB resident",
            flags.services,
            flags.endpoints,
            started.elapsed().as_secs_f64(),
            controllers.cpu()?.as_secs_f64(),
            controllers.resident_mib()?,
        );
        environment.with_api(async || change(&environment, flags).await)?;
        exporter.must_run()?;
        controllers.must_run()
    })
}

/// Starts the API server of the exporting cluster.
fn start_exporter(environment: &Environment) -> Result<Measured, Failure> {
    let mut command = Command::new(portolan()?);
    let listen = environment.cluster.topology.control_plane.address.ipv4;
    let directory = environment.directory.join("exporter");
    command
        .arg("apiserver")
        .arg(format!("--listen={listen}:{EXPORTER_PORT}"))
        .arg(format!("--data-dir={}", directory.display()))
        .arg(format!("--service-cluster-ip-range={EXPORTER_CIDRS}"))
        .arg(format!(
            "--write-kubeconfig={}",
            exporter_kubeconfig(environment).display()
        ));
    let member = environment.cluster.control_plane()?;
    let mut exporter = environment.start_component("exporter", member, command)?;
    let deadline = Instant::now() + TIMEOUT;
    while check_exporter(environment).is_err() {
        exporter.must_run()?;
        if Instant::now() > deadline {
            return Err("the API server of the exporting cluster does not respond".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(exporter)
}

fn check_exporter(environment: &Environment) -> Result<(), Failure> {
    environment.with_api(async || {
        exporter_client(environment)?.get::<Value>("/version").await?;
        Ok(())
    })
}

fn exporter_kubeconfig(environment: &Environment) -> PathBuf {
    environment.directory.join("exporter.conf")
}

fn exporter_client(environment: &Environment) -> Result<Client, Failure> {
    let config = Config::from_kubeconfig(&exporter_kubeconfig(environment))?;
    Ok(Client::new(config)?)
}

/// Starts the controllers of the importing cluster.
fn start_controllers(environment: &Environment) -> Result<Measured, Failure> {
    let mut command = Command::new(portolan()?);
    command
        .arg("controllers")
        .arg(format!("--kubeconfig={}", environment.kubeconfig().display()))
        .arg("--cluster-id=importer")
        .arg(format!(
            "--clusterset-kubeconfig=exporter={}",
            exporter_kubeconfig(environment).display()
        ));
    let member = environment.cluster.control_plane()?;
    environment.start_component("controllers", member, command)
}

/// Creates and exports the Services.
async fn export(environment: &Environment, flags: &Flags) -> Result<(), Failure> {
    let client = exporter_client(environment)?;
    let (services, endpoints) = (usize::from(flags.services), usize::from(flags.endpoints));
    fixtures::create_services(std::slice::from_ref(&client), services, endpoints).await?;
    let mut tasks = JoinSet::new();
    for number in 0..services {
        if tasks.len() >= CONCURRENT_REQUESTS_MAX
            && let Some(done) = tasks.join_next().await
        {
            done??;
        }
        let client = client.clone();
        tasks.spawn(async move {
            let export = json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
                "metadata": {"name": format!("s-{number}")}});
            client.request(Method::POST, EXPORTS, JSON, Some(&export)).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Waits until the importing cluster has an EndpointSlice of each Service, beside that of `kubernetes`.
async fn wait_for_slices(environment: &Environment, flags: &Flags) -> Result<(), Failure> {
    let client = environment.client()?;
    let deadline = Instant::now() + TIMEOUT;
    let expected = u64::from(flags.services) + 1;
    loop {
        let list: Value = client.get(&format!("{SLICES}?limit=1")).await?;
        let listed = list["items"].as_array().map_or(0, Vec::len) as u64;
        let remaining = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        if listed + remaining >= expected {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{} EndpointSlices of {expected}", listed + remaining).into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Replaces the endpoints of one Service, and measures the time until the importing cluster has them.
async fn change(environment: &Environment, flags: &Flags) -> Result<(), Failure> {
    let (exporter, importer) = (exporter_client(environment)?, environment.client()?);
    let slice = format!("{SLICES}/s-0-1");
    let imported = format!("{SLICES}?labelSelector=multicluster.kubernetes.io%2Fservice-name%3Ds-0");
    let mut times = Vec::new();
    for number in 0..flags.changes {
        let address = fixtures::unused_address(900_000 + usize::from(number));
        let patch = json!({"endpoints": [fixtures::endpoint(&address)]});
        let started = Instant::now();
        exporter
            .request(Method::PATCH, &slice, MERGE_PATCH, Some(&patch))
            .await?;
        let expected = json!([address]);
        loop {
            let list: Value = importer.get(&imported).await?;
            if list["items"][0]["endpoints"][0]["addresses"] == expected {
                break;
            }
            if started.elapsed() > TIMEOUT {
                return Err(format!("endpoint {address} not imported").into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        times.push(started.elapsed());
    }
    if let Some(times) = Percentiles::of(times) {
        println!(
            "endpoints replaced, API write to import, {} times: p50 {:.1} ms, p99 {:.1} ms",
            flags.changes,
            times.milliseconds(50),
            times.milliseconds(99),
        );
    }
    Ok(())
}
