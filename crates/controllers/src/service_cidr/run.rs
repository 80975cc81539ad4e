//! Watches and jobs of the ServiceCIDR controller.

use std::future::Future;

use client::Query;
use reconcile::watches;

use super::controller::{Change, Job, ServiceCidrController};
use super::write::execute;
use super::{MANAGED_BY, MANAGED_BY_LABEL};
use crate::environment::Environment;
use crate::selection::Controller;

/// Reconciles ServiceCIDRs until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let managed = Query {
        label_selector: format!("{MANAGED_BY_LABEL}={MANAGED_BY}"),
        ..Query::default()
    };
    let (sender, changes) = watches::channel();
    watches::forward(
        &environment.client,
        Query::default(),
        sender.clone(),
        Change::Cidr,
    );
    watches::forward(&environment.client, managed, sender, Change::Address);
    let cidrs = ServiceCidrController::new(environment.clock.clone());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::ServiceCidr.queue_name());
    let client = environment.client;
    let run_job = |_: String, Job { cidr, step, time }| {
        let client = client.clone();
        async move {
            let written = execute(&client, &cidr, step, time).await?;
            Ok((cidr.metadata.uid, written))
        }
    };
    reconcile::run(cidrs, changes, queue_metrics, run_job, shutdown).await;
}
