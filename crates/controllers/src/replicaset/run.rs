//! The controller: what it watches, and its keeper.

use std::future::Future;

use client::Query;

use super::keeper::{Change, ReplicaSets};
use super::write::carry_out;
use crate::keeper;
use crate::run::Environment;
use crate::selection::Controller;

/// Keeps as many Pods as ReplicaSets want until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let (sender, changes) = keeper::changes();
    keeper::forward_with_revision(&environment, Query::default(), sender.clone(), Change::Set);
    keeper::forward_with_revision(&environment, Query::default(), sender, Change::Pod);
    let sets = ReplicaSets::new(environment.clock.clone());
    let meter = environment.metrics.queue(Controller::ReplicaSet.queue_name());
    let carry_out = |_, job| {
        let environment = environment.clone();
        async move { carry_out(&environment, job).await }
    };
    keeper::run(sets, changes, meter, carry_out, shutdown).await;
}
