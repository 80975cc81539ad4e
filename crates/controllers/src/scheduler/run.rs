//! Watches and jobs of the scheduler.

use std::future::Future;

use client::Query;
use reconcile::watches;

use super::controller::{Change, Scheduler};
use super::write::execute;
use crate::environment::Environment;
use crate::selection::Controller;

/// Schedules Pods until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    watches::forward(
        &environment.client,
        Query::default(),
        sender.clone(),
        Change::Node,
    );
    watches::forward(
        &environment.client,
        Query::default(),
        sender.clone(),
        Change::Namespace,
    );
    environment.pods.forward(sender, Change::Pod);
    let scheduler = Scheduler::new(environment.clock.clone());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::Scheduler.queue_name());
    let run_job = |_, job| {
        let environment = environment.clone();
        async move { execute(&environment, job).await }
    };
    reconcile::run(scheduler, changes, queue_metrics, run_job, shutdown).await;
}
