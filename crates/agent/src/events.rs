//! Recorder of Events about Pods, with the reasons and messages of the kubelet.

use api::object::Resource;
use client::Client;
use client::events::{Correlator, Occurrence, post};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::object::Pod;

/// Reporting component. Users and tools filter by it.
const COMPONENT: &str = "kubelet";
/// Events that wait to be written. Further ones are dropped, because Events are best effort.
const WAITING_MAX: usize = 512;

/// Recorder of Events. Clones share the queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Occurrence>,
}

/// Recorder of Events about one Pod or container.
#[derive(Clone, Debug)]
pub struct PodEventRecorder {
    recorder: EventRecorder,
    namespace: String,
    involved: Value,
}

impl EventRecorder {
    /// Returns a recorder, and the task that writes its Events. The task ends when all recorders are dropped.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()>) {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        (Self { queue }, write(client, waiting))
    }

    /// Returns a recorder for a Pod.
    pub fn for_pod(&self, pod: &Pod) -> PodEventRecorder {
        let meta = &pod.metadata;
        PodEventRecorder {
            recorder: self.clone(),
            namespace: meta.namespace.clone(),
            involved: json!({
                "apiVersion": Pod::VERSION, "kind": Pod::KIND,
                "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
            }),
        }
    }
}

impl PodEventRecorder {
    /// Returns a recorder for a container of the Pod.
    pub fn for_container(&self, name: &str) -> Self {
        let mut recorder = self.clone();
        recorder.involved["fieldPath"] = format!("spec.containers{{{name}}}").into();
        recorder
    }

    /// Records an Event of type Normal.
    pub fn normal(&self, reason: &str, message: String) {
        self.record(false, reason, message);
    }

    /// Records an Event of type Warning.
    pub fn warning(&self, reason: &str, message: String) {
        self.record(true, reason, message);
    }

    fn record(&self, is_warning: bool, reason: &str, message: String) {
        let occurrence = Occurrence {
            component: COMPONENT.to_owned(),
            involved: self.involved.clone(),
            namespace: self.namespace.clone(),
            is_warning,
            reason: reason.to_owned(),
            message,
        };
        if self.recorder.queue.try_send(occurrence).is_err() {
            tracing::debug!(reason, "queue of Events full, Event dropped");
        }
    }
}

async fn write(client: Client, mut waiting: mpsc::Receiver<Occurrence>) {
    let mut correlator = Correlator::default();
    while let Some(occurrence) = waiting.recv().await {
        let Some(posting) = correlator.observe(&occurrence, Timestamp::now()) else {
            continue;
        };
        if let Err(error) = post(&client, &occurrence.namespace, posting).await {
            tracing::debug!(reason = occurrence.reason, %error, "Event not written");
        }
    }
}
