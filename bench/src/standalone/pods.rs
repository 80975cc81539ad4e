//! Start of many Pods on one node: time until all are ready, memory and CPU.

use std::fs;
use std::time::{Duration, Instant};

use clap::Args;
use client::Client;
use serde_json::{Value, json};

use super::{PODS, StandaloneNode, create, echo_pod_spec, has_condition};
use crate::Failure;
use crate::process::proportional_mib;

/// Interval between reads of the Pods.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Duration of the measurement of the idle node.
const IDLE_DURATION: Duration = Duration::from_secs(10);

/// Flags of `bench pods`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Number of Pods with an echo server
    #[arg(long, default_value_t = 500)]
    pods: usize,
    /// Timeout in seconds until all Pods are ready
    #[arg(long, alias = "patience-seconds", default_value_t = 600)]
    timeout_seconds: u64,
}

pub(super) fn run(flags: &Flags, standalone: &mut StandaloneNode) -> Result<(), Failure> {
    let before = standalone.up.resident_mib()?;
    let cpu_before = standalone.up.cpu()?;
    let timeout = Duration::from_secs(flags.timeout_seconds);
    let (created, started) = standalone.run(async |client| {
        let started_at = Instant::now();
        for number in 0..flags.pods {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("echo-{number}"), "labels": {"app": "echo"}}, "spec": echo_pod_spec(1),
            });
            create(&client, PODS, &pod).await?;
        }
        let created = started_at.elapsed();
        wait_until_ready(&client, flags.pods, started_at, timeout).await?;
        Ok((created, started_at.elapsed()))
    })?;
    println!("{} Pods created in {:.1} s", flags.pods, created.as_secs_f64());
    println!("all of them ready after {:.1} s", started.as_secs_f64());
    let cpu = standalone.up.cpu()? - cpu_before;
    println!("CPU of portolan up meanwhile: {:.1} s", cpu.as_secs_f64());
    println!(
        "resident memory of portolan up (API, controllers, proxy, DNS, agent): {before:.1} MiB before, {:.1} MiB with them",
        standalone.up.resident_mib()?
    );
    println!(
        "proportional memory of the Pods' own processes: {:.1} MiB",
        pods_mib()?
    );
    std::thread::sleep(Duration::from_secs(2));
    let (cpu_before, started_at) = (standalone.up.cpu()?, Instant::now());
    std::thread::sleep(IDLE_DURATION);
    let share = (standalone.up.cpu()? - cpu_before).as_secs_f64() / started_at.elapsed().as_secs_f64();
    println!("CPU of portolan up at rest: {:.2} % of a core", share * 100.0);
    Ok(())
}

async fn wait_until_ready(
    client: &Client,
    count: usize,
    started_at: Instant,
    timeout: Duration,
) -> Result<(), Failure> {
    loop {
        let pods: Value = client.get(PODS).await?;
        let all = pods["items"].as_array().into_iter().flatten();
        let ready = all.filter(|pod| has_condition(pod, "Ready")).count();
        if ready >= count {
            return Ok(());
        }
        if started_at.elapsed() > timeout {
            return Err(format!("only {ready} of {count} Pods are ready after {timeout:?}").into());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Proportional memory of all sandboxes and echo servers, in MiB.
fn pods_mib() -> Result<f64, Failure> {
    let mut mib = 0.0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&command);
        if !text.contains("internal-echo") && !text.starts_with("portolan-sandbox") {
            continue;
        }
        mib += proportional_mib(&entry.path());
    }
    Ok(mib)
}
