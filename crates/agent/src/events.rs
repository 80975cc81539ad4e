//! Events of Pods, in the kubelet's words, told beside everything else.

use api::object::Resource;
use client::Client;
use client::events::{Correlator, Occurrence, post};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::object::Pod;

/// Who tells: what people and tools look for.
const COMPONENT: &str = "kubelet";
/// Events that wait to be written: the bursts of all Pods of a node. More are dropped, as they are a courtesy.
const WAITING_MAX: usize = 512;

/// Tells Events. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Occurrence>,
}

/// Tells Events of one Pod.
#[derive(Clone, Debug)]
pub struct PodEvents {
    events: Events,
    namespace: String,
    involved: Value,
}

impl Events {
    /// The queue, and the work of writing, which ends when nobody can tell any more.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()>) {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        (Self { queue }, write(client, waiting))
    }

    /// Events of a Pod.
    pub fn of(&self, pod: &Pod) -> PodEvents {
        let meta = &pod.metadata;
        PodEvents {
            events: self.clone(),
            namespace: meta.namespace.clone(),
            involved: json!({
                "apiVersion": Pod::VERSION, "kind": Pod::KIND,
                "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
            }),
        }
    }
}

impl PodEvents {
    /// Events of a container of the Pod.
    pub fn of_container(&self, name: &str) -> Self {
        let mut of_container = self.clone();
        of_container.involved["fieldPath"] = format!("spec.containers{{{name}}}").into();
        of_container
    }

    /// Something usual.
    pub fn normal(&self, reason: &str, message: String) {
        self.tell(false, reason, message);
    }

    /// Something is wrong.
    pub fn warning(&self, reason: &str, message: String) {
        self.tell(true, reason, message);
    }

    fn tell(&self, is_warning: bool, reason: &str, message: String) {
        let occurrence = Occurrence {
            component: COMPONENT.to_owned(),
            involved: self.involved.clone(),
            namespace: self.namespace.clone(),
            is_warning,
            reason: reason.to_owned(),
            message,
        };
        if self.events.queue.try_send(occurrence).is_err() {
            tracing::debug!(reason, "too many Events wait, one is dropped");
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
            tracing::debug!(reason = occurrence.reason, %error, "an Event was not stored");
        }
    }
}
