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
use super::desired::{DesiredImport, Reachability};
use super::names::MANAGED_BY;
use super::settings::{Settings, UNREACHABLE_AFTER};
use super::write::execute;
use crate::endpoint_slice::MANAGED_BY_LABEL;
use crate::environment::Environment;
use crate::selection::Controller;

/// Period of checking the reachability of other clusters.
const REACHABILITY_PERIOD: Duration = Duration::from_secs(2);
/// Path that the role of the controller permits. A server that refuses it does not serve the watches either.
const PROBE_PATH: &str = "/apis/multicluster.x-k8s.io/v1beta1/serviceexports?limit=1";
/// Timeout of a probe: many times the response time of a busy and distant API server.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

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
    let run_job = |_: ObjectKey, desired: DesiredImport| {
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
    let mut unresponsive_since = None;
    loop {
        tokio::select! {
            () = sender.closed() => return,
            () = tokio::time::sleep(REACHABILITY_PERIOD) => {}
        }
        let started = Instant::now();
        let fault = probe(&client).await.err();
        if fault.is_none() {
            unresponsive_since = None;
        } else {
            unresponsive_since.get_or_insert(started);
        }
        let unresponsive_for = unresponsive_since.map(|since| since.elapsed());
        let present = reachability(unresponsive_for, grace_period);
        if present != known {
            let (server, error) = (client.server(), fault.unwrap_or_default());
            tracing::info!(server, state = ?present, error, "reachability of a cluster changed");
            known = present;
            if sender.send(Change::Reachability(number, present)).await.is_err() {
                return;
            }
        }
    }
}

/// Reads from an API server; returns the fault without a successful response within the timeout. Watches do not show
/// that a server does not respond.
async fn probe(client: &Client) -> Result<(), String> {
    let response = client.get::<Value>(PROBE_PATH);
    match tokio::time::timeout(PROBE_TIMEOUT, response).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no response within {PROBE_TIMEOUT:?}")),
    }
}

fn reachability(unresponsive_for: Option<Duration>, grace_period: Duration) -> Reachability {
    match unresponsive_for {
        Some(time) if time >= grace_period.max(UNREACHABLE_AFTER) => Reachability::Lost,
        Some(time) if time >= UNREACHABLE_AFTER => Reachability::Unreachable,
        _ => Reachability::Reachable,
    }
}

#[cfg(test)]
mod tests;
