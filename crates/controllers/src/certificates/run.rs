//! Watches and jobs of the certificate controller.

use std::future::Future;

use api::object::CertificateSigningRequest;
use client::Query;
use reconcile::watches;

use super::Settings;
use super::approval::{approve, sign};
use super::controller::{CertificateController, Job, JobOutput, RequestKey};
use crate::api_requests::delete;
use crate::environment::Environment;
use crate::selection::Controller;

/// Handles certificate signing requests until `shutdown` resolves, then waits for writes in progress.
pub async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = watches::channel();
    watches::forward::<CertificateSigningRequest, _>(
        &environment.client,
        Query::default(),
        sender,
        |event| event,
    );
    let requests = CertificateController::new(settings.clone(), environment.clock.clone());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::CertificateApproving.queue_name());
    let run_job = |_: RequestKey, job: Job| {
        let (environment, settings) = (environment.clone(), settings.clone());
        async move {
            match job {
                Job::Decide(request, recognized) => {
                    return approve(&environment, *request, recognized, &settings.reserved).await;
                }
                Job::Sign(request) => {
                    if let Some(authority) = &settings.authority {
                        sign(&environment, *request, authority).await?;
                    }
                }
                Job::Remove(request) => {
                    delete::<CertificateSigningRequest>(&environment.client, &request.metadata).await?;
                }
            }
            Ok(JobOutput::Done)
        }
    };
    reconcile::run(requests, changes, queue_metrics, run_job, shutdown).await;
}
