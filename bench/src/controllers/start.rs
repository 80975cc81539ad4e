//! Start of the controllers with many Pods.

use std::time::{Duration, Instant};

use client::Client;

use super::cluster::{create, pod_name, set_ready};
use super::slices::Slices;
use super::{Context, TIMEOUT, report_process};
use crate::Failure;

/// Flags of `bench controllers start`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Flags {
    /// Number of Services
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Number of Pods per Service
    #[arg(long, default_value_t = 15)]
    pods: usize,
}

pub(super) async fn run(flags: &Flags, context: &Context<'_>, client: &Client) -> Result<(), Failure> {
    let total = flags.services * flags.pods;
    println!(
        "creating {} Services with {} Pods each",
        flags.services, flags.pods
    );
    create(client, flags.services, flags.pods).await?;
    let mut slices = Slices::watch(client);
    let started = Instant::now();
    let Some(mut first) = context.start_controllers()? else {
        return Err("this case starts the controllers itself: --kubeconfig is not supported".into());
    };
    slices.wait_for_ready(total).await?;
    println!(
        "{total} Pods are endpoints after {:.2} s",
        started.elapsed().as_secs_f64()
    );
    report_process(Some(&first))?;
    // An orderly shutdown releases the lease. After a crash, the next start would wait until the lease expires.
    first.terminate()?;
    // The second start has almost nothing to write. It is synced when it applies a change.
    let writes_before = slices.writes;
    set_ready(client, &pod_name(0), false).await?;
    let started = Instant::now();
    let again = context.start_controllers()?;
    while slices.is_ready(&pod_name(0)) {
        if tokio::time::timeout(TIMEOUT, slices.next()).await.is_err() {
            return Err("the controllers do not apply a change after their restart".into());
        }
    }
    println!("in sync {:.2} s after a restart", started.elapsed().as_secs_f64());
    // Unnecessary writes would arrive in this time.
    let quiet_until = tokio::time::Instant::now() + Duration::from_secs(10);
    while tokio::time::timeout_at(quiet_until, slices.next()).await.is_ok() {}
    println!(
        "slice writes after the restart: {}, of which one is necessary",
        slices.writes - writes_before
    );
    report_process(again.as_ref())
}
