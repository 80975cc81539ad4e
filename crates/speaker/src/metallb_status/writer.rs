//! Task that writes the status objects. The kinds may be missing and appear later.

use std::time::Duration;

use client::{Client, ClientError, JSON, MERGE_PATCH, WallClock, push_escaped};
use http::Method;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::ReportedNode;
use super::objects::{
    Change, ConfigurationState, NODE_LABEL, ServiceBgpStatus, changes, state_name, state_object, state_status,
};

/// Minimum time between two comparisons; it bounds the load of the API server.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Time between two comparisons without a change, which repair changes by others.
const REPAIR_PERIOD: Duration = Duration::from_secs(300);
/// Delay after a failure, such as a kind that is missing.
const RETRY_PERIOD: Duration = Duration::from_secs(30);

/// Writer of the status objects of a node.
#[derive(Debug)]
pub(crate) struct StatusWriter {
    reported: watch::Sender<Option<ReportedNode>>,
    task: JoinHandle<()>,
}

impl StatusWriter {
    /// Starts a writer of objects in a namespace. It writes nothing before the first state.
    pub(crate) fn start(client: Client, namespace: &str) -> Self {
        let (reported, states) = watch::channel(None);
        let collections = format!("/apis/metallb.io/v1beta1/namespaces/{namespace}");
        Self {
            reported,
            task: tokio::spawn(run(client, collections, states)),
        }
    }

    /// Replaces the state.
    pub(crate) fn set(&self, reported: ReportedNode) {
        self.reported.send_if_modified(|present| {
            let is_changed = present.as_ref() != Some(&reported);
            if is_changed {
                *present = Some(reported);
            }
            is_changed
        });
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(client: Client, collections: String, mut states: watch::Receiver<Option<ReportedNode>>) {
    let mut is_failure_logged = false;
    loop {
        let reported = states.borrow_and_update().clone();
        let mut pause = REPAIR_PERIOD;
        if let Some(reported) = reported {
            match write(&client, &collections, &reported).await {
                Ok(()) => is_failure_logged = false,
                Err(error) => {
                    pause = RETRY_PERIOD;
                    let is_first = !std::mem::replace(&mut is_failure_logged, true);
                    // MetalLB's definitions of the kinds are optional.
                    if is_first && !error.is_not_found() {
                        tracing::warn!(%error, "status objects of MetalLB not written; retrying");
                    } else {
                        tracing::debug!(%error, "status objects of MetalLB not written; retrying");
                    }
                }
            }
        }
        sleep(BATCH_TIME).await;
        tokio::select! {
            changed = states.changed() => if changed.is_err() {
                return;
            },
            () = sleep(pause) => {}
        }
    }
}

/// Writes the objects of both kinds. A failure of one kind does not affect the other.
async fn write(client: &Client, collections: &str, reported: &ReportedNode) -> Result<(), ClientError> {
    let services = write_services(client, collections, reported).await;
    write_state(client, collections, reported).await?;
    services
}

/// List of the present objects.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ServiceBgpStatusList {
    items: Vec<ServiceBgpStatus>,
}

async fn write_services(
    client: &Client,
    collections: &str,
    reported: &ReportedNode,
) -> Result<(), ClientError> {
    let collection = format!("{collections}/servicebgpstatuses");
    let mut list = format!("{collection}?labelSelector=");
    push_escaped(&mut list, &format!("{NODE_LABEL}={}", reported.node));
    let present: ServiceBgpStatusList = client.get(&list).await?;
    for change in changes(reported, &present.items) {
        match change {
            Change::Create(object) => {
                client
                    .request(Method::POST, &collection, JSON, Some(&object))
                    .await?;
            }
            Change::SetStatus(name, patch) => {
                let path = format!("{collection}/{name}/status");
                client
                    .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
                    .await?;
            }
            Change::Delete(name) => {
                let path = format!("{collection}/{name}");
                match client.request(Method::DELETE, &path, JSON, None).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    // Another client deleted it.
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }
    Ok(())
}

async fn write_state(client: &Client, collections: &str, reported: &ReportedNode) -> Result<(), ClientError> {
    let collection = format!("{collections}/configurationstates");
    let path = format!("{collection}/{}", state_name(&reported.node));
    let present = match client.get::<ConfigurationState>(&path).await {
        Ok(present) => present,
        Err(error) if error.is_not_found() => {
            let object = state_object(reported);
            client
                .request(Method::POST, &collection, JSON, Some(&object))
                .await?;
            ConfigurationState::default()
        }
        Err(error) => return Err(error),
    };
    let now = WallClock::system()
        .now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    if let Some(patch) = state_status(reported, &present, &now) {
        let path = format!("{path}/status");
        client
            .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
            .await?;
    }
    Ok(())
}
