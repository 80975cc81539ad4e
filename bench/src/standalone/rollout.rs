//! A Deployment whose Pods are all replaced while clients come at a fixed rate: what they notice.

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

use super::{Machine, PODS, create, create_service, echo};
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::setting::{PATIENCE, run_in};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// How long a request may take: far longer than any that succeeds.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// How long clients come before the Pods are replaced, and afterwards.
const BESIDE: Duration = Duration::from_secs(2);
/// Requests under way at the same time at most: more would be a queue, not a rate.
const UNDER_WAY_MAX: usize = 4_000;

/// Flags of `bench rollout`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Pods of the Deployment
    #[arg(long, default_value_t = 20)]
    pods: usize,
    /// Requests a second, each over a connection of its own
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Seconds that Pods may take to end
    #[arg(long, default_value_t = 30)]
    grace_seconds: u64,
}

/// What came of requests.
#[derive(Default)]
struct Ledger {
    latencies: Vec<Duration>,
    /// How often each failure was seen.
    failures: BTreeMap<String, usize>,
    late: usize,
}

pub(super) fn run(flags: &Flags, machine: &mut Machine) -> Result<(), Failure> {
    let service = machine.run(async |client| {
        create(&client, DEPLOYMENTS, &deployment(flags)).await?;
        let service = create_service(&client).await?;
        until_rolled_out(&client, flags.pods, 1).await?;
        Ok(service)
    })?;
    let node = machine.cluster.nodes().next().ok_or("the testbed has no node")?;
    let is_over = Arc::new(AtomicBool::new(false));
    let (ledger, elapsed) = std::thread::scope(|scope| -> Result<(Ledger, Duration), Failure> {
        let over = Arc::clone(&is_over);
        let load = scope.spawn(move || run_in(node, async || Ok(load(service, flags.rate, &over).await)));
        std::thread::sleep(BESIDE);
        let elapsed = machine.run(async |client| {
            let begun = Instant::now();
            let change =
                json!({"spec": {"template": {"metadata": {"annotations": {"example.com/round": "2"}}}}});
            let path = format!("{DEPLOYMENTS}/echo");
            client
                .request(Method::PATCH, &path, MERGE_PATCH, Some(&change))
                .await?;
            until_rolled_out(&client, flags.pods, 2).await?;
            Ok(begun.elapsed())
        });
        std::thread::sleep(BESIDE);
        is_over.store(true, Ordering::Relaxed);
        let ledger = load.join().map_err(|_| "the clients broke")??;
        Ok((ledger, elapsed?))
    })?;
    tell(flags, ledger, elapsed)
}

fn tell(flags: &Flags, ledger: Ledger, elapsed: Duration) -> Result<(), Failure> {
    let failed: usize = ledger.failures.values().sum();
    let asked = ledger.latencies.len() + failed;
    println!(
        "{} Pods replaced in {:.1} s under {} requests a second",
        flags.pods,
        elapsed.as_secs_f64(),
        flags.rate
    );
    println!("requests: {asked}, failed: {failed}");
    for (failure, times) in &ledger.failures {
        println!("  {times} × {failure}");
    }
    if ledger.late > 0 {
        println!(
            "  not sent, since {UNDER_WAY_MAX} were under way: {}",
            ledger.late
        );
    }
    if let Some(times) = Percentiles::of(ledger.latencies) {
        println!(
            "time of a request: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            times.milliseconds(50),
            times.milliseconds(99),
            times.milliseconds(100)
        );
    }
    if failed + ledger.late > 0 {
        return Err("requests failed".into());
    }
    Ok(())
}

fn deployment(flags: &Flags) -> Value {
    let mut spec = echo(flags.grace_seconds);
    spec["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "echo"},
        "spec": {
            "replicas": flags.pods, "selector": {"matchLabels": {"app": "echo"}},
            "template": {"metadata": {"labels": {"app": "echo"}}, "spec": spec},
        },
    })
}

/// Waits until the Deployment says that all its Pods are of that generation and available, and no others are left.
async fn until_rolled_out(client: &Client, pods: usize, generation: u64) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let deployment: Value = client.get(&format!("{DEPLOYMENTS}/echo")).await?;
        let status = &deployment["status"];
        let is_settled = status["observedGeneration"].as_u64() >= Some(generation)
            && status["updatedReplicas"] == pods
            && status["availableReplicas"] == pods;
        if is_settled {
            let all: Value = client.get(PODS).await?;
            if all["items"].as_array().is_some_and(|all| all.len() == pods) {
                return Ok(());
            }
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("the Deployment is not rolled out: {status}").into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends requests at a rate, whatever becomes of the ones before, until it is over.
async fn load(to: SocketAddr, rate: u64, is_over: &AtomicBool) -> Ledger {
    let ledger = Arc::<Mutex<Ledger>>::default();
    let mut under_way = JoinSet::new();
    let begun = Instant::now();
    let mut sent = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due {
            sent += 1;
            if under_way.len() >= UNDER_WAY_MAX {
                ledger.lock().unwrap_or_else(PoisonError::into_inner).late += 1;
                continue;
            }
            let ledger = Arc::clone(&ledger);
            under_way.spawn(async move {
                let begun = Instant::now();
                let outcome = match tokio::time::timeout(REQUEST_LIMIT, request(to)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(format!("no answer within {REQUEST_LIMIT:?}")),
                };
                let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                match outcome {
                    Ok(()) => ledger.latencies.push(begun.elapsed()),
                    Err(failure) => *ledger.failures.entry(failure).or_default() += 1,
                }
            });
        }
        while under_way.try_join_next().is_some() {}
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while under_way.join_next().await.is_some() {}
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut ledger)
}

/// One request over a connection of its own; it is answered whole or has failed.
async fn request(to: SocketAddr) -> Result<(), String> {
    let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {}", error.kind());
    let mut stream = TcpStream::connect(to).await.map_err(failed("connecting"))?;
    let request = b"GET / HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.map_err(failed("asking"))?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map_err(failed("reading"))?;
    if answer.starts_with(b"HTTP/1.1 200 ") {
        return Ok(());
    }
    let first = String::from_utf8_lossy(&answer[..answer.len().min(20)]).into_owned();
    Err(format!("answered {first:?}"))
}
