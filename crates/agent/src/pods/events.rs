//! Events about Pods, with the reasons and messages of the kubelet.

use client::events::{EventBatch, EventQueue, EventText, ObjectReference};

use crate::object::Pod;

/// Reporting component. Users and tools filter by it.
const COMPONENT: &str = "kubelet";

/// Recorder of Events about one Pod or container.
#[derive(Clone, Debug)]
pub struct PodEventRecorder {
    queue: EventQueue,
    regarding: ObjectReference,
}

impl PodEventRecorder {
    /// Creates a recorder for a Pod.
    pub fn new(queue: EventQueue, pod: &Pod) -> Self {
        Self {
            queue,
            regarding: ObjectReference::of(pod),
        }
    }

    /// Returns a recorder for a container of the Pod.
    pub fn for_container(&self, name: &str) -> Self {
        let mut recorder = self.clone();
        recorder.regarding.field_path = format!("spec.containers{{{name}}}");
        recorder
    }

    /// Records an Event of type Normal.
    pub fn normal(&self, reason: &'static str, message: String) {
        self.record(EventText::normal(reason, message));
    }

    /// Records an Event of type Warning.
    pub fn warning(&self, reason: &'static str, message: String) {
        self.record(EventText::warning(reason, message));
    }

    fn record(&self, event: EventText) {
        self.queue.record(EventBatch {
            component: COMPONENT,
            regarding: self.regarding.clone(),
            events: vec![event],
        });
    }
}
