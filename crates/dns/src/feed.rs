//! Keeps the index up with the API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::object::{EndpointSlice, Namespace, Node, ObjectKey, Pod, Resource, Service};
use client::{Client, Event, Query, watch};
use jiff::Timestamp;

use crate::metrics::Metrics;
use crate::records::Index;
use crate::server::Clients;
use crate::wire::NameError;
use crate::zone::Zone;

/// Annotation that says when the change happened that led to a slice.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What is fed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    /// Which Services are watched.
    pub(crate) services: Query,
    /// Which slices are watched, if any (`noendpoints` of CoreDNS).
    pub(crate) slices: Option<Query>,
    /// Which namespaces are watched.
    pub(crate) namespaces: Query,
    /// Which Pods are watched, if any.
    pub(crate) pods: Option<Query>,
    /// Namespaces that are served; all if none are named (`namespaces` of CoreDNS).
    pub(crate) served: Vec<String>,
    /// Whether Pods of other namespaces are taken note of as well, since they ask.
    pub(crate) with_pods_of_others: bool,
    /// Where the addresses of Nodes are kept, if they are clients that are answered.
    pub(crate) clients: Option<Arc<Clients>>,
}

impl Feed {
    /// Applies every change to the live index of `zone`, for ever. The index is synced once all collections were
    /// told completely.
    pub(crate) async fn run(&self, zone: &Zone, metrics: &Arc<Metrics>, client: &Client) {
        let index = zone.live();
        let optional = [&self.slices, &self.pods].into_iter().flatten().count();
        let missing = AtomicUsize::new(2 + optional);
        let complete = || {
            if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                tracing::info!("the DNS index is complete");
                index.set_synced();
                zone.set_last_good(None);
            }
        };
        let slices = async {
            if let Some(query) = &self.slices {
                let put = |slice: EndpointSlice| match self.serves(&slice.metadata.namespace) {
                    true => apply_slice(index, metrics, &slice),
                    false => Ok(()),
                };
                let remove = |key: &ObjectKey| index.remove_slice(key);
                keep_up(watch(client, query.clone()), metrics, put, remove, complete).await;
            }
        };
        let pods = async {
            if let Some(query) = &self.pods {
                let put = |pod: Pod| match self.with_pods_of_others || self.serves(&pod.metadata.namespace) {
                    true => index.apply_pod(&pod),
                    false => Ok(()),
                };
                let remove = |key: &ObjectKey| index.remove_pod(key);
                keep_up(watch(client, query.clone()), metrics, put, remove, complete).await;
            }
        };
        let nodes = async {
            if let Some(clients) = &self.clients {
                let put = |node: Node| {
                    clients.put_node(&node);
                    Ok(())
                };
                let remove = |key: &ObjectKey| clients.remove_node(&key.name);
                // The zone is complete without them.
                keep_up(watch(client, Query::default()), metrics, put, remove, || {}).await;
            }
        };
        // Each watch has a loop of its own, because a request that is dropped half-way is lost.
        tokio::join!(
            keep_up(
                watch::<Service>(client, self.services.clone()),
                metrics,
                |service| match self.serves(&service.metadata.namespace) {
                    true => index.apply_service(&service),
                    false => Ok(()),
                },
                |key| index.remove_service(key),
                complete
            ),
            keep_up(
                watch::<Namespace>(client, self.namespaces.clone()),
                metrics,
                |namespace| match self.serves(&namespace.metadata.name) {
                    true => index.apply_namespace(&namespace.metadata.name),
                    false => Ok(()),
                },
                |key| index.remove_namespace(&key.name),
                complete,
            ),
            slices,
            pods,
            nodes,
        );
    }

    fn serves(&self, namespace: &str) -> bool {
        self.served.is_empty() || self.served.iter().any(|name| name == namespace)
    }
}

/// Applies a slice, and notes how long it took since the change that led to it.
fn apply_slice(index: &Index, metrics: &Metrics, slice: &EndpointSlice) -> Result<(), NameError> {
    index.apply_slice(slice)?;
    let trigger = slice.metadata.annotations.get(TRIGGER_TIME);
    // What the first list tells happened at any time before.
    if let Some(Ok(at)) = trigger.map(|text| text.parse::<Timestamp>())
        && index.is_synced()
        && let Some(service) = slice.service_name()
        && index.is_headless(&ObjectKey::new(&slice.metadata.namespace, service))
    {
        metrics.programmed(Timestamp::now().duration_since(at).as_secs_f64());
    }
    Ok(())
}

/// Applies every change of one collection, for ever; calls `complete` when all of it was told once.
async fn keep_up<T: Resource>(
    mut objects: client::Watch<T>,
    metrics: &Metrics,
    put: impl Fn(T) -> Result<(), NameError>,
    remove: impl Fn(&ObjectKey),
    complete: impl Fn(),
) {
    let mut is_complete = false;
    loop {
        let event = objects.next().await;
        metrics.events.fetch_add(1, Ordering::Relaxed);
        if apply(event, metrics, &put, &remove) && !is_complete {
            is_complete = true;
            complete();
        }
    }
}

/// Applies one event; returns whether it says that the collection is complete. An object that cannot be
/// read keeps the records that it had.
fn apply<T: Resource>(
    event: Event<T>,
    metrics: &Metrics,
    put: impl FnOnce(T) -> Result<(), NameError>,
    remove: impl FnOnce(&ObjectKey),
) -> bool {
    match event {
        Event::Applied(object) => {
            let key = object.metadata().key();
            if let Err(error) = put(object) {
                metrics.malformed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(kind = T::KIND, %key, %error, "left out of DNS");
            }
            false
        }
        Event::Deleted(key) => {
            remove(&key);
            false
        }
        Event::Malformed { key, error } => {
            metrics.malformed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(kind = T::KIND, %key, error, "cannot be read; its DNS records stay as they were");
            false
        }
        Event::Synced => true,
    }
}

#[cfg(test)]
mod tests;
