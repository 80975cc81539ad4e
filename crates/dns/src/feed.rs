//! Watches that keep the index current.

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

/// Annotation with the time of the change behind a slice.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The watches of an index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    /// Selection of Services.
    pub(crate) services: Query,
    /// Selection of slices; `None` disables them (`noendpoints` of CoreDNS).
    pub(crate) slices: Option<Query>,
    /// Selection of namespaces.
    pub(crate) namespaces: Query,
    /// Selection of Pods; `None` disables them.
    pub(crate) pods: Option<Query>,
    /// Namespaces to serve; all if empty (`namespaces` of CoreDNS).
    pub(crate) served: Vec<String>,
    /// Applies Pods of other namespaces as well, because they may be clients.
    pub(crate) with_other_pods: bool,
    /// Receiver of the addresses of Nodes, if Nodes are allowed clients.
    pub(crate) clients: Option<Arc<Clients>>,
}

impl Feed {
    /// Applies all changes to the live index of `zone`; never returns. The index becomes synced when all initial
    /// lists are complete.
    pub(crate) async fn run(&self, zone: &Zone, metrics: &Arc<Metrics>, client: &Client) {
        let index = zone.live();
        let optional = [&self.slices, &self.pods].into_iter().flatten().count();
        let missing = AtomicUsize::new(2 + optional);
        let complete = || {
            if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                tracing::info!("initial lists complete");
                index.set_synced();
                zone.set_snapshot(None);
            }
        };
        let slices = async {
            if let Some(query) = &self.slices {
                let put = |slice: EndpointSlice| {
                    if self.serves(&slice.metadata.namespace) {
                        apply_slice(index, metrics, &slice)
                    } else {
                        Ok(())
                    }
                };
                let remove = |key: &ObjectKey| index.remove_slice(key);
                follow(watch(client, query.clone()), metrics, put, remove, complete).await;
            }
        };
        let pods = async {
            if let Some(query) = &self.pods {
                let put = |pod: Pod| {
                    if self.with_other_pods || self.serves(&pod.metadata.namespace) {
                        index.apply_pod(&pod)
                    } else {
                        Ok(())
                    }
                };
                let remove = |key: &ObjectKey| index.remove_pod(key);
                follow(watch(client, query.clone()), metrics, put, remove, complete).await;
            }
        };
        let nodes = async {
            if let Some(clients) = &self.clients {
                let put = |node: Node| {
                    clients.put_node(&node);
                    Ok(())
                };
                let remove = |key: &ObjectKey| clients.remove_node(&key.name);
                // The zone does not need them.
                follow(watch(client, Query::default()), metrics, put, remove, || {}).await;
            }
        };
        // Each watch has a loop of its own, because dropping a `next` future loses its event.
        tokio::join!(
            follow(
                watch::<Service>(client, self.services.clone()),
                metrics,
                |service| if self.serves(&service.metadata.namespace) {
                    index.apply_service(&service)
                } else {
                    Ok(())
                },
                |key| index.remove_service(key),
                complete
            ),
            follow(
                watch::<Namespace>(client, self.namespaces.clone()),
                metrics,
                |namespace| if self.serves(&namespace.metadata.name) {
                    index.apply_namespace(&namespace.metadata.name)
                } else {
                    Ok(())
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

/// Applies a slice and records the time since the change behind it.
fn apply_slice(index: &Index, metrics: &Metrics, slice: &EndpointSlice) -> Result<(), NameError> {
    index.apply_slice(slice)?;
    let trigger = slice.metadata.annotations.get(TRIGGER_TIME);
    // Changes in the initial list happened at an unknown time before.
    if let Some(Ok(at)) = trigger.map(|text| text.parse::<Timestamp>())
        && index.is_synced()
        && let Some(service) = slice.service_name()
        && index.is_headless(&ObjectKey::new(&slice.metadata.namespace, service))
    {
        metrics.record_programming(Timestamp::now().duration_since(at).as_secs_f64());
    }
    Ok(())
}

/// Applies all changes of one collection; never returns. Calls `complete` once, after the initial list.
async fn follow<T: Resource>(
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

/// Applies one event. Returns true if the event completes the list. A malformed object keeps its previous records.
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
                tracing::warn!(kind = T::KIND, %key, %error, "object without DNS records: invalid name");
            }
            false
        }
        Event::Deleted(key) => {
            remove(&key);
            false
        }
        Event::Malformed { key, error } => {
            metrics.malformed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(kind = T::KIND, %key, error, "malformed object; its DNS records stay");
            false
        }
        Event::Synced => true,
    }
}

#[cfg(test)]
mod tests;
