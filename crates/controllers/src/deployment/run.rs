//! Watches and jobs of the Deployment controller.

use std::future::Future;

use client::Query;
use reconcile::watches;

use super::controller::{Change, DeploymentController};
use super::write::execute;
use crate::environment::Environment;
use crate::selection::Controller;

/// Rolls out Deployments until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    watches::forward_with_revision(
        &environment.client,
        Query::default(),
        sender.clone(),
        Change::Deployment,
    );
    watches::forward_with_revision(&environment.client, Query::default(), sender, Change::Set);
    let deployments = DeploymentController::new(environment.clock.clone());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::Deployment.queue_name());
    let run_job = |_, job| {
        let environment = environment.clone();
        async move { execute(&environment, job).await }
    };
    reconcile::run(deployments, changes, queue_metrics, run_job, shutdown).await;
}
