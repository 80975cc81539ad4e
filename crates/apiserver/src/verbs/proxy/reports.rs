//! The subresources `observation` and `flows` of Nodes: reports that the agent of the node creates.
//!
//! A node can lie. Its response is bounded in size and time, has to be JSON, and is read completely before the client
//! receives a part of it.

use std::sync::Arc;
use std::time::Duration;

use api::kind;
use bytes::Bytes;
use futures_util::stream;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::de::IgnoredAny;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::agent::{AgentClient, error_text};
use crate::failure::Failure;
use crate::request::query::Query;
use crate::request::route::Target;
use crate::transport::long_running::RequestLifetime;
use crate::transport::response::{self, ApiResponse, FRAME_BYTES};
use crate::verbs::resource::Resources;

/// Bytes of one report. 20,000 routes and 5,000 listeners are about 4 MiB.
const REPORT_BYTES_MAX: usize = 8 << 20;
/// Reports in memory at the same time: 256 MiB.
const REPORTS_MAX: usize = 32;
/// Parameters that agents know.
const OBSERVATION_PARAMETERS: [&str; 3] = ["from", "probe", "service"];
const FLOWS_PARAMETERS: [&str; 6] = [
    "client",
    "intervalMilliseconds",
    "namespace",
    "protocol",
    "rows",
    "service",
];
/// Characters of a parameter: a namespace and a name of 253 characters each, with a slash.
const PARAMETER_CHARACTERS_MAX: usize = 507;
/// Timeout of a whole report. An agent makes others wait at most 10 s, and probes take some seconds.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// Reader of the reports of nodes, shared by all connections.
pub(crate) struct NodeReports {
    permits: Arc<Semaphore>,
}

impl NodeReports {
    /// Creates a reader.
    pub(crate) fn new() -> NodeReports {
        NodeReports {
            permits: Arc::new(Semaphore::new(REPORTS_MAX)),
        }
    }

    /// Returns the report of `target`, which names the subresource of a Node. The response ends with `lifetime`.
    pub(crate) async fn read(
        &self,
        agents: &AgentClient,
        resources: &Resources,
        target: &Target,
        query: &Query,
        mut lifetime: RequestLifetime,
    ) -> Result<ApiResponse, Failure> {
        let name = target.name();
        let report = target.subresource.unwrap_or_default();
        let path = format!("/nodeReports/{name}/{report}?{}", parameters(report, query)?);
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let message = format!("{REPORTS_MAX} reports of nodes are read at the same time, try again");
            return Err(Failure::new(
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                message,
            ));
        };
        let reading = async {
            let response = agents.get(resources, name, &path).await?;
            match response.status() {
                StatusCode::OK => body(response, name).await,
                _ => Err(failure(response, name).await),
            }
        };
        let reading = async {
            timeout(REPORT_TIMEOUT, reading).await.unwrap_or_else(|_| {
                let message = format!("no report of node {name:?} within {REPORT_TIMEOUT:?}");
                Err(Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message))
            })
        };
        let report = lifetime.during(reading).await?;
        Ok(response::with_lifetime(respond(report, permit), lifetime))
    }
}

/// Returns the parameters of a report. Their values have no characters that need escapes, so none changes the request.
fn parameters(report: &str, query: &Query) -> Result<String, Failure> {
    let known: &[&str] = match report {
        kind::OBSERVATION => &OBSERVATION_PARAMETERS,
        _ => &FLOWS_PARAMETERS,
    };
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-._:/".contains(character);
    let mut pairs = Vec::new();
    for name in known.iter().filter(|name| query.has(name)) {
        let value = query.text(name);
        if value.len() > PARAMETER_CHARACTERS_MAX || !value.chars().all(is_plain) {
            return Err(Failure::bad_request(format!(
                "invalid parameter {name}: expected at most {PARAMETER_CHARACTERS_MAX} letters, digits and -._:/"
            )));
        }
        pairs.push(format!("{name}={value}"));
    }
    Ok(pairs.join("&"))
}

/// Reads the body of a report.
async fn body(response: Response<Incoming>, node_name: &str) -> Result<Bytes, Failure> {
    let body = Limited::new(response.into_body(), REPORT_BYTES_MAX)
        .collect()
        .await;
    let body = body.map_err(|error| invalid(node_name, &format!("is not complete: {error}")))?;
    let bytes = body.to_bytes();
    check(&bytes).map_err(|reason| invalid(node_name, &reason))?;
    Ok(bytes)
}

/// Checks that a report is JSON without control characters, which clients would print.
fn check(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("is not UTF-8: {error}"))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| format!("is not JSON: {error}"))?;
    let is_format = |character: char| matches!(character, '\n' | '\r' | '\t');
    if text
        .chars()
        .any(|character| character.is_control() && !is_format(character))
    {
        return Err("has control characters".to_owned());
    }
    Ok(())
}

fn invalid(node_name: &str, reason: &str) -> Failure {
    let message = format!("the report of node {node_name:?} {reason}");
    Failure::new(StatusCode::BAD_GATEWAY, "", message)
}

/// Converts an agent's error response to a failure.
async fn failure(response: Response<Incoming>, node_name: &str) -> Failure {
    let status = response.status();
    let message = error_text(response).await;
    match status {
        StatusCode::BAD_REQUEST => Failure::bad_request(message),
        // Agents of earlier versions do not know the path.
        StatusCode::NOT_IMPLEMENTED | StatusCode::NOT_FOUND => {
            let message = format!("the agent of node {node_name:?} has no such report: {message}");
            Failure::new(StatusCode::NOT_IMPLEMENTED, "", message)
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let message = format!("the agent of node {node_name:?} is busy: {message}");
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
        }
        _ => {
            let message = format!("the agent of node {node_name:?} answered {status}: {message}");
            Failure::new(StatusCode::BAD_GATEWAY, "", message)
        }
    }
}

/// Returns the response with a report, which occupies its permit until the client has received it.
fn respond(report: Bytes, permit: OwnedSemaphorePermit) -> ApiResponse {
    let pieces = stream::unfold((report, permit), |(mut rest, permit)| async move {
        let piece = rest.split_to(rest.len().min(FRAME_BYTES));
        (!piece.is_empty()).then_some((piece, (rest, permit)))
    });
    response::document_stream("application/json", Box::pin(pieces))
}

#[cfg(test)]
mod tests;
