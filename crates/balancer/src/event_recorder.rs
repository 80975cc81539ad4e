//! Events about Services.

use std::sync::{Arc, Mutex, PoisonError};

use api::object::ObjectKey;
use client::events::{Correlator, Occurrence};
use client::{Client, WallClock};
use serde_json::json;
use tokio::task::JoinSet;

/// Maximum number of requests in flight; further Events are dropped.
const IN_FLIGHT_MAX: usize = 64;

/// Event about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEvent<'a> {
    /// Service that the Event regards.
    pub service: &'a ObjectKey,
    /// UID of the Service.
    pub uid: &'a str,
    /// True for type `Warning`, false for `Normal`.
    pub is_warning: bool,
    /// Machine-readable reason.
    pub reason: &'a str,
    /// Human-readable message.
    pub message: String,
}

/// Aggregates Events and writes them in the background. Writes are best effort: a failure is logged and not retried.
pub struct EventRecorder {
    client: Client,
    clock: WallClock,
    component: &'static str,
    correlator: Arc<Mutex<Correlator>>,
    in_flight: JoinSet<()>,
}

impl EventRecorder {
    /// Creates a recorder that reports as `component`.
    pub fn new(client: Client, clock: WallClock, component: &'static str) -> Self {
        Self {
            client,
            clock,
            component,
            correlator: Arc::default(),
            in_flight: JoinSet::new(),
        }
    }

    /// Records an Event.
    pub fn record(&mut self, event: ServiceEvent<'_>) {
        while self.in_flight.try_join_next().is_some() {}
        let service = event.service;
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            tracing::debug!(%service, "Event dropped: too many requests in flight");
            return;
        }
        let occurrence = Occurrence {
            component: self.component.to_owned(),
            involved: json!({
                "apiVersion": "v1", "kind": "Service",
                "namespace": &*service.namespace, "name": &*service.name, "uid": event.uid,
            }),
            namespace: service.namespace.to_string(),
            is_warning: event.is_warning,
            reason: event.reason.to_owned(),
            message: event.message,
        };
        let posting = {
            let mut correlator = self.correlator.lock().unwrap_or_else(PoisonError::into_inner);
            correlator.observe(&occurrence, self.clock.now())
        };
        let Some(posting) = posting else { return };
        let (client, service) = (self.client.clone(), service.clone());
        self.in_flight.spawn(async move {
            if let Err(error) = client::events::post(&client, &service.namespace, posting).await {
                tracing::warn!(%service, %error, "Event not written");
            }
        });
    }
}
