//! Objects of `metrics.k8s.io`: CPU time and memory of Nodes and Pods, which the agents of nodes measure.
//!
//! One request reads the reports of all nodes, and the requests of the next seconds share them. A Pod gets the
//! measurement of the node that it is bound to. A node can therefore falsify the values of its own Pods only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::kind::{self, Kind};
use api::resource_metrics::{Report, node_metrics, pod_metrics};
use api::selector::FieldSelector;
use api::tree::{child, text};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use store::Entry;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::agent::{AgentClient, error_text};
use crate::failure::Failure;
use crate::request::query::{ListOptions, Query};
use crate::request::route::Target;
use crate::verbs::page::Page;
use crate::verbs::resource::Resources;

/// Maximum age of reports that requests share. Agents measure every 10 s.
const SHARED_MAX: Duration = Duration::from_secs(5);
/// Maximum number of Nodes whose reports are read at the same time.
const CONCURRENT_NODES_MAX: usize = 16;
/// Timeout of the report of one node.
const NODE_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of the reports of all nodes. Later ones are missing.
const ALL_NODES_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of one report. 110 Pods with three containers each are about 50 KiB.
const REPORT_BYTES_MAX: usize = 256 << 10;

/// Latest reports by the names of their nodes.
pub(crate) type UsageReports = Arc<BTreeMap<String, Report>>;

/// Reader of the usage of all nodes, shared by all connections.
pub(crate) struct ResourceMetrics {
    latest: Arc<Mutex<Option<(Instant, UsageReports)>>>,
}

impl ResourceMetrics {
    /// Creates a reader.
    pub(crate) fn new() -> ResourceMetrics {
        ResourceMetrics {
            latest: Arc::default(),
        }
    }

    /// Returns the reports of all nodes whose agents answer. Concurrent requests wait for the same reports. If a client
    /// disconnects, later requests wait for its reports. Otherwise a client could make the server query all agents
    /// repeatedly.
    ///
    /// # Errors
    /// Failures of the store; 503 at shutdown.
    pub(crate) async fn collect(
        &self,
        agents: &AgentClient,
        resources: &Arc<Resources>,
    ) -> Result<UsageReports, Failure> {
        let mut latest = Arc::clone(&self.latest).lock_owned().await;
        if let Some((at, reports)) = &*latest
            && at.elapsed() < SHARED_MAX
        {
            return Ok(Arc::clone(reports));
        }
        let (agents, resources) = (agents.clone(), Arc::clone(resources));
        let collecting = tokio::spawn(async move {
            let mut shutdown = resources.shutdown.clone();
            let reading = async {
                let names = node_names(&resources).await?;
                Ok::<_, Failure>(Arc::new(read_all(&agents, &resources, names).await))
            };
            let reports = tokio::select! {
                reports = reading => reports?,
                () = shutdown.requested() => return Err(Failure::unavailable("the server is shutting down")),
            };
            *latest = Some((Instant::now(), Arc::clone(&reports)));
            Ok(reports)
        });
        collecting.await.unwrap_or_else(|error| {
            tracing::error!(%error, "reading of usage panicked");
            Err(Failure::internal("the usage of nodes could not be read"))
        })
    }
}

/// Lists the measured objects of a collection. As upstream's metrics-server, the list is one page.
///
/// # Errors
/// 400 for invalid selectors, and failures of the store.
pub(crate) async fn list(
    resources: &Resources,
    target: &Target,
    query: &Query,
    reports: &UsageReports,
) -> Result<Page, Failure> {
    let options = ListOptions {
        label_selector: query.text("labelSelector").to_owned(),
        field_selector: query.text("fieldSelector").to_owned(),
        ..ListOptions::default()
    };
    // Only fields of the measured object select, not all of those that the Node or Pod has.
    FieldSelector::parse(&options.field_selector, target.kind)
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    let measured = Target::collection(source_of(target.kind)?, target.namespace.as_deref());
    let page = resources.list(&measured, &options).await?;
    let entries = page.entries.into_iter().filter_map(|entry| {
        let value = measure(target.kind, &entry.value, reports)?;
        Some(Entry { value, ..entry })
    });
    Ok(Page {
        entries: entries.collect(),
        revision: page.revision,
        continue_token: None,
        remaining: None,
    })
}

