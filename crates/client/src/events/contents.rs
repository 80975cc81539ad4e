//! Contents of Events, and the objects that they regard.

use api::object::{ObjectKey, Resource, Service};
use serde_json::{Value, json};

/// The reason and message of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// True for Events of type `Warning`, false for `Normal`.
    pub is_warning: bool,
    /// The machine-readable reason, for example `TooManyAddressesToMirror`.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
}

impl EventText {
    /// Creates the text of an Event of type `Normal`.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: false,
            reason,
            message: message.into(),
        }
    }

    /// Creates the text of an Event of type `Warning`.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            reason,
            message: message.into(),
        }
    }
}

/// Events of one component about one object, which the recorder writes in their order.
#[derive(Clone, Debug)]
pub struct EventBatch {
    /// The component that reports the Events (`source.component` of the Event).
    pub component: &'static str,
    /// Object that the Events regard.
    pub regarding: ObjectReference,
    /// One text for each Event.
    pub events: Vec<EventText>,
}

/// The object that an Event regards (`involvedObject`). Empty attributes are absent from the Event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// API group and version: `v1`, or `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Part of the object, for example `spec.containers{web}`; empty for the whole object.
    pub field_path: String,
}

impl ObjectReference {
    /// Refers to the Service with this key and UID.
    pub fn service(key: ObjectKey, uid: String) -> Self {
        Self::new::<Service>(&key, uid)
    }

    /// Refers to `object`.
    pub fn of<T: Resource>(object: &T) -> Self {
        Self::new::<T>(&object.metadata().key(), object.metadata().uid.clone())
    }

    fn new<T: Resource>(key: &ObjectKey, uid: String) -> Self {
        Self {
            api_version: api_version::<T>(),
            kind: T::KIND.to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid,
            field_path: String::new(),
        }
    }

    /// Returns the namespace of Events about the object: its own, or `default` for cluster-scoped objects.
    pub(super) fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() {
            "default"
        } else {
            &self.namespace
        }
    }

    /// Returns the Event as JSON.
    pub(super) fn to_json(&self) -> Value {
        let attributes = [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("fieldPath", &self.field_path),
        ];
        let present = attributes.into_iter().filter(|(_, value)| !value.is_empty());
        present
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect()
    }
}

/// Returns the `apiVersion` of a kind: `v1`, or `apps/v1`.
pub fn api_version<T: Resource>() -> String {
    match T::GROUP {
        "" => T::VERSION.to_owned(),
        group => format!("{group}/{}", T::VERSION),
    }
}

#[cfg(test)]
mod tests;
