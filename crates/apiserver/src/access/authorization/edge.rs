//! The Secrets that an edge may read: those that a Service names which edges serve, and the one of which the cookies of
//! sticky sessions are made. Each by `get` alone: a list or a watch would show all of them.
//!
//! A Service counts if it is of type LoadBalancer, Portolan has assigned its addresses, and their `ipMode` is `Proxy`,
//! which the assigner writes for the edge's. A Secret of another namespace counts if it allows the Service's namespace.
//!
//! Which node serves a Service the announcers agree on among themselves, second by second; the API does not know it. So
//! the edge of every node may read the Secrets of all these Services, also of those that other nodes serve.

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

/// Edges that are no part of a machine that has joined: run by an administrator, or as Pods.
pub(super) const OTHER_EDGES: [&str; 3] = [
    "system:portolan-load-balancer",
    "system:serviceaccount:kube-system:portolan-edge",
    "system:serviceaccount:kube-system:portolan-load-balancer",
];

/// Returns true if the user is an edge and may make the request.
pub(super) fn allows(attributes: &Attributes<'_>, index: &Index, secrets: &Secrets) -> bool {
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
    (namespace, name) == (COOKIES_NAMESPACE, COOKIES_NAME) || secrets.are_named(index, namespace, name)
}

fn is_edge(user: &Identity) -> bool {
    let identity = NodeIdentity::of(&user.user, &user.groups);
    identity.is_some_and(|identity| identity.part == Some(NodePart::Edge))
        || OTHER_EDGES.contains(&user.user.as_str())
}

/// Namespace and name of a Secret.
type Key = (String, String);

/// The Secrets that Services name. The Services are read once; from then on, what has changed is taken in when somebody asks.
#[derive(Default)]
pub(super) struct Secrets(Mutex<References>);

#[derive(Default)]
struct References {
    /// The Secrets of each Service, by the Service's key in the store. A Service names as many as fit into its annotations.
    secrets: HashMap<String, Vec<Key>>,
    /// The Services that name a Secret, by their keys in the store, with their namespaces.
    services: HashMap<Key, HashMap<String, String>>,
    /// Keys that changed since the last update; `None` before the first read.
    watch: Option<Watch>,
}

impl Secrets {
    /// Returns true if a Service that may use the Secret names it.
    fn are_named(&self, index: &Index, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        let namespaces: BTreeSet<String> = {
            let mut references = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = references.refresh(index) {
                tracing::error!(%error, "Services not read, edges read no Secrets");
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

/// Value of the annotation that lists the allowed namespaces; `None` if the Secret does not exist.
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

    /// Takes in a Service. One that cannot be read names nothing.
    fn put(&mut self, store_key: &str, value: &[u8]) {
        self.remove(store_key);
        let Ok(service) = serde_json::from_slice::<Value>(value) else {
            return;
        };
        let secrets = named_for_edge(&service);
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

/// The Secrets that a Service names, if edges serve it.
fn named_for_edge(service: &Value) -> Vec<Key> {
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
    let is_ending = is_set(metadata, "deletionTimestamp");
    if text(spec, "type") != "LoadBalancer" || !is_assigned || !is_proxied || is_ending {
        return Vec::new();
    }
    let namespace = text(metadata, "namespace");
    let named = named_by(entries(metadata, "annotations"));
    let secrets = named.into_iter().map(|secret| {
        let of_secret = secret.namespace.as_deref().unwrap_or(namespace);
        (of_secret.to_owned(), secret.name.to_string())
    });
    secrets.collect()
}

#[cfg(test)]
mod tests;
