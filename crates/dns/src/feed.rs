//! Watches that keep the index current.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::object::{EndpointSlice, Namespace, Node, ObjectKey, Pod, Resource, Service, ServiceImport};
use client::{Client, Event, Query, watch};
use jiff::Timestamp;

use crate::metrics::Metrics;
use crate::records::Index;
use crate::server::ClientAccessList;
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
    pub(crate) clients: Option<Arc<ClientAccessList>>,
}

impl Feed {
    /// Applies all changes to the live indexes of `zone`; never returns. An index becomes synced when all initial lists of
    /// its zone are complete.
    pub(crate) async fn run(&self, zone: &Zone, metrics: &Arc<Metrics>, client: &Client) {
        let optional = [&self.slices, &self.pods].into_iter().flatten().count();
        let missing = AtomicUsize::new(2 + optional);
        // The zone of a set needs its imports, and the lists of the other zone.
        let missing_in_set = AtomicUsize::new(2);
        let complete_in_set = || {
            if missing_in_set.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(index) = zone.clusterset()
            {
                tracing::info!("initial lists of the set of clusters complete");
                index.set_synced();
            }
        };
        let complete = || {
            if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                tracing::info!("initial lists complete");
                zone.live().set_synced();
                zone.set_snapshot(None);
                complete_in_set();
            }
        };
        let watches = Watches {
            feed: self,
            zone,
            metrics,
            client,
        };
        // Each watch has a loop of its own, because dropping a `next` future loses its event.
        tokio::join!(
            watches.services(complete),
            watches.namespaces(complete),
            watches.slices(complete),
            watches.pods(complete),
            watches.nodes(),
            watches.imports(complete_in_set),
        );
    }

    fn serves(&self, namespace: &str) -> bool {
        self.served.is_empty() || self.served.iter().any(|name| name == namespace)
    }
}

/// The loops of a feed, one for each collection. A loop never returns, unless the feed does not need it.
struct Watches<'a> {
    feed: &'a Feed,
    zone: &'a Zone,
    metrics: &'a Metrics,
    client: &'a Client,
}

impl Watches<'_> {
    async fn services(&self, complete: impl Fn()) {
        let put = |service: Service| {
            self.if_served(&service.metadata.namespace, || {
                self.zone.live().apply_service(&service)
            })
        };
        let remove = |key: &ObjectKey| self.zone.live().remove_service(key);
        self.follow(&self.feed.services, put, remove, complete).await;
    }

    async fn namespaces(&self, complete: impl Fn()) {
        let put = |namespace: Namespace| {
            let name = &namespace.metadata.name;
            self.if_served(name, || self.each_index(|index| index.apply_namespace(name)))
        };
        let remove = |key: &ObjectKey| {
            for index in self.zone.live_indexes() {
                index.remove_namespace(&key.name);
            }
        };
        self.follow(&self.feed.namespaces, put, remove, complete).await;
    }

    async fn slices(&self, complete: impl Fn()) {
        let Some(query) = &self.feed.slices else { return };
        let put = |slice: EndpointSlice| {
            self.if_served(&slice.metadata.namespace, || {
                self.each_index(|index| index.apply_slice(&slice))?;
                record_programming(self.zone.live(), self.metrics, &slice);
                Ok(())
            })
        };
        let remove = |key: &ObjectKey| {
            for index in self.zone.live_indexes() {
                index.remove_slice(key);
            }
        };
        self.follow(query, put, remove, complete).await;
    }

    async fn pods(&self, complete: impl Fn()) {
        let Some(query) = &self.feed.pods else { return };
        let put = |pod: Pod| {
            if self.feed.with_other_pods || self.feed.serves(&pod.metadata.namespace) {
                self.zone.live().apply_pod(&pod)
            } else {
                Ok(())
            }
        };
        let remove = |key: &ObjectKey| self.zone.live().remove_pod(key);
        self.follow(query, put, remove, complete).await;
    }

    async fn nodes(&self) {
        let Some(clients) = &self.feed.clients else { return };
        let put = |node: Node| {
            clients.put_node(&node);
            Ok(())
        };
        let remove = |key: &ObjectKey| clients.remove_node(&key.name);
        // The zone does not need them.
        self.follow(&Query::default(), put, remove, || {}).await;
    }

    async fn imports(&self, complete: impl Fn()) {
        let Some(index) = self.zone.clusterset() else {
            return;
        };
        let put = |import: ServiceImport| {
            self.if_served(&import.metadata.namespace, || index.apply_import(&import))
        };
        let remove = |key: &ObjectKey| index.remove_service(key);
        self.follow(&self.feed.services, put, remove, complete).await;
    }

    fn if_served(
        &self,
        namespace: &str,
        put: impl FnOnce() -> Result<(), NameError>,
    ) -> Result<(), NameError> {
        if self.feed.serves(namespace) {
            put()
        } else {
            Ok(())
        }
    }

    fn each_index(&self, put: impl Fn(&Index) -> Result<(), NameError>) -> Result<(), NameError> {
        self.zone.live_indexes().try_for_each(put)
    }

    async fn follow<T: Resource>(
        &self,
        query: &Query,
        put: impl Fn(T) -> Result<(), NameError>,
        remove: impl Fn(&ObjectKey),
        complete: impl Fn(),
    ) {
        follow(
            watch(self.client, query.clone()),
            self.metrics,
            put,
            remove,
            complete,
        )
        .await;
    }
}

/// Records the time since the change behind a slice.
fn record_programming(index: &Index, metrics: &Metrics, slice: &EndpointSlice) {
    let trigger = slice.metadata.annotations.get(TRIGGER_TIME);
    // Changes in the initial list happened at an unknown time before.
    if let Some(Ok(at)) = trigger.map(|text| text.parse::<Timestamp>())
        && index.is_synced()
        && let Some(service) = slice.service_name()
        && index.is_headless(&ObjectKey::new(&slice.metadata.namespace, service))
    {
        metrics.record_programming(Timestamp::now().duration_since(at).as_secs_f64());
    }
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
