//! Deletion of expired bootstrap tokens (upstream's token cleaner).

mod controller;

use std::collections::BTreeMap;
use std::future::Future;

use api::bootstrap_token::{NAMESPACE, SECRET_TYPE};
use api::object::ObjectMeta;
use client::Query;
use reconcile::watches;
use serde::{Deserialize, Serialize};

use crate::api_requests::delete;
use crate::environment::Environment;
use crate::selection::Controller;
use controller::TokenCleaner;

/// The fields of a Secret that the token cleaner reads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Secret {
    metadata: ObjectMeta,
    #[serde(rename = "type")]
    kind: String,
    data: BTreeMap<String, String>,
}

api::resource!(Secret, "", "v1", "Secret", "secrets");

/// Deletes expired tokens until `shutdown` resolves, then waits for writes in progress.
pub(crate) async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let query = Query {
        namespace: Some(NAMESPACE.to_owned()),
        field_selector: format!("type={SECRET_TYPE}"),
        ..Query::default()
    };
    let (sender, changes) = watches::channel();
    watches::forward::<Secret, _>(&environment.client, query, sender, |event| event);
    let tokens = TokenCleaner::new(environment.clock.clone());
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::TokenCleaner.queue_name());
    let client = environment.client;
    let run_job = |name: String, secret: ObjectMeta| {
        let client = client.clone();
        async move {
            delete::<Secret>(&client, &secret).await?;
            tracing::info!(secret = name, "expired bootstrap token deleted");
            Ok(())
        }
    };
    reconcile::run(tokens, changes, queue_metrics, run_job, shutdown).await;
}

#[cfg(test)]
mod tests;
