//! Events (core/v1): what the controllers tell people about an object, each thing once while it lasts.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::PoisonError;

use api::object::{ObjectKey, Resource, Service};
use client::ClientError;
use client::events::Occurrence;
use serde_json::json;

use crate::run::Environment;
use crate::selection::Controller;
use crate::write;

/// Something that the owner of an object should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether something is wrong.
    pub is_warning: bool,
    /// One word for programs: `TooManyAddressesToMirror` …
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Finding {
    /// Something that happened as it should.
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self {
            is_warning: false,
            reason,
            message,
        }
    }

    /// Something that is wrong.
    pub fn warning(reason: &'static str, message: String) -> Self {
        Self {
            is_warning: true,
            reason,
            message,
        }
    }
}

/// What was told about each topic, so that no sync tells it again. Its size is bounded by what holds at
/// present: a topic without findings is forgotten.
#[derive(Debug)]
pub(crate) struct Told<T>(HashMap<T, Vec<Finding>>);

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Eq + Hash> Told<T> {
    /// Takes in what holds of a topic now; returns what did not hold before.
    pub(crate) fn news(&mut self, topic: T, findings: Vec<Finding>) -> Vec<Finding> {
        if findings.is_empty() {
            self.0.remove(&topic);
            return findings;
        }
        let news = |before: &Vec<Finding>| {
            let fresh = findings.iter().filter(|finding| !before.contains(finding));
            fresh.cloned().collect()
        };
        let fresh = self.0.get(&topic).map_or_else(|| findings.clone(), news);
        self.0.insert(topic, findings);
        fresh
    }
}

/// The object that Events are about.
#[derive(Clone, Debug)]
pub(crate) struct Regarding {
    api_version: String,
    kind: &'static str,
    key: ObjectKey,
    uid: String,
}

impl Regarding {
    /// Events about the Service of that incarnation.
    pub(crate) fn service(key: ObjectKey, uid: String) -> Self {
        Self {
            api_version: write::api_version::<Service>(),
            kind: Service::KIND,
            key,
            uid,
        }
    }

    /// Events about `object`.
    pub(crate) fn object<T: Resource>(object: &T) -> Self {
        Self {
            api_version: write::api_version::<T>(),
            kind: T::KIND,
            key: object.metadata().key(),
            uid: object.metadata().uid.clone(),
        }
    }
}

/// What a controller has to say about an object.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    pub(crate) component: &'static str,
    pub(crate) regarding: Regarding,
    pub(crate) findings: Vec<Finding>,
}

/// Tells what a controller found out about an object.
pub(crate) async fn tell<T: Resource>(
    environment: &Environment,
    controller: Controller,
    object: &T,
    findings: Vec<Finding>,
) {
    tell_as(environment, controller.name(), object, findings).await;
}

/// The same under the name of another component.
pub(crate) async fn tell_as<T: Resource>(
    environment: &Environment,
    component: &'static str,
    object: &T,
    findings: Vec<Finding>,
) {
    let notice = Notice {
        component,
        regarding: Regarding::object(object),
        findings,
    };
    post(environment.clone(), notice).await;
}

/// Writes one Event for each finding. Events are best effort: a failure is logged, and not tried again.
pub(crate) async fn post(environment: Environment, notice: Notice) {
    for finding in &notice.findings {
        if let Err(error) = post_one(&environment, &notice, finding).await {
            let object = &notice.regarding.key;
            tracing::warn!(reason = finding.reason, %object, %error, "an Event was lost");
        }
    }
}

async fn post_one(environment: &Environment, notice: &Notice, finding: &Finding) -> Result<(), ClientError> {
    let Regarding {
        api_version,
        kind,
        key,
        uid,
    } = &notice.regarding;
    let (namespace, name) = (&*key.namespace, &*key.name);
    // Events about objects without a namespace are in this one.
    let place = if namespace.is_empty() {
        "default"
    } else {
        namespace
    };
    let occurrence = Occurrence {
        component: notice.component.to_owned(),
        involved: json!({
            "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid,
        }),
        namespace: place.to_owned(),
        is_warning: finding.is_warning,
        reason: finding.reason.to_owned(),
        message: finding.message.clone(),
    };
    let posting = {
        let mut told = environment.events.lock().unwrap_or_else(PoisonError::into_inner);
        told.observe(&occurrence, environment.clock.now())
    };
    let Some(posting) = posting else {
        tracing::debug!(object = %key, reason = finding.reason, "the object tells too much, an Event is dropped");
        return Ok(());
    };
    client::events::post(&environment.client, place, posting).await
}

#[cfg(test)]
mod tests;
