//! Bootstrap tokens whose time is over are removed (upstream's token cleaner).

mod keeper;

use std::collections::BTreeMap;
use std::future::Future;

use api::bootstrap_token::{NAMESPACE, SECRET_TYPE};
use api::object::ObjectMeta;
use client::Query;
use serde::{Deserialize, Serialize};

use crate::keeper::{changes, forward};
use crate::run::Environment;
use crate::selection::Controller;
use crate::write::delete;
use keeper::Tokens;

/// A Secret, as far as it matters here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Secret {
    metadata: ObjectMeta,
    #[serde(rename = "type")]
    kind: String,
    data: BTreeMap<String, String>,
}

api::resource!(Secret, "", "v1", "Secret", "secrets");

/// Removes expired tokens until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, shutdown: impl Future<Output = ()>) {
    let query = Query {
        namespace: Some(NAMESPACE.to_owned()),
        field_selector: format!("type={SECRET_TYPE}"),
        ..Query::default()
    };
    let (sender, changes) = changes();
    forward::<Secret, _>(&environment, query, sender, |event| event);
    let tokens = Tokens::new(environment.clock.clone());
    let meter = environment.metrics.queue(Controller::TokenCleaner.queue_name());
    let client = environment.client;
    let carry_out = |name: String, secret: ObjectMeta| {
        let client = client.clone();
        async move {
            delete::<Secret>(&client, &secret).await?;
            tracing::info!(secret = name, "an expired bootstrap token is removed");
            Ok(())
        }
    };
    crate::keeper::run(tokens, changes, meter, carry_out, shutdown).await;
}

#[cfg(test)]
mod tests;
