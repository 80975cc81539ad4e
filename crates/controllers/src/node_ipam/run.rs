//! The controller: what it watches, and its keeper.

use std::future::Future;

use api::object::{Node, Resource};
use client::{ClientError, MERGE_PATCH, Query};
use http::Method;
use ipnet::IpNet;
use serde_json::json;

use super::keeper::{Job, Nodes};
use super::{Ranges, Settings};
use crate::events::{Finding, Notice, Regarding, post};
use crate::keeper;
use crate::run::Environment;
use crate::selection::Controller;
use crate::write::decode;

/// Gives Nodes their ranges until `shutdown` resolves; writes under way are finished first.
pub async fn run(environment: Environment, settings: Settings, shutdown: impl Future<Output = ()>) {
    let ranges = match Ranges::new(&settings) {
        Ok(ranges) => ranges,
        Err(error) => {
            tracing::error!(%error, "no Node gets a range for its Pods");
            return shutdown.await;
        }
    };
    let (sender, changes) = keeper::changes();
    keeper::forward::<Node, _>(&environment, Query::default(), sender, |event| event);
    let meter = environment.metrics.queue(Controller::NodeIpam.queue_name());
    let carry_out = |name: String, job: Job| {
        let environment = environment.clone();
        async move {
            match job {
                Job::Give { node, ranges } => give(&environment, &name, &node, &ranges).await,
                Job::TellNoneLeft(node) => {
                    tracing::error!(node = name, "no range is left for the Node's Pods");
                    let message = format!("Node {name} status is now: CIDRNotAvailable");
                    tell(
                        &environment,
                        Regarding::object(&*node),
                        "CIDRNotAvailable",
                        message,
                    )
                    .await;
                    Ok(None)
                }
            }
        }
    };
    keeper::run(Nodes::new(ranges), changes, meter, carry_out, shutdown).await;
}

/// Writes a Node's ranges, unless somebody wrote the Node since it was read; returns it as the server has it now.
async fn give(
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
        Ok(answer) => {
            tracing::info!(node = name, podCIDRs = ?texts, "a Node has a range for its Pods");
            decode(path, answer).map(Some)
        }
        // It is gone: the watch tells.
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn tell(environment: &Environment, regarding: Regarding, reason: &'static str, message: String) {
    let notice = Notice {
        component: Controller::NodeIpam.name(),
        regarding,
        findings: vec![Finding {
            is_warning: false,
            reason,
            message,
        }],
    };
    post(environment.clone(), notice).await;
}
