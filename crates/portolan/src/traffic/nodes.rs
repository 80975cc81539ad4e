//! Reports of all nodes, through the API server.

use std::time::Duration;

use client::{Client, ClientError};
use explain::traffic::NodeFlows;
use explain::{Builder, Kind, World};
use futures_util::stream::{self, StreamExt as _};
use serde_json::Value;

use super::query::Query;

/// Nodes that are asked at the same time.
const REQUESTS_MAX: usize = 32;
/// Time for a report beyond its interval.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of each node: its report, or the reason for which there is none.
pub type Results = Vec<(String, Result<NodeFlows, String>)>;

/// Returns true if the API server passes on the reports of nodes: it knows the subresource `nodes/flows`.
///
/// # Errors
///
/// [`ClientError`] if the server does not respond.
pub async fn are_served(client: &Client, builder: &Builder) -> Result<bool, ClientError> {
    if !builder.trees(Kind::Node).any(|node| node["metadata"]["name"].is_string()) {
        return Ok(false);
    }
    let resources: Value = client.get("/api/v1").await?;
    let mut resources = resources["resources"].as_array().into_iter().flatten();
    Ok(resources.any(|resource| resource["name"] == "nodes/flows"))
}

/// Asks all nodes for their reports.
pub async fn reports(client: &Client, world: &World, query: &Query) -> Results {
    let parameters = query.to_text();
    let timeout = query.interval + RESPONSE_TIMEOUT;
    let names: Vec<String> = world.node_names().map(str::to_owned).collect();
    let requests = names.into_iter().map(|name| {
        let mut path = "/api/v1/nodes/".to_owned();
        client::push_escaped(&mut path, &name);
        path.push_str("/flows?");
        path.push_str(&parameters);
        async move {
            let response = tokio::time::timeout(timeout, client.get::<NodeFlows>(&path)).await;
            let report = match response {
                Ok(Ok(report)) => Ok(report),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no response within {timeout:?}")),
            };
            (name, report)
        }
    });
    stream::iter(requests).buffer_unordered(REQUESTS_MAX).collect().await
}
