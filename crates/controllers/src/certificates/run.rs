//! The controller: what it watches, and its keeper.

use std::future::Future;

use api::object::CertificateSigningRequest;
use client::Query;

use super::Settings;
use super::decide::{decide, sign};
use super::keeper::{Answer, Job, Requests};
use crate::keeper;
use crate::run::Environment;
use crate::selection::Controller;
use crate::write::delete;

/// Looks after requests for certificates until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = keeper::changes();
    keeper::forward::<CertificateSigningRequest, _>(&environment, Query::default(), sender, |event| event);
    let requests = Requests::new(settings.clone(), environment.clock.clone());
    let meter = environment
        .metrics
        .queue(Controller::CertificateApproving.queue_name());
    let carry_out = |_: String, job: Job| {
        let (environment, settings) = (environment.clone(), settings.clone());
        async move {
            match job {
                Job::Decide(request, recognised) => {
                    return decide(&environment, *request, recognised, &settings.reserved).await;
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
            Ok(Answer::Done)
        }
    };
    keeper::run(requests, changes, meter, carry_out, shutdown).await;
}
