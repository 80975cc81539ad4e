//! The subresources `observation` and `flows` of Nodes: reports that the agent of the node creates.
//!
//! A node can send false reports. Its response is bounded in size and time, and has to be JSON. The server reads it
//! completely before the client receives a part of it. Because clients can be slow, the memory of reports is limited
//! for each user. The time until a client has received a report is limited too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::kind;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::de::IgnoredAny;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::agent::{AgentClient, error_text};
use crate::access::flow_control::{Flow, UserKey};
use crate::failure::Failure;
use crate::limited_pool::{Bounds, LimitedPool, ReserveAccess};
use crate::request::query::Query;
use crate::request::route::Target;
use crate::transport::long_running::RequestLifetime;
use crate::transport::response::{self, ApiResponse, FRAME_BYTES};
use crate::verbs::resource::Resources;

/// Maximum number of bytes of one report. 20,000 routes and 5,000 listeners are about 4 MiB.
const REPORT_BYTES_MAX: usize = 8 << 20;
/// Reports in memory at the same time: 256 MiB, without those of administrators, which are counted and never refused.
/// `portolan doctor` and the chart read 16 at a time. The reserve is for the chart of `portolan up`.
const REPORTS: Bounds = Bounds {
    total: 32,
    without_reserve: 24,
    per_holder: 16,
    per_reserved_holder: 24,
};
/// Parameters that agents accept.
const OBSERVATION_PARAMETERS: [&str; 3] = ["from", "probe", "service"];
const FLOWS_PARAMETERS: [&str; 6] = [
    "client",
    "intervalMilliseconds",
    "namespace",
    "protocol",
    "rows",
    "service",
];
/// Maximum number of characters of a parameter: a namespace and a name of 253 characters each, with a slash.
const PARAMETER_CHARACTERS_MAX: usize = 507;
/// Timeout of a whole report. A report waits at most 10 s for other reports of the agent, and probes take a few
/// seconds.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time within which a client must receive a report: 8 MiB at 140 kB/s. After that, the memory is released, and the
/// response is incomplete.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Reader of the reports of nodes, shared by all connections.
pub(crate) struct NodeReports {
    held: Arc<Mutex<LimitedPool<UserKey>>>,
}

/// Permit for the memory of one report, released on drop.
struct ReportPermit {
    held: Arc<Mutex<LimitedPool<UserKey>>>,
    user: UserKey,
}

impl Drop for ReportPermit {
    fn drop(&mut self) {
        lock(&self.held).release(&self.user, 1);
    }
}

impl NodeReports {
    /// Creates a reader.
    pub(crate) fn new() -> NodeReports {
        NodeReports {
            held: Arc::new(Mutex::new(LimitedPool::new(REPORTS))),
        }
    }

    /// Takes a permit for a report.
    ///
    /// # Errors
    /// 429 if the user or all users together hold too many.
    fn permit(&self, user: UserKey, access: ReserveAccess) -> Result<ReportPermit, Failure> {
        lock(&self.held).take(user, 1, access).map_err(|_| {
            let message = format!(
                "too many reports of nodes are read at the same time: one user has at most {}, all have {}; try again",
                REPORTS.per_holder, REPORTS.without_reserve
            );
            Failure::busy(message)
        })?;
        Ok(ReportPermit {
            held: Arc::clone(&self.held),
            user,
        })
    }

    /// Returns the report of `target`, which names the subresource of a Node. The response ends with `lifetime`.
    pub(crate) async fn read(
        &self,
        agents: &AgentClient,
        resources: &Resources,
        target: &Target,
        query: &Query,
        flow: Flow,
        mut lifetime: RequestLifetime,
    ) -> Result<ApiResponse, Failure> {
        let name = target.name();
        let report = target.subresource.unwrap_or_default();
        let path = format!("/nodeReports/{name}/{report}?{}", parameters(report, query)?);
        let permit = self.permit(flow.user, flow.reserve_access())?;
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
        // Agents of earlier versions do not serve the path.
        StatusCode::NOT_IMPLEMENTED | StatusCode::NOT_FOUND => {
            let message = format!("the agent of node {node_name:?} has no such report: {message}");
            Failure::new(StatusCode::NOT_IMPLEMENTED, "", message)
        }
        StatusCode::TOO_MANY_REQUESTS => {
            let message = format!("the agent of node {node_name:?} is busy: {message}");
            Failure::busy(message)
        }
        _ => {
            let message = format!("the agent of node {node_name:?} answered {status}: {message}");
            Failure::new(StatusCode::BAD_GATEWAY, "", message)
        }
    }
}

/// Returns the response with a report, which occupies its permit until the client has received it, or is too slow.
fn respond(report: Bytes, permit: ReportPermit) -> ApiResponse {
    // The body of a stalled client is not polled, so a task of its own holds the report.
    let (length, (sender, receiver)) = (report.len(), mpsc::channel(1));
    tokio::spawn(async move {
        if timeout(DELIVERY_TIMEOUT, send_in_pieces(report, sender))
            .await
            .is_err()
        {
            tracing::info!(timeout = ?DELIVERY_TIMEOUT, "report of a node dropped; its client was too slow");
        }
        drop(permit);
    });
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    });
    let mut response = response::document_stream("application/json", Box::pin(pieces));
    // With the length, a client recognizes a dropped report.
    response
        .headers_mut()
        .insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// Sends a report in pieces, each after the client has received the previous one. Ends early if the client disconnects.
async fn send_in_pieces(mut report: Bytes, pieces: mpsc::Sender<Bytes>) {
    while !report.is_empty() {
        let slice = report.split_to(report.len().min(FRAME_BYTES));
        // A copy: a slice would keep the memory of the whole report.
        if pieces.send(Bytes::copy_from_slice(&slice)).await.is_err() {
            return;
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
