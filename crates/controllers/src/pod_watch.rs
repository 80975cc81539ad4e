//! One watch of Pods for the controllers with private caches.
//!
//! Each of them reads other fields. The watch therefore delivers the text of a Pod, and each controller decodes its own
//! view. A Pod can be malformed for one view only. The endpoint controllers have a watch of their own, so that no other
//! controller delays their changes.

use std::sync::Arc;

use api::object::{ObjectMeta, Resource};
use client::{Client, Event, SharedWatch};
use reconcile::watches;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;

/// The watch of Pods that controllers share. Clones are the same watch, which runs while a controller uses it.
#[derive(Clone)]
pub struct PodWatch(SharedWatch<PodText>);

impl PodWatch {
    /// Creates a watch that starts with its first use.
    pub(crate) fn new(client: &Client) -> Self {
        Self(SharedWatch::new(client))
    }

    /// Sends the Pods to a controller, each as a view, in a task that ends with the receiver of `sender`. With
    /// [`Event::Synced`], `to_change` receives the revision of the complete list.
    pub(crate) fn forward<T: Resource, C: Send + 'static>(
        &self,
        sender: Sender<C>,
        to_change: impl Fn(Event<T>, u64) -> C + Send + 'static,
    ) {
        watches::forward_shared(&self.0, sender, move |event, revision| {
            to_change(view_of(event), revision)
        });
    }
}

/// A Pod as the API server sent it.
#[derive(Debug)]
struct PodText {
    /// Namespace and name only.
    metadata: ObjectMeta,
    json: Box<RawValue>,
}

api::resource!(PodText, "", "v1", "Pod", "pods");

impl<'de> Deserialize<'de> for PodText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Names {
            namespace: String,
            name: String,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Named {
            metadata: Names,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Named { metadata } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let metadata = ObjectMeta {
            namespace: metadata.namespace,
            name: metadata.name,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, json })
    }
}

/// Decodes the view of a controller.
fn view_of<T: Resource>(event: Event<Arc<PodText>>) -> Event<T> {
    match event {
        Event::Applied(pod) => match serde_json::from_str(pod.json.get()) {
            Ok(view) => Event::Applied(view),
            Err(error) => Event::Malformed {
                key: pod.metadata.key(),
                error: error.to_string(),
            },
        },
        Event::Deleted(key) => Event::Deleted(key),
        Event::Synced => Event::Synced,
        Event::Malformed { key, error } => Event::Malformed { key, error },
    }
}

#[cfg(test)]
mod tests;
