//! Rollout of a Deployment under requests at a fixed rate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{PODS, StandaloneNode, create, create_service, echo_pod_spec};
use crate::Failure;
use crate::environment::{TIMEOUT, run_in};
use crate::percentiles::Percentiles;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Timeout of a request, far above the duration of successful ones.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Duration of the load before and after the rollout.
const LOAD_MARGIN: Duration = Duration::from_secs(2);
/// Maximum number of requests in flight: more would be a queue instead of a rate.
const IN_FLIGHT_MAX: usize = 4_000;

/// Flags of `bench rollout`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Number of Pods
    #[arg(long, default_value_t = 20)]
    pods: usize,
    /// Requests per second, each on its own connection
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Termination grace period of the Pods in seconds
    #[arg(long, default_value_t = 30)]
    grace_seconds: u64,
}

/// Results of requests.
#[derive(Default)]
struct RequestStats {
    latencies: Vec<Duration>,
    /// Number of failures by text.
    failures: BTreeMap<String, usize>,
    /// Number of requests that were not sent.
    skipped: usize,
}

pub(super) fn run(flags: &Flags, standalone: &mut StandaloneNode) -> Result<(), Failure> {
    let service = standalone.run(async |client| {
        create(&client, DEPLOYMENTS, &deployment(flags)).await?;
        let service = create_service(&client).await?;
        wait_for_rollout(&client, flags.pods, 1).await?;
        Ok(service)
    })?;
    let node = standalone
        .cluster
        .nodes()
        .next()
        .ok_or("the testbed has no node")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let (stats, elapsed) = std::thread::scope(|scope| -> Result<(RequestStats, Duration), Failure> {
        let over = Arc::clone(&is_over);
        let load = scope.spawn(move || run_in(node, async || Ok(load(service, flags.rate, &over).await)));
        std::thread::sleep(LOAD_MARGIN);
        let elapsed = standalone.run(async |client| {
            let started = Instant::now();
            let change =
                json!({"spec": {"template": {"metadata": {"annotations": {"example.com/round": "2"}}}}});
            let path = format!("{DEPLOYMENTS}/echo");
            client
                .request(Method::PATCH, &path, MERGE_PATCH, Some(&change))
                .await?;
            wait_for_rollout(&client, flags.pods, 2).await?;
            Ok(started.elapsed())
        });
        std::thread::sleep(LOAD_MARGIN);
        is_over.store(true, Ordering::Relaxed);
        let stats = load.join().map_err(|_| "the clients panicked")??;
        Ok((stats, elapsed?))
    })?;
    print_results(flags, stats, elapsed)
}

fn print_results(flags: &Flags, stats: RequestStats, elapsed: Duration) -> Result<(), Failure> {
    let failed: usize = stats.failures.values().sum();
    let total = stats.latencies.len() + failed;
    println!(
        "{} Pods replaced in {:.1} s under {} requests a second",
        flags.pods,
        elapsed.as_secs_f64(),
        flags.rate
    );
    println!("requests: {total}, failed: {failed}");
    for (failure, times) in &stats.failures {
        println!("  {times} × {failure}");
    }
    if stats.skipped > 0 {
        println!(
            "  not sent, since {IN_FLIGHT_MAX} were in flight: {}",
            stats.skipped
        );
    }
    if let Some(times) = Percentiles::of(stats.latencies) {
        println!(
            "time of a request: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            times.milliseconds(50),
            times.milliseconds(99),
            times.milliseconds(100)
        );
    }
    if failed + stats.skipped > 0 {
        return Err("failed requests".into());
    }
    Ok(())
}

fn deployment(flags: &Flags) -> Value {
    let mut spec = echo_pod_spec(flags.grace_seconds);
    spec["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "echo"},
        "spec": {
            "replicas": flags.pods, "selector": {"matchLabels": {"app": "echo"}},
            "template": {"metadata": {"labels": {"app": "echo"}}, "spec": spec},
        },
    })
}

/// Waits until all Pods of a generation are available, and no others are left.
async fn wait_for_rollout(client: &Client, pods: usize, generation: u64) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let deployment: Value = client.get(&format!("{DEPLOYMENTS}/echo")).await?;
        let status = &deployment["status"];
        let is_complete = status["observedGeneration"].as_u64() >= Some(generation)
            && status["updatedReplicas"] == pods
            && status["availableReplicas"] == pods;
        if is_complete {
            let all: Value = client.get(PODS).await?;
            if all["items"].as_array().is_some_and(|all| all.len() == pods) {
                return Ok(());
            }
        }
        if started.elapsed() > TIMEOUT {
            return Err(format!("the Deployment is not rolled out: {status}").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends requests at a fixed rate, independent of earlier ones, until `is_over`.
async fn load(to: SocketAddr, rate: u64, is_over: &AtomicBool) -> RequestStats {
    let stats = Arc::<Mutex<RequestStats>>::default();
    let mut in_flight = JoinSet::new();
    let started = Instant::now();
    let mut sent = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due {
            sent += 1;
            if in_flight.len() >= IN_FLIGHT_MAX {
                stats.lock().unwrap_or_else(PoisonError::into_inner).skipped += 1;
                continue;
            }
            let stats = Arc::clone(&stats);
            in_flight.spawn(async move {
                let started = Instant::now();
                let outcome = match tokio::time::timeout(REQUEST_TIMEOUT, request(to)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(format!("no answer within {REQUEST_TIMEOUT:?}")),
                };
                let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
                match outcome {
                    Ok(()) => stats.latencies.push(started.elapsed()),
                    Err(failure) => *stats.failures.entry(failure).or_default() += 1,
                }
            });
        }
        while in_flight.try_join_next().is_some() {}
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while in_flight.join_next().await.is_some() {}
    let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut stats)
}

/// Sends a request on its own connection and reads the whole response. The error is the reason of the failure.
async fn request(to: SocketAddr) -> Result<(), String> {
    let failed = |subject: &'static str| move |error: std::io::Error| format!("{subject}: {}", error.kind());
    let mut stream = TcpStream::connect(to).await.map_err(failed("connecting"))?;
    let request = b"GET / HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.map_err(failed("sending"))?;
    let mut response = Vec::new();
    stream
        .read_to_end(&mut response)
        .await
        .map_err(failed("reading"))?;
    if response.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    let first = String::from_utf8_lossy(&response[..response.len().min(20)]).into_owned();
    Err(format!("response {first:?}"))
}
