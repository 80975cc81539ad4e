//! Services of the cluster, for the environment of containers.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use api::object::{ObjectKey, ObjectMeta, Resource, Service};
use client::{Client, Event, Query};
use tokio::sync::watch;

use crate::containers::environment::{Variables, service_variables, visible_services};

/// Cache of all Services, which a task keeps current. Clones share it.
#[derive(Clone)]
pub(crate) struct Services {
    cache: Arc<RwLock<BTreeMap<ObjectKey, Service>>>,
    synced: watch::Receiver<bool>,
}

impl Services {
    /// Starts the watch. The task runs until the runtime ends.
    pub(crate) fn watch(client: &Client) -> (Self, tokio::task::JoinHandle<()>) {
        let (sync_sender, synced) = watch::channel(false);
        let services = Self {
            cache: Arc::default(),
            synced,
        };
        let cache = Arc::clone(&services.cache);
        let mut events = client::watch::<Service>(client, Query::default());
        let task = tokio::spawn(async move {
            loop {
                let event = events.next().await;
                let mut cache = cache.write().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Event::Applied(service) => {
                        cache.insert(service.metadata().key(), service);
                    }
                    Event::Deleted(key) => {
                        cache.remove(&key);
                    }
                    Event::Malformed { key, error } => {
                        tracing::warn!(service = %key, error, "malformed Service ignored")
                    }
                    Event::Synced => {
                        sync_sender.send_replace(true);
                    }
                }
            }
        });
        (services, task)
    }

    /// Waits until the cache has all Services (ENV-10).
    pub(crate) async fn wait_for_sync(&self) {
        let mut synced = self.synced.clone();
        if synced.wait_for(|synced| *synced).await.is_err() {
            tracing::debug!("watch of Services ended");
        }
    }

    /// Returns the environment variables for a Pod of `namespace`.
    pub(crate) fn variables(&self, namespace: &str, enable_service_links: bool) -> Variables {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        service_variables(visible_services(cache.values(), namespace, enable_service_links))
    }

    /// Returns true if a Service selects a Pod with that metadata.
    pub(crate) fn selects(&self, pod: &ObjectMeta) -> bool {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let selects = |service: &Service| {
            let selector = &service.spec.selector;
            service.metadata.namespace == pod.namespace
                && !selector.is_empty()
                && selector
                    .iter()
                    .all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        cache.values().any(selects)
    }
}
