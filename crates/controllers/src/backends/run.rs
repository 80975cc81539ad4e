//! Watches and jobs of the backend health controller.

use std::future::Future;
use std::sync::Arc;

use client::Query;
use probe::Target;
use reconcile::now;
use reconcile::watches;

use super::MANAGED_BY;
use super::controller::{BackendHealthController, Job, JobOutput, Subject};
use super::write;
use crate::endpoint_slice::MANAGED_BY_LABEL;
use crate::environment::Environment;
use crate::selection::Controller;

/// Checks backends until `shutdown` resolves, then waits for probes and writes in progress.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let tls = match trust::client_config_without_verification() {
        Ok(tls) => Arc::new(tls),
        Err(error) => {
            tracing::error!(%error, "TLS configuration failed; backends are not checked");
            return;
        }
    };
    let query = Query {
        label_selector: format!("{MANAGED_BY_LABEL}={MANAGED_BY}"),
        ..Query::default()
    };
    let (sender, changes) = watches::channel();
    watches::forward(&environment.client, query, sender, |event| event);
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::BackendHealth.queue_name());
    let run_job = |_: Subject, job: Job| {
        let (environment, tls) = (environment.clone(), Arc::clone(&tls));
        async move {
            match job {
                Job::Check { probe, address } => {
                    let target = Target {
                        address: Some(address),
                        ports: &[],
                    };
                    let probed = probe::execute(&probe, target, &tls).await;
                    Ok(JobOutput::Probed {
                        probed,
                        finished_at: now(),
                    })
                }
                Job::Write { slice, events } => write::execute(&environment, &slice, events)
                    .await
                    .map(JobOutput::Written),
            }
        }
    };
    reconcile::run(
        BackendHealthController::default(),
        changes,
        queue_metrics,
        run_job,
        shutdown,
    )
    .await;
}
