//! Secrets that an edge may read: those that a Service served by edges references, and the Secret of the session
//! cookie key. Only `get` is permitted, because a list or watch would return all Secrets.
//!
//! A Service qualifies if its type is LoadBalancer, Portolan assigned its addresses, and the assigner set their
//! `ipMode` to `Proxy`. A Secret of another namespace qualifies if it allows the namespace of the Service.
//!
//! The announcers elect the node that serves a Service among themselves, and the API server does not know the result.
//! Therefore the edges of all nodes may read the Secrets of all these Services.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use api::certificates::{NodeIdentity, NodePart};
use api::edge_secret::{
    ALLOWED_NAMESPACES, ASSIGNED_CONDITION, COOKIES_NAME, COOKIES_NAMESPACE, is_namespace_allowed, named_by,
};
use api::kind;
use api::rbac::Action;
use api::tree::{child, entries, is_set, items, text};
use serde_json::Value;
use store::{EventKind, Index, StoreError, Watch};

use super::Attributes;
use crate::access::authentication::Identity;

/// Users of edges that do not belong to a joined node: run by an administrator, or as Pods.
pub(super) const OTHER_EDGES: [&str; 3] = [
    "system:portolan-load-balancer",
    "system:serviceaccount:kube-system:portolan-edge",
    "system:serviceaccount:kube-system:portolan-load-balancer",
];

/// Returns true if the user is an edge and may make the request.
pub(super) fn is_allowed(attributes: &Attributes<'_>, index: &Index, secrets: &Secrets) -> bool {
    let Action::Resource {
        verb: "get",
        group: "",
        resource: "secrets",
        subresource: "",
        name,
    } = attributes.action
    else {
        return false;
    };
    let namespace = attributes.namespace;
    if !is_edge(attributes.user) || name.is_empty() || namespace.is_empty() {
        return false;
    }
    (namespace, name) == (COOKIES_NAMESPACE, COOKIES_NAME) || secrets.is_referenced(index, namespace, name)
}

fn is_edge(user: &Identity) -> bool {
    let identity = NodeIdentity::of(&user.user, &user.groups);
    identity.is_some_and(|identity| identity.part == Some(NodePart::Edge))
        || OTHER_EDGES.contains(&user.user.as_str())
}

/// Namespace and name of a Secret.
type Key = (String, String);

/// Secrets that Services reference. The Services are listed once; later calls apply the events since the previous
/// call.
#[derive(Default)]
pub(super) struct Secrets(Mutex<References>);

#[derive(Default)]
struct References {
    /// Secrets of each Service, by the Service's store key. The size of the annotations bounds their number.
    secrets: HashMap<String, Vec<Key>>,
    /// Services that reference a Secret: store key and namespace of each.
    services: HashMap<Key, HashMap<String, String>>,
    /// Watch on Services since the last refresh; `None` before the first list.
    watch: Option<Watch>,
}

impl Secrets {
    /// Returns true if a Service that may use the Secret references it.
    fn is_referenced(&self, index: &Index, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        let namespaces: BTreeSet<String> = {
            let mut references = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = references.refresh(index) {
                tracing::error!(%error, "Services not read; edges may read no Secrets");
                return false;
            }
            let services = references.services.get(&key).into_iter().flatten();
            services.map(|(_, namespace)| namespace.clone()).collect()
        };
        if namespaces.is_empty() || namespaces.contains(namespace) {
            return !namespaces.is_empty();
        }
        let allowed = allowed_namespaces(index, &key);
        let mut namespaces = namespaces.iter();
        allowed.is_some_and(|allowed| namespaces.any(|namespace| is_namespace_allowed(&allowed, namespace)))
    }
}

/// Returns the annotation that lists the allowed namespaces; `None` if the Secret does not exist.
fn allowed_namespaces(index: &Index, (namespace, name): &Key) -> Option<String> {
    let entry = index.get(&kind::find("", "v1", "secrets")?.store_key(namespace, name))?;
    let secret: Value = serde_json::from_slice(&entry.value).ok()?;
    let annotations = child(child(&secret, "metadata"), "annotations");
    Some(text(annotations, ALLOWED_NAMESPACES).to_owned())
}

impl References {
    fn refresh(&mut self, index: &Index) -> Result<(), StoreError> {
        let Some(watch) = &mut self.watch else {
            return self.read_all(index);
        };
        let mut events = Vec::new();
        loop {
            match watch.try_next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(StoreError::Lagged { .. }) => return self.read_all(index),
                Err(error) => {
                    self.watch = None;
                    return Err(error);
                }
            }
        }
        for event in events {
            match event.kind {
                EventKind::Created | EventKind::Updated => self.put(&event.key, &event.value),
                EventKind::Deleted => self.remove(&event.key),
            }
        }
        Ok(())
    }

    fn read_all(&mut self, index: &Index) -> Result<(), StoreError> {
        *self = Self::default();
        let Some(services) = kind::find("", "v1", "services") else {
            return Ok(());
        };
        let prefix = services.store_prefix(None);
        let listing = index.list(&prefix, None, None, None)?;
        for entry in &listing.entries {
            self.put(&entry.key, &entry.value);
        }
        self.watch = Some(index.watch(&prefix, listing.revision)?);
        Ok(())
    }

    /// Adds or replaces a Service. A malformed Service references nothing.
    fn put(&mut self, store_key: &str, value: &[u8]) {
        self.remove(store_key);
        let Ok(service) = serde_json::from_slice::<Value>(value) else {
            return;
        };
        let secrets = edge_references(&service);
        if secrets.is_empty() {
            return;
        }
        let namespace = text(child(&service, "metadata"), "namespace");
        for secret in &secrets {
            let services = self.services.entry(secret.clone()).or_default();
            services.insert(store_key.to_owned(), namespace.to_owned());
        }
        self.secrets.insert(store_key.to_owned(), secrets);
    }

    fn remove(&mut self, store_key: &str) {
        let Some(secrets) = self.secrets.remove(store_key) else {
            return;
        };
        for secret in secrets {
            if let Some(services) = self.services.get_mut(&secret) {
                services.remove(store_key);
                if services.is_empty() {
                    self.services.remove(&secret);
                }
            }
        }
    }
}

/// Returns the Secrets that a Service references, if edges serve it.
fn edge_references(service: &Value) -> Vec<Key> {
    let (metadata, spec, status) = (
        child(service, "metadata"),
        child(service, "spec"),
        child(service, "status"),
    );
    let is_assigned = items(status, "conditions").iter().any(|condition| {
        text(condition, "type") == ASSIGNED_CONDITION && text(condition, "status") == "True"
    });
    let is_proxied = items(child(status, "loadBalancer"), "ingress")
        .iter()
        .any(|ingress| text(ingress, "ipMode") == "Proxy" && !text(ingress, "ip").is_empty());
    let is_terminating = is_set(metadata, "deletionTimestamp");
    if text(spec, "type") != "LoadBalancer" || !is_assigned || !is_proxied || is_terminating {
        return Vec::new();
    }
    let namespace = text(metadata, "namespace");
    let references = named_by(entries(metadata, "annotations"));
    let secrets = references.into_iter().map(|secret| {
        let namespace = secret.namespace.as_deref().unwrap_or(namespace);
        (namespace.to_owned(), secret.name.to_string())
    });
    secrets.collect()
}

#[cfg(test)]
mod tests;
