//! Reports of all nodes, through the API server.

use std::time::Duration;

use client::{Client, ClientError};
use explain::World;
use explain::traffic::NodeFlows;
use futures_util::stream::{self, StreamExt as _};

use super::query::Query;

/// Maximum number of Nodes that are queried at the same time: half of the reports that a server reads at a time.
const REQUESTS_MAX: usize = 16;
/// Time for a report beyond its interval.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of each node: its report, or the reason why there is none.
pub(crate) type Results = Vec<(String, Result<NodeFlows, String>)>;

/// Requests the reports of all nodes.
pub(crate) async fn reports(client: &Client, world: &World, query: &Query) -> Results {
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
                // A node can send a false report, but not in the name of another one.
                Ok(Ok(report)) if report.metadata.name == name => Ok(report),
                Ok(Ok(report)) => Err(format!("the report names node {:?}", report.metadata.name)),
                Ok(Err(ClientError::Status { status, .. })) => Err(status.message),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no response within {timeout:?}")),
            };
            (name, report)
        }
    });
    stream::iter(requests)
        .buffer_unordered(REQUESTS_MAX)
        .collect()
        .await
}
