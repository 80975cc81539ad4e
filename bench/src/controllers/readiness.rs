//! Changes of Pod readiness at a fixed rate.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use client::Client;
use tokio::time::{MissedTickBehavior, interval};

use super::cluster::{create, pod_name, set_ready};
use super::slices::Slices;
use super::{Context, TIMEOUT, report_process};
use crate::Failure;
use crate::percentiles::Percentiles;

/// Flags of `bench controllers readiness`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Number of Services
    #[arg(long, default_value_t = 1_000)]
    services: usize,
    /// Number of Pods per Service
    #[arg(long, default_value_t = 100)]
    pods: usize,
    /// Changes per second
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Duration of the changes in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(super) async fn run(flags: &Flags, context: &Context<'_>, client: &Client) -> Result<(), Failure> {
    let controllers = context.start_controllers()?;
    let total = flags.services * flags.pods;
    println!(
        "creating {} Services with {} Pods each",
        flags.services, flags.pods
    );
    create(client, flags.services, flags.pods).await?;
    let mut slices = Slices::watch(client);
    slices.wait_for_ready(total).await?;
    let writes_before = (slices.writes, slices.idle_writes);
    println!("changing readiness {} times a second", flags.rate);
    let mut tick = interval(Duration::from_secs(1) / flags.rate.max(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let changes = flags.rate * flags.seconds;
    let mut sent = 0;
    let mut ready: HashMap<usize, bool> = HashMap::new();
    let mut waiting: HashMap<String, (bool, Instant)> = HashMap::new();
    let mut latencies = Vec::new();
    let mut requests = tokio::task::JoinSet::new();
    let deadline = Instant::now() + Duration::from_secs(flags.seconds.into()) + TIMEOUT;
    while sent < changes || !waiting.is_empty() {
        if Instant::now() > deadline {
            return Err(format!("{} changes were never written", waiting.len()).into());
        }
        tokio::select! {
            _ = tick.tick(), if sent < changes => {
                let number = fastrand::usize(..total);
                let name = pod_name(number);
                // The last change of the Pod is still pending.
                if waiting.contains_key(&name) {
                    continue;
                }
                let now = !ready.get(&number).copied().unwrap_or(true);
                ready.insert(number, now);
                waiting.insert(name.clone(), (now, Instant::now()));
                sent += 1;
                let client = client.clone();
                requests.spawn(async move { set_ready(&client, &name, now).await });
            }
            Some(done) = requests.join_next() => done??,
            slice = slices.next() => {
                let endpoints = slice.into_iter().flat_map(|slice| &slice.endpoints);
                for endpoint in endpoints {
                    let Some(target) = &endpoint.target_ref else { continue };
                    let Some((expected, since)) = waiting.get(&*target.name) else { continue };
                    if endpoint.conditions.ready == Some(*expected) {
                        latencies.push(since.elapsed());
                        waiting.remove(&*target.name);
                    }
                }
            }
        }
    }
    print_latencies(latencies)?;
    println!(
        "{changes} changes, {} slice writes, {} of them changed nothing",
        slices.writes - writes_before.0,
        slices.idle_writes - writes_before.1
    );
    report_process(controllers.as_ref())
}

fn print_latencies(latencies: Vec<Duration>) -> Result<(), Failure> {
    let latencies = Percentiles::of(latencies).ok_or("no measurement")?;
    println!(
        "change of readiness to watch event: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        latencies.milliseconds(50),
        latencies.milliseconds(99),
        latencies.milliseconds(100)
    );
    Ok(())
}
