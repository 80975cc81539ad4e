//! Watches and jobs of a workload controller.

use std::future::Future;

use client::Query;
use reconcile::watches;

use super::Workload;
use super::controller::{Change, WorkloadController};
use super::write::execute;
use crate::environment::Environment;

/// Reconciles the objects of a kind until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run<W: Workload>(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    let (client, query) = (&environment.client, Query::default);
    watches::forward_with_revision(client, query(), sender.clone(), Change::<W>::Workload);
    if W::HAS_REVISIONS {
        watches::forward_with_revision(client, query(), sender.clone(), Change::Revision);
    }
    if W::READS_NODES {
        watches::forward(client, query(), sender.clone(), Change::Node);
    }
    environment.pods.forward(sender, Change::Pod);
    let controller = WorkloadController::<W>::new(environment.clock.clone());
    let queue_metrics = environment.metrics.register_queue(W::CONTROLLER.queue_name());
    let run_job = |_, job| {
        let environment = environment.clone();
        async move { execute(&environment, job).await }
    };
    reconcile::run(controller, changes, queue_metrics, run_job, shutdown).await;
}
