//! Many Pods at once on one machine: how long until all are ready, and what the machine has to hold for it.

use std::fs;
use std::time::{Duration, Instant};

use clap::Args;
use client::Client;
use serde_json::{Value, json};

use super::{Machine, PODS, condition, create, echo};
use crate::Failure;

/// How often it is looked how many are ready.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// How long the machine may take to settle before it is measured at rest.
const REST: Duration = Duration::from_secs(10);

/// Flags of `bench pods`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Pods with one echo server each
    #[arg(long, default_value_t = 500)]
    pods: usize,
    /// Seconds until it is given up
    #[arg(long, default_value_t = 600)]
    patience_seconds: u64,
}

pub(super) fn run(flags: &Flags, machine: &mut Machine) -> Result<(), Failure> {
    let before = machine.up.resident_mib()?;
    let cpu_before = machine.up.cpu()?;
    let patience = Duration::from_secs(flags.patience_seconds);
    let (created, started) = machine.run(async |client| {
        let begun = Instant::now();
        for number in 0..flags.pods {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("echo-{number}"), "labels": {"app": "echo"}}, "spec": echo(1),
            });
            create(&client, PODS, &pod).await?;
        }
        let created = begun.elapsed();
        until_ready(&client, flags.pods, begun, patience).await?;
        Ok((created, begun.elapsed()))
    })?;
    println!("{} Pods created in {:.1} s", flags.pods, created.as_secs_f64());
    println!("all of them ready after {:.1} s", started.as_secs_f64());
    let cpu = machine.up.cpu()? - cpu_before;
    println!("CPU of portolan up meanwhile: {:.1} s", cpu.as_secs_f64());
    println!(
        "resident memory of portolan up (API, controllers, proxy, DNS, agent): {before:.1} MiB before, {:.1} MiB with them",
        machine.up.resident_mib()?
    );
    println!(
        "proportional memory of the Pods' own processes: {:.1} MiB",
        pods_mib()?
    );
    std::thread::sleep(Duration::from_secs(2));
    let (cpu_before, begun) = (machine.up.cpu()?, Instant::now());
    std::thread::sleep(REST);
    let share = (machine.up.cpu()? - cpu_before).as_secs_f64() / begun.elapsed().as_secs_f64();
    println!("CPU of portolan up at rest: {:.2} % of a core", share * 100.0);
    Ok(())
}

async fn until_ready(
    client: &Client,
    wanted: usize,
    begun: Instant,
    patience: Duration,
) -> Result<(), Failure> {
    loop {
        let pods: Value = client.get(PODS).await?;
        let all = pods["items"].as_array().into_iter().flatten();
        let ready = all.filter(|pod| condition(pod, "Ready")).count();
        if ready >= wanted {
            return Ok(());
        }
        if begun.elapsed() > patience {
            return Err(format!("only {ready} of {wanted} Pods are ready after {patience:?}").into());
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Memory of all sandboxes and echo servers; what they share counts once.
fn pods_mib() -> Result<f64, Failure> {
    let mut kib = 0.0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let text = String::from_utf8_lossy(&command);
        if !text.contains("internal-echo") && !text.starts_with("portolan-sandbox") {
            continue;
        }
        let rollup = fs::read_to_string(entry.path().join("smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib += number.unwrap_or(0.0);
    }
    Ok(kib / 1024.0)
}
