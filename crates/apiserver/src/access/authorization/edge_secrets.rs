//! Secrets that an edge may read. A Service or an Ingress that edges serve references them, or they hold the key of
//! session cookies. Only `get` is permitted, because a list or watch would return all Secrets.
//!
//! A Service qualifies if its type is LoadBalancer, Portolan assigned its addresses, and the assigner set their
//! `ipMode` to `Proxy`. A Secret of another namespace qualifies if it allows the namespace of the Service. An Ingress
//! qualifies if Portolan serves its class, and only for Secrets of its own namespace.
//!
//! The announcers elect the node that serves a Service, and do not report the result to the API server. Therefore the
//! edges of all nodes may read the Secrets of all these Services.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::certificates::{NodeIdentity, NodePart};
use api::edge_secret::{
    ALLOWED_NAMESPACES, ASSIGNED_CONDITION, COOKIES_NAME, COOKIES_NAMESPACE, is_namespace_allowed,
    named_secrets,
};
use api::ingress;
use api::kind;
use api::rbac::Action;
use api::tree::{child, entries, is_set, items, text, text_if_set};
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

/// Maximum number of Secrets that one object makes readable. The edge uses fewer: an annotation names at most 100 Secrets,
/// and a class uses at most 1,000 of a namespace.
const SECRETS_MAX: usize = 10_000;

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

/// Secrets that Services and Ingresses reference. They are listed once; later calls apply the events since the previous
/// call.
#[derive(Default)]
pub(super) struct Secrets(Mutex<References>);

/// References from Services and Ingresses to Secrets, in both directions.
#[derive(Default)]
struct References {
    /// Secrets of each object, by its store key, at most [`SECRETS_MAX`].
    secrets: HashMap<Arc<str>, Vec<Key>>,
    /// Objects that reference a Secret, by store key. The Secrets of an object share its key and its reference.
    services: HashMap<Key, HashMap<Arc<str>, Arc<Reference>>>,
    /// Watches on Services and Ingresses since the last refresh; empty before the first list.
    watches: Vec<Watch>,
}

/// Object that references a Secret.
struct Reference {
    namespace: String,
    /// Class of an Ingress; `None` for a Service.
    class: Option<String>,
}

impl Secrets {
    /// Returns true if an object that may use the Secret references it.
    fn is_referenced(&self, index: &Index, namespace: &str, name: &str) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        let references: Vec<Arc<Reference>> = {
            let mut references = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = references.refresh(index) {
                tracing::error!(%error, "Services and Ingresses not read; edges may read no Secrets");
                return false;
            }
            let objects = references.services.get(&key).into_iter().flatten();
            objects.map(|(_, reference)| Arc::clone(reference)).collect()
        };
        let served = references.into_iter().filter(|reference| {
            let class = reference.class.as_deref();
            class.is_none_or(|class| is_own_class(index, class))
        });
        let namespaces: BTreeSet<String> = served.map(|reference| reference.namespace.clone()).collect();
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

/// Returns true if Portolan serves the IngressClass.
fn is_own_class(index: &Index, name: &str) -> bool {
    let class = || {
        let kind = kind::find(ingress::GROUP, "v1", "ingressclasses")?;
        let entry = index.get(&kind.store_key("", name))?;
        serde_json::from_slice::<Value>(&entry.value).ok()
    };
    class().is_some_and(|class| text(child(&class, "spec"), "controller") == ingress::CONTROLLER)
}

impl References {
    fn refresh(&mut self, index: &Index) -> Result<(), StoreError> {
        if self.watches.is_empty() {
            return self.read_all(index);
        }
        let mut events = Vec::new();
        for watch in &mut self.watches {
            loop {
                match watch.try_next() {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(StoreError::Lagged { .. }) => return self.read_all(index),
                    Err(error) => {
                        self.watches.clear();
                        return Err(error);
                    }
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
        let kinds = [
            kind::find("", "v1", "services"),
            kind::find(ingress::GROUP, "v1", "ingresses"),
        ];
        let mut watches = Vec::with_capacity(kinds.len());
        for kind in kinds.into_iter().flatten() {
            let prefix = kind.store_prefix(None);
            let listing = index.list(&prefix, None, None, None)?;
            for entry in &listing.entries {
                self.put(&entry.key, &entry.value);
            }
            watches.push(index.watch(&prefix, listing.revision)?);
        }
        self.watches = watches;
        Ok(())
    }

    /// Adds or replaces an object. A malformed one references nothing.
    fn put(&mut self, store_key: &str, value: &[u8]) {
        self.remove(store_key);
        let Ok(object) = serde_json::from_slice::<Value>(value) else {
            return;
        };
        let class = ingress_class(store_key, &object);
        let mut secrets = match class {
            Some(_) => ingress_references(&object),
            None => edge_references(&object),
        };
        let mut distinct = HashSet::new();
        secrets.retain(|secret| distinct.len() < SECRETS_MAX && distinct.insert(secret.clone()));
        if secrets.is_empty() {
            return;
        }
        let reference = Arc::new(Reference {
            namespace: text(child(&object, "metadata"), "namespace").to_owned(),
            class: class.map(str::to_owned),
        });
        let store_key: Arc<str> = store_key.into();
        for secret in &secrets {
            let objects = self.services.entry(secret.clone()).or_default();
            objects.insert(Arc::clone(&store_key), Arc::clone(&reference));
        }
        self.secrets.insert(store_key, secrets);
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

/// Returns the class of an Ingress; `None` for a Service.
fn ingress_class<'o>(store_key: &str, object: &'o Value) -> Option<&'o str> {
    let ingresses = kind::find(ingress::GROUP, "v1", "ingresses")?;
    if !store_key.starts_with(&ingresses.store_prefix(None)) {
        return None;
    }
    let annotated = || {
        text(
            child(child(object, "metadata"), "annotations"),
            ingress::CLASS_ANNOTATION,
        )
    };
    let class = text_if_set(child(object, "spec"), "ingressClassName");
    Some(class.unwrap_or_else(annotated))
}

/// Returns the Secrets that an Ingress references, in its own namespace.
fn ingress_references(ingress: &Value) -> Vec<Key> {
    let namespace = text(child(ingress, "metadata"), "namespace");
    let entries = items(child(ingress, "spec"), "tls").iter();
    let names = entries.map(|tls| text(tls, "secretName"));
    names
        .filter(|name| !name.is_empty())
        .map(|name| (namespace.to_owned(), name.to_owned()))
        .collect()
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
    let references = named_secrets(entries(metadata, "annotations"));
    let secrets = references.into_iter().map(|secret| {
        let namespace = secret.namespace.as_deref().unwrap_or(namespace);
        (namespace.to_owned(), secret.name.to_string())
    });
    secrets.collect()
}

#[cfg(test)]
mod tests;
