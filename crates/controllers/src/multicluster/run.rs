//! Watches of all clusters, and jobs.

use std::future::Future;
use std::time::{Duration, Instant};

use api::multicluster::SOURCE_CLUSTER_LABEL;
use api::object::ObjectKey;
use client::{Client, Query};
use reconcile::watches;
use serde_json::Value;
use tokio::sync::mpsc::Sender;

use super::controller::{Change, ClusterNumber, MultiClusterController};
use super::desired::{Desired, Reachability};
use super::names::MANAGED_BY;
use super::settings::Settings;
use super::write::execute;
use crate::endpointslice::MANAGED_BY_LABEL;
use crate::environment::Environment;
use crate::selection::Controller;

/// Period of checking the reachability of other clusters.
const REACHABILITY_PERIOD: Duration = Duration::from_secs(2);
/// Path that every client of an API server may read.
const PROBE_PATH: &str = "/version";
/// Time for a response to a probe, many times that of a busy API server far away.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without a response after which a cluster is reported as unreachable: longer than a restart of an API server.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);

/// Imports the Services of the set until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    watch_cluster(&environment.client, 0, &sender);
    for (index, other) in settings.others.iter().enumerate() {
        watch_cluster(&other.client, index + 1, &sender);
        let (client, sender) = (other.client.clone(), sender.clone());
        let grace_period = settings.unreachable_grace_period;
        tokio::spawn(report_reachability(client, index + 1, grace_period, sender));
    }
    watch_objects(&environment.client, sender);
    let others = settings.others.iter().map(|other| other.id.clone());
    let controller = MultiClusterController::new(environment.clock.clone(), settings.cluster_id, others);
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::MultiClusterService.queue_name());
    let (client, clock) = (environment.client, environment.clock);
    let run_job = |_: ObjectKey, desired: Desired| {
        let (client, clock) = (client.clone(), clock.clone());
        async move { execute(&client, &clock, desired).await }
    };
    reconcile::run(controller, changes, queue_metrics, run_job, shutdown).await;
}

/// Watches the exports of a cluster. Mirrored slices are not exported again.
fn watch_cluster(client: &Client, number: ClusterNumber, sender: &Sender<Change>) {
    let slices = Query {
        label_selector: format!("!{SOURCE_CLUSTER_LABEL}"),
        ..Query::default()
    };
    watches::forward(client, Query::default(), sender.clone(), move |event| {
        Change::Export(number, event)
    });
    watches::forward(client, Query::default(), sender.clone(), move |event| {
        Change::Service(number, event)
    });
    watches::forward(client, slices, sender.clone(), move |event| {
        Change::Slice(number, event)
    });
}

/// Watches the objects of imports in this cluster.
fn watch_objects(client: &Client, sender: Sender<Change>) {
    let mirrored = Query {
        label_selector: format!("{SOURCE_CLUSTER_LABEL},{MANAGED_BY_LABEL}={MANAGED_BY}"),
        ..Query::default()
    };
    watches::forward(client, Query::default(), sender.clone(), Change::Import);
    watches::forward(client, mirrored, sender.clone(), Change::Mirrored);
    watches::forward(client, Query::default(), sender, Change::Namespace);
}

/// Reports each change of the reachability of a cluster; ends with the receiver.
async fn report_reachability(
    client: Client,
    number: ClusterNumber,
    grace_period: Duration,
    sender: Sender<Change>,
) {
    let mut known = Reachability::default();
    let mut silent_since = None;
    loop {
        tokio::select! {
            () = sender.closed() => return,
            () = tokio::time::sleep(REACHABILITY_PERIOD) => {}
        }
        let started = Instant::now();
        if responds(&client).await {
            silent_since = None;
        } else {
            silent_since.get_or_insert(started);
        }
        let present = reachability(silent_since.map(|since| since.elapsed()), grace_period);
        if present != known {
            tracing::info!(server = client.server(), state = ?present, "reachability of a cluster changed");
            known = present;
            if sender.send(Change::Reachability(number, present)).await.is_err() {
                return;
            }
        }
    }
}

/// Returns true if an API server responds in time, with any status. Watches do not show that a server hangs.
async fn responds(client: &Client) -> bool {
    let response = client.get::<Value>(PROBE_PATH);
    match tokio::time::timeout(PROBE_TIMEOUT, response).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => error.code().is_some(),
        Err(_) => false,
    }
}

fn reachability(silent_for: Option<Duration>, grace_period: Duration) -> Reachability {
    match silent_for {
        Some(time) if time >= grace_period.max(UNREACHABLE_AFTER) => Reachability::Lost,
        Some(time) if time >= UNREACHABLE_AFTER => Reachability::Unreachable,
        _ => Reachability::Reachable,
    }
}

#[cfg(test)]
mod tests;
