//! The Event recorder, and its queue for components that do not wait.

use std::sync::{Arc, Mutex, PoisonError};

use api::object::Resource;
use http::Method;
use tokio::sync::mpsc;

use super::contents::{EventBatch, EventText, ObjectReference};
use super::correlator::{Correlator, EventWrite, Occurrence};
use crate::clock::WallClock;
use crate::error::ClientError;
use crate::request::{Client, JSON, MERGE_PATCH};

/// Maximum number of batches that wait in an [`EventQueue`]. Further ones are dropped: Events are best effort, and the
/// component goes on without an API server.
const QUEUED_BATCHES_MAX: usize = 512;

/// Aggregates, limits and writes Events, as client-go's recorder does. Writes are best effort: a failure is logged and
/// not retried. Clones share their state.
#[derive(Clone)]
pub struct EventRecorder {
    client: Client,
    clock: WallClock,
    correlator: Arc<Mutex<Correlator>>,
}

impl EventRecorder {
    /// Creates a recorder that writes through `client` and takes timestamps from `clock`.
    pub fn new(client: Client, clock: WallClock) -> Self {
        Self {
            client,
            clock,
            correlator: Arc::default(),
        }
    }

    /// Creates a recorder whose Events name the host of their component.
    pub fn of_host(client: Client, clock: WallClock, host: &str) -> Self {
        Self {
            client,
            clock,
            correlator: Arc::new(Mutex::new(Correlator::of_host(host))),
        }
    }

    /// Writes Events about `object`.
    pub async fn record<T: Resource>(&self, component: &'static str, object: &T, events: Vec<EventText>) {
        let batch = EventBatch {
            component,
            regarding: ObjectReference::of(object),
            events,
        };
        self.record_batch(batch).await;
    }

    /// Writes the Events of a batch.
    pub async fn record_batch(&self, batch: EventBatch) {
        let EventBatch {
            component,
            regarding,
            events,
        } = batch;
        for event in events {
            let reason = event.reason;
            if let Err(error) = self.write(component, &regarding, event).await {
                let ObjectReference {
                    kind,
                    namespace,
                    name,
                    ..
                } = &regarding;
                // As upstream: the objects of a terminating namespace end in turn, and none can have Events.
                if error.is_namespace_terminating() {
                    tracing::debug!(kind, namespace, name, reason, %error, "Event not written");
                } else {
                    tracing::warn!(kind, namespace, name, reason, %error, "Event not written");
                }
            }
        }
    }

    async fn write(
        &self,
        component: &'static str,
        regarding: &ObjectReference,
        event: EventText,
    ) -> Result<(), ClientError> {
        let namespace = regarding.event_namespace();
        let occurrence = Occurrence {
            component: component.to_owned(),
            involved: regarding.to_json(),
            namespace: namespace.to_owned(),
            is_warning: event.is_warning,
            reason: event.reason.to_owned(),
            message: event.message,
        };
        let write = {
            let mut correlator = self.correlator.lock().unwrap_or_else(PoisonError::into_inner);
            correlator.observe(&occurrence, self.clock.now())
        };
        let Some(write) = write else {
            let (name, reason) = (&regarding.name, event.reason);
            tracing::debug!(namespace, name, reason, "Event dropped; rate limit of its object");
            return Ok(());
        };
        write_event(&self.client, namespace, write).await
    }
}

/// Queue of Events that a task writes in their order. Clones share the task, which ends with the last clone.
#[derive(Clone, Debug)]
pub struct EventQueue {
    batches: mpsc::Sender<EventBatch>,
}

impl EventQueue {
    /// Returns a queue, and the task that writes its Events with `recorder`.
    pub fn new(recorder: EventRecorder) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (batches, mut queued) = mpsc::channel(QUEUED_BATCHES_MAX);
        let write_events = async move {
            while let Some(batch) = queued.recv().await {
                recorder.record_batch(batch).await;
            }
        };
        (Self { batches }, write_events)
    }

    /// Creates a queue that drops all batches, for tests.
    pub fn discarding() -> Self {
        let (batches, _) = mpsc::channel(1);
        Self { batches }
    }

    /// Records the Events of a batch, or drops the batch if the queue is full.
    pub fn record(&self, batch: EventBatch) {
        if let Err(error) = self.batches.try_send(batch) {
            let regarding = error.into_inner().regarding;
            tracing::debug!(
                kind = regarding.kind,
                name = regarding.name,
                "Event dropped; queue full"
            );
        }
    }
}

/// Creates or patches an Event.
async fn write_event(client: &Client, namespace: &str, write: EventWrite) -> Result<(), ClientError> {
    let collection = format!("/api/v1/namespaces/{namespace}/events");
    let event = match write {
        EventWrite::Create(event) => event,
        EventWrite::Patch { name, patch, create } => {
            let path = format!("{collection}/{name}");
            let patched = client
                .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
                .await;
            match patched {
                // Servers delete Events after a while.
                Err(error) if error.is_not_found() => create,
                patched => return patched.map(drop),
            }
        }
    };
    client
        .request(Method::POST, &collection, JSON, Some(&event))
        .await?;
    Ok(())
}
