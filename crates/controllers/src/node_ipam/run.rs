//! Watches and jobs of the node IPAM controller.

use std::future::Future;

use api::object::{Node, Resource};
use client::{ClientError, MERGE_PATCH, Query};
use http::Method;
use ipnet::IpNet;
use reconcile::events::EventText;
use reconcile::watches;
use serde_json::json;

use super::controller::{Job, NodeIpamController};
use super::{Ranges, Settings};
use crate::api_requests::decode;
use crate::environment::Environment;
use crate::selection::Controller;

/// Assigns Pod CIDRs until `shutdown` resolves, then waits for writes in progress.
pub async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let ranges = match Ranges::new(&settings) {
        Ok(ranges) => ranges,
        Err(error) => {
            tracing::error!(%error, "invalid cluster CIDRs; no Pod CIDRs are assigned");
            return shutdown.await;
        }
    };
    let (sender, changes) = watches::channel();
    watches::forward::<Node, _>(&environment.client, Query::default(), sender, |event| event);
    let queue_metrics = environment
        .metrics
        .register_queue(Controller::NodeIpam.queue_name());
    let run_job = |name: String, job: Job| {
        let environment = environment.clone();
        async move {
            match job {
                Job::Assign { node, ranges } => assign(&environment, &name, &node, &ranges).await,
                Job::ReportExhausted(node) => {
                    tracing::error!(node = name, "cluster CIDR exhausted");
                    let message = format!("Node {name} status is now: CIDRNotAvailable");
                    let finding = EventText::normal("CIDRNotAvailable", message);
                    environment
                        .events
                        .record(Controller::NodeIpam.name(), &*node, vec![finding])
                        .await;
                    Ok(None)
                }
            }
        }
    };
    reconcile::run(
        NodeIpamController::new(ranges),
        changes,
        queue_metrics,
        run_job,
        shutdown,
    )
    .await;
}

/// Writes the Pod CIDRs of a Node; returns the Node after the write, `None` if it is deleted. A write by
/// another client since the read is a conflict.
async fn assign(
    environment: &Environment,
    name: &str,
    node: &Node,
    ranges: &[IpNet],
) -> Result<Option<Node>, ClientError> {
    let texts: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let patch = json!({
        "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
        "spec": {"podCIDR": texts.first(), "podCIDRs": texts},
    });
    let path = format!("{}/{name}", Node::collection(None));
    match environment
        .client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
    {
        Ok(response) => {
            tracing::info!(node = name, pod_cidrs = texts.join(","), "Pod CIDRs assigned");
            decode(path, response).map(Some)
        }
        // The Node is deleted; the watch will report it.
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
