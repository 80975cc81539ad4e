//! The controller: what it watches, and its keeper.

use std::future::Future;

use client::Query;

use super::keeper::{Change, Job, Nodes, Subject};
use super::write::{carry_out, withdraw_pods};
use super::{LEASE_NAMESPACE, Settings};
use crate::keeper;
use crate::run::{Environment, now};
use crate::selection::Controller;

/// Looks after Nodes until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let leases = Query {
        namespace: Some(LEASE_NAMESPACE.to_owned()),
        ..Query::default()
    };
    let (sender, changes) = keeper::changes();
    keeper::forward(&environment, Query::default(), sender.clone(), Change::Node);
    keeper::forward(&environment, leases, sender, Change::Lease);
    let nodes = Nodes::new(settings, environment.clock.clone(), now());
    let meter = environment.metrics.queue(Controller::NodeLifecycle.queue_name());
    let carry_out = |subject: Subject, job: Job| {
        let environment = environment.clone();
        async move {
            match job {
                Job::Write {
                    node,
                    renew_time,
                    step,
                    time,
                } => {
                    carry_out(
                        &environment,
                        subject.name(),
                        &node,
                        renew_time.as_deref(),
                        step,
                        &time,
                    )
                    .await
                }
                Job::Withdraw => withdraw_pods(&environment, subject.name()).await.map(|()| None),
            }
        }
    };
    keeper::run(nodes, changes, meter, carry_out, shutdown).await;
}
