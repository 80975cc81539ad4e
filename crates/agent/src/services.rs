//! The Services of the cluster, for containers' environments.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use api::object::{ObjectKey, ObjectMeta, Resource, Service};
use client::{Client, Event, Query};
use tokio::sync::watch;

use crate::environment::{Variables, service_variables, visible_services};

/// All Services, kept up to date by a task. Clones share them.
#[derive(Clone)]
pub struct Services {
    known: Arc<RwLock<BTreeMap<ObjectKey, Service>>>,
    synced: watch::Receiver<bool>,
}

impl Services {
    /// Begins to watch.
    pub fn watch(client: &Client) -> (Self, tokio::task::JoinHandle<()>) {
        let (told, synced) = watch::channel(false);
        let services = Self {
            known: Arc::default(),
            synced,
        };
        let known = Arc::clone(&services.known);
        let mut events = client::watch::<Service>(client, Query::default());
        let task = tokio::spawn(async move {
            loop {
                let event = events.next().await;
                let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Event::Applied(service) => {
                        known.insert(service.metadata().key(), service);
                    }
                    Event::Deleted(key) => {
                        known.remove(&key);
                    }
                    Event::Malformed { key, error } => {
                        tracing::warn!(service = %key, error, "unreadable Service")
                    }
                    Event::Synced => {
                        told.send_replace(true);
                    }
                }
            }
        });
        (services, task)
    }

    /// Waits until all Services were listed (ENV-10).
    pub async fn synced(&self) {
        let mut synced = self.synced.clone();
        if synced.wait_for(|synced| *synced).await.is_err() {
            tracing::debug!("Services are not watched any more");
        }
    }

    /// The variables that a Pod of `namespace` gets by the Services that are known now.
    pub fn variables(&self, namespace: &str, enable_service_links: bool) -> Variables {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        service_variables(visible_services(known.values(), namespace, enable_service_links))
    }

    /// Whether any Service leads to a Pod with that namespace and those labels.
    pub fn select(&self, pod: &ObjectMeta) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let selects = |service: &Service| {
            let selector = &service.spec.selector;
            service.metadata.namespace == pod.namespace
                && !selector.is_empty()
                && selector
                    .iter()
                    .all(|(key, value)| pod.labels.get(key) == Some(value))
        };
        known.values().any(selects)
    }
}
