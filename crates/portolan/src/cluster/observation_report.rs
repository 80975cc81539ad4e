//! Observation of this node for the agent's endpoint.
//!
//! The objects come from the API server. Components of the node may read the objects of the proxy's plan, and the
//! Pods of this node. An agent without a proxy in its process may read fewer objects.

use std::sync::Arc;
use std::time::Duration;

use agent::server::reports::{Provider, ReportError, ReportRequest};
use api::object::ObjectKey;
use client::{Client, ClientError};
use explain::observation::PodName;
use explain::{Kind, World, WorldBuilder};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::node_observation::{Cluster, PLAN_KINDS, Request, clock_offset, observe};
use crate::paged_list::list;

/// Time for the objects. Without them, the node alone is observed.
const OBJECTS_TIMEOUT: Duration = Duration::from_secs(5);

/// Observer of this node.
pub(crate) struct NodeObserver {
    /// Name of the Node.
    pub node_name: String,
    /// Client that may read the Pods of the node.
    pub agent: Client,
    /// Client that reads the objects of the proxy's plan, as far as its rights permit.
    pub proxy: Client,
    /// Runtime of the clients.
    pub runtime: Handle,
}

impl NodeObserver {
    /// Returns the provider of observations.
    pub(crate) fn provider(self) -> Provider {
        Arc::new(move |request| self.report(request))
    }

    fn report(&self, request: &ReportRequest) -> Result<Vec<u8>, ReportError> {
        let (service, source_pod) = (request.key("service")?, request.key("from")?);
        let (service, probes) = (service.as_ref(), request.flag("probe")?);
        let reading = async { timeout(OBJECTS_TIMEOUT, self.objects()).await };
        let objects = self.runtime.block_on(reading);
        let (builder, clock_offset_seconds) = match objects {
            Ok(Ok(objects)) => objects,
            Ok(Err(error)) => self.without_objects(&error.to_string()),
            Err(_) => self.without_objects("timeout"),
        };
        let cluster = Cluster::read(&builder, service);
        let read_again = || self.read_again(service);
        let (observation, gaps) = observe(&Request {
            node_name: &self.node_name,
            cluster: &cluster,
            clock_offset_seconds,
            probes,
            source_pod: source_pod.as_ref().map(pod_name),
            read_again: Some(&read_again),
        });
        for warning in gaps.warnings() {
            tracing::debug!(node = self.node_name, warning, "part of an observation absent");
        }
        serde_json::to_vec(&observation).map_err(|error| ReportError::Failed(error.to_string()))
    }

    fn without_objects(&self, error: &str) -> (WorldBuilder, Option<f64>) {
        tracing::warn!(
            node = self.node_name,
            error,
            "objects for an observation not read"
        );
        (World::builder(), None)
    }

    /// Returns the objects, and the clock of this host minus that of the server.
    async fn objects(&self) -> Result<(WorldBuilder, Option<f64>), ClientError> {
        let offset = clock_offset(&self.proxy).await?;
        let (mut builder, _) = self.plan_objects().await?;
        let node_selector = format!("spec.nodeName={}", self.node_name);
        if let Some(pages) = list(&self.agent, &Kind::Pod.collection(), &node_selector).await? {
            builder.mark_present(Kind::Pod);
            pages.into_iter().for_each(|page| builder.add(page));
        }
        Ok((builder, offset))
    }

    /// Returns the objects of the proxy's plan that the client may read, and true if these are all.
    async fn plan_objects(&self) -> Result<(WorldBuilder, bool), ClientError> {
        let (mut builder, mut is_complete) = (World::builder(), true);
        for kind in PLAN_KINDS {
            match list(&self.proxy, &kind.collection(), "").await {
                Ok(Some(pages)) => {
                    builder.mark_present(kind);
                    pages.into_iter().for_each(|page| builder.add(page));
                }
                Ok(None) => is_complete = false,
                Err(error) if error.is_forbidden() => is_complete = false,
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok((builder, is_complete))
    }

    /// Reads the objects again; `None` if a comparison of the plan would lack some of them.
    fn read_again(&self, service: Option<&ObjectKey>) -> Option<Cluster> {
        let reading = async { timeout(OBJECTS_TIMEOUT, self.plan_objects()).await };
        let objects = self.runtime.block_on(reading);
        let (builder, is_complete) = objects.ok()?.ok()?;
        is_complete.then(|| Cluster::read(&builder, service))
    }
}

fn pod_name(key: &ObjectKey) -> PodName {
    PodName {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
    }
}
