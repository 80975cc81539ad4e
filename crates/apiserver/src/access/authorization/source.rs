//! Source of the RBAC policy: the roles and bindings in the store, followed by watch.
//!
//! A change parses the changed object only; the policy is then built from all parsed roles and bindings. If the watch
//! lags behind, everything is listed again. A malformed role or binding grants nothing, and the previous version of it
//! does not stay. A subject gets a role once in a namespace, because further bindings would only prolong its decisions.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::rbac::{GROUP, PolicyRule};
use serde::Deserialize;
use store::{Event, EventKind, Index, StoreError, Watch};
use tokio::time::MissedTickBehavior;

use super::policy::{Policy, Rules, Subject};
use crate::shutdown::Shutdown;
use crate::verbs::resource::Resources;

/// Parsed roles and bindings.
#[derive(Default)]
pub(super) struct Source {
    /// Rules of each role, by store key.
    roles: BTreeMap<String, Arc<[PolicyRule]>>,
    /// Bindings, by store key.
    bindings: BTreeMap<String, Binding>,
    /// Watch on roles and bindings since the last refresh; `None` before the first list.
    watch: Option<Watch>,
}

/// The part of a stored role that is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Role {
    rules: Option<Vec<PolicyRule>>,
}

/// The part of a stored binding that is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Binding {
    kind: String,
    metadata: Metadata,
    role_ref: Reference,
    subjects: Option<Vec<Reference>>,
}

/// Metadata of a stored binding.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
}

/// Reference to a role or a subject.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    kind: String,
    name: String,
    namespace: String,
}

impl Source {
    /// Applies changes since the last call. Returns true if there were any.
    pub(super) fn refresh(&mut self, index: &Index) -> Result<bool, StoreError> {
        let Some(watch) = &mut self.watch else {
            self.read_all(index)?;
            return Ok(true);
        };
        let mut changes = Vec::new();
        loop {
            match watch.try_next() {
                Ok(Some(event)) => changes.push(event),
                Ok(None) => break,
                Err(StoreError::Lagged { .. }) => {
                    self.read_all(index)?;
                    return Ok(true);
                }
                Err(other) => return Err(other),
            }
        }
        for event in &changes {
            self.apply(event);
        }
        Ok(!changes.is_empty())
    }

    /// Builds a policy from all roles and bindings. A subject gets a role once in a namespace: further bindings would only
    /// prolong its decisions.
    pub(super) fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        let mut granted = HashSet::new();
        for binding in self.bindings.values() {
            let rules = self.rules_of(binding);
            let description: Arc<str> = binding.description().into();
            for subject in binding.subjects.iter().flatten() {
                let namespace = binding.metadata.namespace.as_str();
                let Some(subject) = subject.subject(namespace) else {
                    continue;
                };
                let role = &binding.role_ref;
                let role = (role.kind == "ClusterRole", role.name.as_str());
                if granted.insert((namespace, role, subject.clone())) {
                    policy.grant(namespace, &subject, rules.clone(), description.clone());
                }
            }
        }
        policy
    }

    fn read_all(&mut self, index: &Index) -> Result<(), StoreError> {
        let prefix = format!("/{GROUP}/");
        let listing = index.list(&prefix, None, None, None)?;
        self.roles.clear();
        self.bindings.clear();
        for entry in &listing.entries {
            self.put(&entry.key, &entry.value);
        }
        self.watch = Some(index.watch(&prefix, listing.revision)?);
        Ok(())
    }

    fn apply(&mut self, event: &Event) {
        match event.kind {
            EventKind::Created | EventKind::Updated => self.put(&event.key, &event.value),
            EventKind::Deleted => {
                self.roles.remove(&*event.key);
                self.bindings.remove(&*event.key);
            }
        }
    }

    /// Adds or replaces a role or binding. A malformed object grants nothing.
    fn put(&mut self, key: &str, value: &[u8]) {
        let read = match key.split('/').nth(2) {
            Some("roles" | "clusterroles") => serde_json::from_slice::<Role>(value).map(|role| {
                let rules = role.rules.unwrap_or_default();
                self.roles.insert(key.to_owned(), rules.into());
            }),
            _ => serde_json::from_slice::<Binding>(value).map(|binding| {
                self.bindings.insert(key.to_owned(), binding);
            }),
        };
        if let Err(error) = read {
            tracing::error!(key, %error, "malformed stored role or binding; it grants nothing");
            self.roles.remove(key);
            self.bindings.remove(key);
        }
    }

    fn rules_of(&self, binding: &Binding) -> Rules {
        let role = &binding.role_ref;
        let key = match role.kind.as_str() {
            "ClusterRole" => format!("/{GROUP}/clusterroles/{}", role.name),
            _ => format!("/{GROUP}/roles/{}/{}", binding.metadata.namespace, role.name),
        };
        match self.roles.get(&key) {
            Some(rules) => Rules::Found(rules.clone()),
            None => {
                let message = format!("{}.{GROUP} {:?} not found", role.kind.to_lowercase(), role.name);
                Rules::Missing(message.into())
            }
        }
    }
}

impl Binding {
    fn description(&self) -> String {
        let (role, metadata) = (&self.role_ref, &self.metadata);
        let separator = if metadata.namespace.is_empty() { "" } else { "/" };
        format!(
            "{} \"{}{separator}{}\" of {} {:?}",
            self.kind, metadata.name, metadata.namespace, role.kind, role.name
        )
    }
}

impl Reference {
    /// Returns the subject that a binding in `namespace` refers to; `None` for unknown kinds.
    fn subject(&self, namespace: &str) -> Option<Subject> {
        let name = self.name.clone();
        match self.kind.as_str() {
            "User" => Some(Subject::User(name)),
            "Group" => Some(Subject::Group(name)),
            "ServiceAccount" => {
                let namespace = match self.namespace.as_str() {
                    "" => namespace,
                    own => own,
                };
                (!namespace.is_empty()).then(|| Subject::ServiceAccount {
                    namespace: namespace.to_owned(),
                    name,
                })
            }
            _ => None,
        }
    }
}

/// Interval at which Pod changes are applied in the background, so that few remain for the next request of a node.
const PODS_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Applies changes of roles, bindings and Pods until shutdown.
pub(crate) async fn follow(resources: Arc<Resources>, mut shutdown: Shutdown) {
    let index = resources.store.index();
    let mut pods_interval = tokio::time::interval(PODS_REFRESH_INTERVAL);
    pods_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let authorizer = &resources.admission.authorizer;
    loop {
        authorizer.refresh_on_blocking_thread().await;
        let Ok(mut watch) = index.watch(&format!("/{GROUP}/"), index.revision()) else {
            continue;
        };
        // A change may have been written before the watch began.
        authorizer.refresh_on_blocking_thread().await;
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                _ = pods_interval.tick() => authorizer.refresh_nodes(),
                event = watch.next() => match event {
                    Ok(_) => authorizer.refresh_on_blocking_thread().await,
                    Err(StoreError::Lagged { .. }) => break,
                    Err(error) => return tracing::error!(%error, "watch on roles and bindings ended"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