/// Returns one measured object.
///
/// # Errors
/// 404 if the object does not exist, or is not measured.
pub(crate) async fn get(
    resources: &Resources,
    target: &Target,
    reports: &UsageReports,
) -> Result<Bytes, Failure> {
    let absent = || Failure::not_found(target.kind, target.name());
    let measured = Target::object(source_of(target.kind)?, target.namespace(), target.name());
    let stored = resources.stored(&measured).await?.ok_or_else(absent)?;
    measure(target.kind, &stored.entry.value, reports).ok_or_else(absent)
}

/// Returns the kind of the objects that a kind of measurements is about. They have the same plural.
fn source_of(kind: &Kind) -> Result<&'static Kind, Failure> {
    kind::find("", "v1", kind.plural).ok_or_else(Failure::no_such_path)
}

/// Builds the measured object of a stored Node or Pod; `None` if its node did not measure it.
fn measure(kind: &Kind, stored: &[u8], reports: &UsageReports) -> Option<Bytes> {
    let object: Value = serde_json::from_slice(stored).ok()?;
    let measured = match kind.kind {
        "NodeMetrics" => {
            let name = text(child(&object, "metadata"), "name");
            node_metrics(&object, reports.get(name)?)
        }
        _ => {
            let node_name = text(child(&object, "spec"), "nodeName");
            pod_metrics(&object, reports.get(node_name)?)
        }
    };
    measured.map(|measured| Bytes::from(measured.to_string()))
}

async fn node_names(resources: &Resources) -> Result<Vec<String>, Failure> {
    let kind = kind::find("", "v1", "nodes").ok_or_else(Failure::no_such_path)?;
    let nodes = Target::collection(kind, None);
    let page = resources.list(&nodes, &ListOptions::default()).await?;
    let targets = page.entries.iter().map(|entry| Target::at_key(kind, &entry.key));
    Ok(targets.filter_map(|target| target.name).collect())
}

/// Reads the reports of nodes, some at a time. Nodes that do not answer are missing in the result.
async fn read_all(
    agents: &AgentClient,
    resources: &Resources,
    names: Vec<String>,
) -> BTreeMap<String, Report> {
    let mut reports = BTreeMap::new();
    let reading = async {
        let mut waiting = names.into_iter();
        let mut reads = FuturesUnordered::new();
        for name in waiting.by_ref().take(CONCURRENT_NODES_MAX) {
            reads.push(read_one(agents, resources, name));
        }
        while let Some((node, report)) = reads.next().await {
            match report {
                Ok(report) => {
                    reports.insert(node, report);
                }
                Err(reason) => tracing::debug!(node, reason, "usage of a node not read"),
            }
            if let Some(name) = waiting.next() {
                reads.push(read_one(agents, resources, name));
            }
        }
    };
    if timeout(ALL_NODES_TIMEOUT, reading).await.is_err() {
        tracing::info!(timeout = ?ALL_NODES_TIMEOUT, "usage of some nodes not read in time");
    }
    reports
}

/// Reads the report of one node. Returns its name, and the report or the reason why there is none.
async fn read_one(
    agents: &AgentClient,
    resources: &Resources,
    node_name: String,
) -> (String, Result<Report, String>) {
    let reading = report_of(agents, resources, &node_name);
    let report = timeout(NODE_TIMEOUT, reading)
        .await
        .unwrap_or_else(|_| Err(format!("no report within {NODE_TIMEOUT:?}")));
    (node_name, report)
}

async fn report_of(agents: &AgentClient, resources: &Resources, node_name: &str) -> Result<Report, String> {
    let path = format!("/nodeUsage/{node_name}");
    let response = agents.get(resources, node_name, &path).await;
    let response = response.map_err(|failure| failure.message().to_owned())?;
    if response.status() != StatusCode::OK {
        return Err(error_text(response).await);
    }
    let body = Limited::new(response.into_body(), REPORT_BYTES_MAX)
        .collect()
        .await
        .map_err(|error| format!("the report is not complete: {error}"))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| format!("the report is not valid: {error}"))
}

#[cfg(test)]
mod tests;
