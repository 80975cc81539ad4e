//! Events about Services and the Node, as `kubectl describe` shows them (KPR-08).

use api::object::ObjectKey;
use client::events::{EventBatch, EventQueue, EventRecorder, EventText, ObjectReference};
use client::{Client, WallClock};

/// Reporting component: upstream's name.
const COMPONENT: &str = "kube-proxy";

/// Recorder of Events of the proxy. Nothing waits for the writes.
#[derive(Clone)]
pub(crate) struct Events {
    queue: EventQueue,
    node_name: String,
}

impl Events {
    /// Returns a recorder for this node, and the task that writes its Events through `client`.
    pub(crate) fn new(
        client: Client,
        node_name: &str,
    ) -> (Self, impl Future<Output = ()> + Send + 'static + use<>) {
        let recorder = EventRecorder::of_host(client, WallClock::system(), node_name);
        let (queue, write_events) = EventQueue::new(recorder);
        let events = Self {
            queue,
            node_name: node_name.to_owned(),
        };
        (events, write_events)
    }

    /// Creates a recorder that discards Events.
    #[cfg(test)]
    pub(crate) fn discarding() -> Self {
        Self {
            queue: EventQueue::discarding(),
            node_name: String::new(),
        }
    }

    /// Records a warning about the Service with the UID `uid`. `kubectl describe` finds Events by the UID.
    pub(crate) fn record_service_warning(
        &self,
        service: &ObjectKey,
        uid: &str,
        reason: &'static str,
        message: String,
    ) {
        let regarding = ObjectReference::service(service.clone(), uid.to_owned());
        self.record(regarding, EventText::warning(reason, message));
    }

    /// Records a normal Event about this Node.
    pub(crate) fn record_node_event(&self, reason: &'static str, message: String) {
        self.record(self.node(), EventText::normal(reason, message));
    }

    /// Records a warning about this Node.
    pub(crate) fn record_node_warning(&self, reason: &'static str, message: String) {
        self.record(self.node(), EventText::warning(reason, message));
    }

    /// Refers to this Node. Its UID is its name, as in the Events of kube-proxy and kubelet.
    fn node(&self) -> ObjectReference {
        ObjectReference {
            kind: "Node".to_owned(),
            name: self.node_name.clone(),
            uid: self.node_name.clone(),
            ..ObjectReference::default()
        }
    }

    fn record(&self, regarding: ObjectReference, event: EventText) {
        self.queue.record(EventBatch {
            component: COMPONENT,
            regarding,
            events: vec![event],
        });
    }
}
