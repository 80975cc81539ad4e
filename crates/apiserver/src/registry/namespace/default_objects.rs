//! Default objects of every Namespace: the ServiceAccount `default`, and the ConfigMap `kube-root-ca.crt` with the
//! cluster CA certificate. They are created in the transaction that creates the Namespace, and restored after
//! changes.

use std::sync::Arc;

use api::kind::{self, Kind};
use api::tree::{child, set, text};
use serde_json::{Value, json};
use store::{Event, EventKind, Expectation, StoreError, Transaction, Write};

use super::namespace_kind;
use crate::failure::Failure;
use crate::request::route::Target;
use crate::shutdown::Shutdown;
use crate::verbs::resource::{Resources, WriteContext, encode, new_server_object, retry_on_conflict};

const ACCOUNT: &str = "default";
const CA_CONFIG_MAP: &str = "kube-root-ca.crt";
const CA_CONFIG_MAP_KEY: &str = "ca.crt";

/// A kind and an object of it.
type DefaultObject = (&'static Kind, Value);

impl Resources {
    /// Adds the default objects to the transaction that creates a Namespace. Does nothing for other kinds.
    pub(crate) fn add_default_objects(
        &self,
        target: &Target,
        object: &Value,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        if target.kind.kind != "Namespace" {
            return Ok(());
        }
        let namespace = text(child(object, "metadata"), "name");
        for (kind, object) in default_objects(namespace, &self.ca_certificate)? {
            let key = kind.store_key(namespace, text(child(&object, "metadata"), "name"));
            if self.store.index().get(&key).is_some() {
                continue;
            }
            let value = encode(&new_server_object(kind, object));
            transaction
                .expectations
                .push((key.as_str().into(), Expectation::Absent));
            transaction.writes.push(Write::Put(key.into(), value));
        }
        Ok(())
    }
}

/// Restores default objects that are removed or changed, until shutdown.
pub(crate) async fn maintain(resources: Arc<Resources>, mut shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        result = watch(&resources) => if let Err(error) = result {
            tracing::error!(%error, "default objects of namespaces no longer maintained");
        }
    }
}

async fn watch(resources: &Resources) -> Result<(), StoreError> {
    let index = resources.store.index();
    loop {
        // The list is read again whenever a watch has lagged.
        let listing = index.list("/namespaces/", None, None, None)?;
        let mut accounts = index.watch("/serviceaccounts/", listing.revision)?;
        let mut config_maps = index.watch("/configmaps/", listing.revision)?;
        for entry in &listing.entries {
            ensure(resources, entry.key.rsplit('/').next().unwrap_or_default()).await;
        }
        loop {
            let event = tokio::select! {
                event = accounts.next() => event,
                event = config_maps.next() => event,
            };
            match event {
                Ok(event) => {
                    if let Some(namespace) = affected_namespace(&event) {
                        ensure(resources, namespace).await;
                    }
                }
                Err(StoreError::Lagged { .. }) => break,
                Err(other) => return Err(other),
            }
        }
    }
}

/// Returns the Namespace whose default object an event removed or changed.
fn affected_namespace(event: &Event) -> Option<&str> {
    let mut segments = event.key.rsplit('/');
    let (name, namespace, plural) = (segments.next()?, segments.next()?, segments.next()?);
    let is_default_object = match plural {
        "serviceaccounts" => name == ACCOUNT && event.kind == EventKind::Deleted,
        _ => name == CA_CONFIG_MAP && event.kind != EventKind::Created,
    };
    is_default_object.then_some(namespace)
}

/// Restores the default objects of a Namespace, unless it is being deleted.
async fn ensure(resources: &Resources, namespace: &str) {
    let is_active = namespace_kind().is_ok_and(|kind| {
        let entry = resources.store.index().get(&kind.store_key("", namespace));
        entry.is_some_and(|entry| {
            serde_json::from_slice::<api::object::Namespace>(&entry.value)
                .is_ok_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
        })
    });
    if !is_active {
        return;
    }
    let ensured = async {
        for (kind, object) in default_objects(namespace, &resources.ca_certificate)? {
            restore(resources, kind, namespace, object).await?;
        }
        Ok::<(), Failure>(())
    };
    if let Err(failure) = ensured.await {
        tracing::warn!(
            namespace,
            error = failure.message(),
            "default objects of a namespace not restored"
        );
    }
}

async fn restore(
    resources: &Resources,
    kind: &'static Kind,
    namespace: &str,
    object: Value,
) -> Result<(), Failure> {
    let name = text(child(&object, "metadata"), "name");
    let target = &Target::object(kind, namespace, name);
    let object = &object;
    let restored = retry_on_conflict(target, || async move {
        let Some(stored) = resources.stored(target).await? else {
            resources
                .create_object(target, object.clone(), Vec::new(), WriteContext::SERVER)
                .await?;
            return Ok(());
        };
        let desired = child(object, "data");
        if desired.is_null() || child(&stored.object, "data") == desired {
            return Ok(());
        }
        let mut changed = stored.object.clone();
        set(&mut changed, "data", desired.clone());
        resources
            .replace(target, stored, changed, Vec::new(), WriteContext::SERVER)
            .await
            .map(drop)
    })
    .await;
    match restored {
        // Another server restored it, or the Namespace is being deleted.
        Err(failure) if matches!(failure.reason(), "AlreadyExists" | "Forbidden" | "NotFound") => Ok(()),
        other => other,
    }
}

fn default_objects(namespace: &str, ca_certificate: &str) -> Result<[DefaultObject; 2], Failure> {
    let find = |plural| kind::find("", "v1", plural).ok_or_else(Failure::no_such_path);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace}});
    let description = "CA that signed the API server's certificate, for clients in the cluster.";
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": CA_CONFIG_MAP, "namespace": namespace,
                     "annotations": {"kubernetes.io/description": description}},
        "data": {CA_CONFIG_MAP_KEY: ca_certificate}});
    Ok([
        (find("serviceaccounts")?, account),
        (find("configmaps")?, config_map),
    ])
}
