//! The controller: what it watches, what it asks, and its keeper.

use std::future::Future;
use std::sync::Arc;

use client::Query;
use probe::Target;

use super::MANAGED_BY;
use super::keeper::{Answer, Backends, Job, Subject};
use super::write;
use crate::endpointslice::MANAGED_BY_LABEL;
use crate::keeper;
use crate::run::{Environment, now};
use crate::selection::Controller;

/// Checks backends until `shutdown` resolves; questions and writes under way are finished first.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let tls = match trust::client_config_without_verification() {
        Ok(tls) => Arc::new(tls),
        Err(error) => {
            tracing::error!(%error, "backends are not checked");
            return;
        }
    };
    let query = Query {
        label_selector: format!("{MANAGED_BY_LABEL}={MANAGED_BY}"),
        ..Query::default()
    };
    let (sender, changes) = keeper::changes();
    keeper::forward(&environment, query, sender, |event| event);
    let meter = environment.metrics.queue(Controller::BackendHealth.queue_name());
    let carry_out = |_: Subject, job: Job| {
        let (environment, tls) = (environment.clone(), Arc::clone(&tls));
        async move {
            match job {
                Job::Check { probe, address } => {
                    let target = Target {
                        address: Some(address),
                        ports: &[],
                    };
                    let asked = probe::ask(&probe, target, &tls).await;
                    Ok(Answer::Checked {
                        asked,
                        answered_at: now(),
                    })
                }
                Job::Write { slice, findings } => write::carry_out(&environment, &slice, findings)
                    .await
                    .map(Answer::Written),
            }
        }
    };
    keeper::run(Backends::default(), changes, meter, carry_out, shutdown).await;
}
