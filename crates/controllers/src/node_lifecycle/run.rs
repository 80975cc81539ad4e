//! Watches and jobs of the node lifecycle controller.

use std::future::Future;

use client::Query;
use reconcile::now;
use reconcile::watches;

use super::controller::{Change, Job, NodeLifecycleController, Subject};
use super::write::{execute, mark_pods_not_ready};
use super::{LEASE_NAMESPACE, Settings};
use crate::environment::Environment;
use crate::selection::Controller;

/// Monitors Nodes until `shutdown` resolves, then waits for writes in progress.
pub async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let leases = Query {
        namespace: Some(LEASE_NAMESPACE.to_owned()),
        ..Query::default()
    };
    let (sender, changes) = watches::channel();
    watches::forward(
        &environment.client,
        Query::default(),
        sender.clone(),
        Change::Node,
    );
    watches::forward(&environment.client, leases, sender, Change::Lease);
    let nodes = NodeLifecycleController::new(settings, environment.clock.clone(), now());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::NodeLifecycle.queue_name());
    let run_job = |subject: Subject, job: Job| {
        let environment = environment.clone();
        async move {
            match job {
                Job::Write {
                    node,
                    renew_time,
                    step,
                    time,
                } => {
                    execute(
                        &environment,
                        subject.name(),
                        &node,
                        renew_time.as_deref(),
                        step,
                        &time,
                    )
                    .await
                }
                Job::MarkPodsNotReady => mark_pods_not_ready(&environment, subject.name())
                    .await
                    .map(|()| None),
            }
        }
    };
    reconcile::run(nodes, changes, queue_metrics, run_job, shutdown).await;
}
