//! The scheduler: what it watches, and its keeper.

use std::future::Future;

use client::Query;

use super::keeper::{Change, Scheduler};
use super::write::carry_out;
use crate::keeper;
use crate::run::Environment;
use crate::selection::Controller;

/// Gives Pods to Nodes until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = keeper::changes();
    keeper::forward(&environment, Query::default(), sender.clone(), Change::Node);
    keeper::forward_with_revision(&environment, Query::default(), sender, Change::Pod);
    let scheduler = Scheduler::new(environment.clock.clone());
    let meter = environment.metrics.queue(Controller::PodPlacement.queue_name());
    let carry_out = |_, job| {
        let environment = environment.clone();
        async move { carry_out(&environment, job).await }
    };
    keeper::run(scheduler, changes, meter, carry_out, shutdown).await;
}
