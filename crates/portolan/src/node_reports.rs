//! Reports that the agents of nodes create, read through the API server: the subresources `observation` and `flows` of
//! Nodes.
//!
//! A node can send false reports. The server bounds the size of its reports; readers check that a report is about the
//! node itself.

use std::time::Duration;

use agent::server::reports::ReportKind;
use client::{Client, ClientError, push_escaped};
use futures_util::{StreamExt, stream};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{sleep, timeout};

/// Maximum number of reports that are read at the same time: those that a server permits one user.
pub(crate) const CONCURRENT_MAX: usize = 16;
/// Status code of a busy server or agent.
const TOO_MANY_REQUESTS: u16 = 429;
/// Time until the next attempt after a server or an agent is busy.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Reports of several nodes.
#[derive(Clone, Debug)]
pub(crate) struct Reports<T> {
    /// Reports, by the name of the node.
    pub found: Vec<(String, T)>,
    /// True if the user must not read a report.
    pub is_forbidden: bool,
    /// Reasons why other nodes have no report, by the name of the node.
    pub problems: Vec<(String, String)>,
}

/// Returns true if the server serves a kind of report. Servers of others do not.
///
/// # Errors
///
/// [`ClientError`] if the server does not list its resources.
pub(crate) async fn is_served(client: &Client, kind: ReportKind) -> Result<bool, ClientError> {
    let name = format!("nodes/{}", kind.subresource());
    let resources = client.get::<Value>("/api/v1").await?;
    let mut resources = resources["resources"].as_array().into_iter().flatten();
    Ok(resources.any(|resource| resource["name"] == *name))
}

/// Reads the reports of nodes, [`CONCURRENT_MAX`] at the same time, each within a timeout. `parameters` are names with
/// values.
pub(crate) async fn read<T: DeserializeOwned>(
    client: &Client,
    kind: ReportKind,
    nodes: &[String],
    parameters: &[(&str, String)],
    report_timeout: Duration,
) -> Reports<T> {
    let reading = nodes.iter().map(|node| async move {
        let path = path(kind, node, parameters);
        let report = timeout(report_timeout, read_one::<T>(client, &path)).await;
        (node.clone(), report)
    });
    let read: Vec<_> = stream::iter(reading).buffered(CONCURRENT_MAX).collect().await;
    let mut reports = Reports {
        found: Vec::new(),
        is_forbidden: false,
        problems: Vec::new(),
    };
    for (node, report) in read {
        match report {
            Ok(Ok(report)) => reports.found.push((node, report)),
            Ok(Err(error)) if error.is_forbidden() => reports.is_forbidden = true,
            Ok(Err(ClientError::Status { status, .. })) => reports.problems.push((node, status.message)),
            Ok(Err(error)) => reports.problems.push((node, error.to_string())),
            Err(_) => {
                let problem = format!("no response within {:.1} s", report_timeout.as_secs_f64());
                reports.problems.push((node, problem));
            }
        }
    }
    reports
}

/// Reads a report. Retries while the server or the agent is busy. The caller sets the timeout.
async fn read_one<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, ClientError> {
    loop {
        match client.get::<T>(path).await {
            Err(error) if error.code() == Some(TOO_MANY_REQUESTS) => sleep(RETRY_DELAY).await,
            outcome => return outcome,
        }
    }
}

/// Returns the path of a report.
fn path(kind: ReportKind, node: &str, parameters: &[(&str, String)]) -> String {
    let mut path = "/api/v1/nodes/".to_owned();
    push_escaped(&mut path, node);
    path.push('/');
    path.push_str(kind.subresource());
    for (number, (name, value)) in parameters.iter().enumerate() {
        path.push(if number == 0 { '?' } else { '&' });
        path.push_str(&format!("{name}="));
        push_escaped(&mut path, value);
    }
    path
}

#[cfg(test)]
mod tests;
