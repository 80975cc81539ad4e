//! Watches and jobs of the ReplicaSet controller.

use std::future::Future;

use client::Query;
use reconcile::watches;

use super::controller::{Change, ReplicaSetController};
use super::write::execute;
use crate::environment::Environment;
use crate::selection::Controller;

/// Reconciles ReplicaSets until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    watches::forward_with_revision(&environment.client, Query::default(), sender.clone(), Change::Set);
    environment.pods.forward(sender, Change::Pod);
    let sets = ReplicaSetController::new(environment.clock.clone());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::ReplicaSet.queue_name());
    let run_job = |_, job| {
        let environment = environment.clone();
        async move { execute(&environment, job).await }
    };
    reconcile::run(sets, changes, queue_metrics, run_job, shutdown).await;
}
