//! Watches and jobs of the controller.

use std::future::Future;

use client::Query;
use reconcile::watches;

use super::controller::{Change, TaintEviction};
use super::write::execute;
use crate::environment::Environment;
use crate::selection::Controller;

/// Evicts Pods until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    watches::forward(
        &environment.client,
        Query::default(),
        sender.clone(),
        Change::Node,
    );
    environment.pods.forward(sender, Change::Pod);
    let eviction = TaintEviction::new(environment.clock.clone());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::TaintEviction.queue_name());
    let run_job = |_, meta| {
        let environment = environment.clone();
        async move { execute(&environment, meta).await }
    };
    reconcile::run(eviction, changes, queue_metrics, run_job, shutdown).await;
}
