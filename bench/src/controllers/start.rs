//! Controllers that start beside many Pods.

use std::time::{Duration, Instant};

use client::Client;

use super::cluster::{create, pod_name, say_ready};
use super::slices::Slices;
use super::{PATIENCE, Place, report_process};
use crate::Failure;

/// Flags of `bench controllers start`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Services
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Pods of each
    #[arg(long, default_value_t = 15)]
    pods: usize,
}

pub(super) async fn run(flags: &Flags, place: &Place<'_>, client: &Client) -> Result<(), Failure> {
    let total = flags.services * flags.pods;
    println!(
        "creating {} Services with {} Pods each",
        flags.services, flags.pods
    );
    create(client, flags.services, flags.pods).await?;
    let mut slices = Slices::watch(client);
    let started = Instant::now();
    let Some(mut first) = place.start_controllers()? else {
        return Err(
            "this case starts the controllers itself, and cannot be pointed at another cluster".into(),
        );
    };
    slices.wait_for_ready(total).await?;
    println!(
        "{total} Pods are endpoints after {:.2} s",
        started.elapsed().as_secs_f64()
    );
    report_process(Some(&first))?;
    // It gives its lease back; what a start beside a dead leader waits for besides is the rest of the lease.
    first.end_gracefully()?;
    // Then a start that has nothing to write: it is in sync when it follows a change.
    let writes_before = slices.writes;
    say_ready(client, &pod_name(0), false).await?;
    let started = Instant::now();
    let again = place.start_controllers()?;
    while slices.is_ready(&pod_name(0)) {
        if tokio::time::timeout(PATIENCE, slices.next()).await.is_err() {
            return Err("the controllers do not follow after their restart".into());
        }
    }
    println!("in sync {:.2} s after a restart", started.elapsed().as_secs_f64());
    // What is written besides would come by now.
    let quiet_until = tokio::time::Instant::now() + Duration::from_secs(10);
    while tokio::time::timeout_at(quiet_until, slices.next()).await.is_ok() {}
    println!(
        "slice writes after the restart: {}, one of them asked for",
        slices.writes - writes_before
    );
    report_process(again.as_ref())
}
