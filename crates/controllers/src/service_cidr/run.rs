//! The controller: what it watches, and its keeper.

use std::future::Future;

use client::Query;

use super::cidrs::{Change, Cidrs, Job};
use super::write::carry_out;
use super::{MANAGED_BY, MANAGED_BY_LABEL};
use crate::keeper;
use crate::run::Environment;
use crate::selection::Controller;

/// Looks after ServiceCIDRs until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let managed = Query {
        label_selector: format!("{MANAGED_BY_LABEL}={MANAGED_BY}"),
        ..Query::default()
    };
    let (sender, changes) = keeper::changes();
    keeper::forward(&environment, Query::default(), sender.clone(), Change::Cidr);
    keeper::forward(&environment, managed, sender, Change::Address);
    let cidrs = Cidrs::new(environment.clock.clone());
    let meter = environment.metrics.queue(Controller::ServiceCidr.queue_name());
    let client = environment.client;
    let carry_out = |_: String, Job { cidr, step, time }| {
        let client = client.clone();
        async move {
            let written = carry_out(&client, &cidr, step, time).await?;
            Ok((cidr.metadata.uid, written))
        }
    };
    keeper::run(cidrs, changes, meter, carry_out, shutdown).await;
}
