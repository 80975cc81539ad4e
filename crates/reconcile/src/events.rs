//! Kubernetes Events (core/v1) about the objects that a controller reconciles.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use api::object::{ObjectKey, Resource, Service};
use client::events::{Correlator, Occurrence};
use client::{Client, ClientError, WallClock};
use serde_json::json;

/// The reason and message of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// True for Events of type `Warning`, false for `Normal`.
    pub is_warning: bool,
    /// The machine-readable reason, for example `TooManyAddressesToMirror`.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
}

impl Finding {
    /// Creates a finding for an Event of type `Normal`.
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self {
            is_warning: false,
            reason,
            message,
        }
    }

    /// Creates a finding for an Event of type `Warning`.
    pub fn warning(reason: &'static str, message: String) -> Self {
        Self {
            is_warning: true,
            reason,
            message,
        }
    }
}

/// The current findings of each topic, so that a lasting finding is reported once.
///
/// Its size is bounded by the topics with findings: a topic without findings is removed.
#[derive(Debug)]
pub struct CurrentFindings<T>(HashMap<T, Vec<Finding>>);

impl<T> Default for CurrentFindings<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Eq + Hash> CurrentFindings<T> {
    /// Replaces the findings of a topic; returns those that it did not have before.
    pub fn replace(&mut self, topic: T, findings: Vec<Finding>) -> Vec<Finding> {
        if findings.is_empty() {
            self.0.remove(&topic);
            return findings;
        }
        let added = |before: &Vec<Finding>| {
            let added = findings.iter().filter(|finding| !before.contains(finding));
            added.cloned().collect()
        };
        let added = self.0.get(&topic).map_or_else(|| findings.clone(), added);
        self.0.insert(topic, findings);
        added
    }
}

/// The object that an Event regards.
#[derive(Clone, Debug)]
pub struct ObjectReference {
    api_version: String,
    kind: &'static str,
    key: ObjectKey,
    uid: String,
}

impl ObjectReference {
    /// Refers to the Service with this key and UID.
    pub fn service(key: ObjectKey, uid: String) -> Self {
        Self {
            api_version: api_version::<Service>(),
            kind: Service::KIND,
            key,
            uid,
        }
    }

    /// Refers to `object`.
    pub fn of<T: Resource>(object: &T) -> Self {
        Self {
            api_version: api_version::<T>(),
            kind: T::KIND,
            key: object.metadata().key(),
            uid: object.metadata().uid.clone(),
        }
    }
}

/// Returns the `apiVersion` of a kind: `v1`, or `apps/v1`.
pub fn api_version<T: Resource>() -> String {
    match T::GROUP {
        "" => T::VERSION.to_owned(),
        group => format!("{group}/{}", T::VERSION),
    }
}

/// Findings of one component about one object.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The component that reports the findings (`source.component` of the Event).
    pub component: &'static str,
    /// Object that the Events regard.
    pub regarding: ObjectReference,
    /// The findings; each becomes one Event.
    pub findings: Vec<Finding>,
}

/// Aggregates, limits and writes Events, as client-go's recorder does. Clones share their state.
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

    /// Writes one Event for each finding about `object`.
    pub async fn record<T: Resource>(&self, component: &'static str, object: &T, findings: Vec<Finding>) {
        let notice = Notice {
            component,
            regarding: ObjectReference::of(object),
            findings,
        };
        self.record_notice(notice).await;
    }

    /// Writes one Event for each finding of a notice. Events are best effort: a failure is logged and not retried.
    pub async fn record_notice(&self, notice: Notice) {
        for finding in &notice.findings {
            if let Err(error) = self.write(&notice, finding).await {
                let object = &notice.regarding.key;
                tracing::warn!(reason = finding.reason, %object, %error, "Event not written");
            }
        }
    }

    async fn write(&self, notice: &Notice, finding: &Finding) -> Result<(), ClientError> {
        let ObjectReference {
            api_version,
            kind,
            key,
            uid,
        } = &notice.regarding;
        let (namespace, name) = (&*key.namespace, &*key.name);
        // Events about cluster-scoped objects are in namespace `default`.
        let event_namespace = if namespace.is_empty() {
            "default"
        } else {
            namespace
        };
        let occurrence = Occurrence {
            component: notice.component.to_owned(),
            involved: json!({
                "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid,
            }),
            namespace: event_namespace.to_owned(),
            is_warning: finding.is_warning,
            reason: finding.reason.to_owned(),
            message: finding.message.clone(),
        };
        let posting = {
            let mut correlator = self.correlator.lock().unwrap_or_else(PoisonError::into_inner);
            correlator.observe(&occurrence, self.clock.now())
        };
        let Some(posting) = posting else {
            tracing::debug!(object = %key, reason = finding.reason, "Event rate limit exceeded; Event dropped");
            return Ok(());
        };
        client::events::post(&self.client, event_namespace, posting).await
    }
}

#[cfg(test)]
mod tests;
