//! What every Namespace has from its first moment: the ServiceAccount `default`, and the certificate of the cluster's
//! authority in the ConfigMap `kube-root-ca.crt`. Both come with the Namespace in one transaction, and come again when
//! somebody removes or changes them.

use std::sync::Arc;

use api::kind::{self, Kind};
use api::tree::{child, set, text};
use serde_json::{Value, json};
use store::{Event, EventKind, Expectation, StoreError, Transaction, Write};

use super::namespace_kind;
use crate::failure::Failure;
use crate::request::route::Target;
use crate::shutdown::Shutdown;
use crate::verbs::resource::{Intent, Resources, decided, encoded, newborn};

const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";
const AUTHORITY_FILE: &str = "ca.crt";

/// A kind and an object of it.
type Furnishing = (&'static Kind, Value);

impl Resources {
    /// Adds to the transaction that makes a Namespace what comes with it; nothing for other kinds.
    pub(crate) fn furnish(
        &self,
        target: &Target,
        object: &Value,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        if target.kind.kind != "Namespace" {
            return Ok(());
        }
        let namespace = text(child(object, "metadata"), "name");
        for (kind, furnishing) in furnishings(namespace, &self.authority)? {
            let key = kind.store_key(namespace, text(child(&furnishing, "metadata"), "name"));
            if self.store.index().get(&key).is_some() {
                continue;
            }
            let value = encoded(&newborn(kind, furnishing));
            transaction
                .expectations
                .push((key.as_str().into(), Expectation::Absent));
            transaction.writes.push(Write::Put(key.into(), value));
        }
        Ok(())
    }
}

/// Brings back what is removed or changed, until the server ends.
pub(crate) async fn keep(resources: Arc<Resources>, mut shutdown: Shutdown) {
    tokio::select! {
        () = shutdown.requested() => {}
        result = watch(&resources) => if let Err(error) = result {
            tracing::error!(%error, "the default ServiceAccounts are not looked after any more");
        }
    }
}

async fn watch(resources: &Resources) -> Result<(), StoreError> {
    let index = resources.store.index();
    loop {
        // From here again whenever a watch did not keep up.
        let listing = index.list("/namespaces/", None, None, None)?;
        let mut accounts = index.watch("/serviceaccounts/", listing.revision)?;
        let mut authorities = index.watch("/configmaps/", listing.revision)?;
        for entry in &listing.entries {
            ensure(resources, entry.key.rsplit('/').next().unwrap_or_default()).await;
        }
        loop {
            let event = tokio::select! {
                event = accounts.next() => event,
                event = authorities.next() => event,
            };
            match event {
                Ok(event) => {
                    if let Some(namespace) = bereft(&event) {
                        ensure(resources, namespace).await;
                    }
                }
                Err(StoreError::Lagged { .. }) => break,
                Err(other) => return Err(other),
            }
        }
    }
}

/// The Namespace that an event may have taken something from.
fn bereft(event: &Event) -> Option<&str> {
    let mut segments = event.key.rsplit('/');
    let (name, namespace, plural) = (segments.next()?, segments.next()?, segments.next()?);
    let is_ours = match plural {
        "serviceaccounts" => name == ACCOUNT && event.kind == EventKind::Deleted,
        _ => name == AUTHORITY && event.kind != EventKind::Created,
    };
    is_ours.then_some(namespace)
}

/// Makes what a Namespace lacks, unless it is ending.
async fn ensure(resources: &Resources, namespace: &str) {
    let is_there = namespace_kind().is_ok_and(|kind| {
        let entry = resources.store.index().get(&kind.store_key("", namespace));
        entry.is_some_and(|entry| {
            serde_json::from_slice::<api::object::Namespace>(&entry.value)
                .is_ok_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
        })
    });
    if !is_there {
        return;
    }
    let ensured = async {
        for (kind, object) in furnishings(namespace, &resources.authority)? {
            restore(resources, kind, namespace, object).await?;
        }
        Ok::<(), Failure>(())
    };
    if let Err(failure) = ensured.await {
        tracing::warn!(
            namespace,
            error = failure.message(),
            "what every namespace has could not be made"
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
    let restored = decided(target, || async move {
        let Some(stored) = resources.stored(target).await? else {
            resources
                .create_object(target, object.clone(), Vec::new(), Intent::SERVER)
                .await?;
            return Ok(());
        };
        let wanted = child(object, "data");
        if wanted.is_null() || child(&stored.object, "data") == wanted {
            return Ok(());
        }
        let mut changed = stored.object.clone();
        set(&mut changed, "data", wanted.clone());
        resources
            .replace(target, stored, changed, Vec::new(), Intent::SERVER)
            .await
            .map(drop)
    })
    .await;
    match restored {
        // Somebody else made it, or the Namespace has begun to end.
        Err(failure) if matches!(failure.reason(), "AlreadyExists" | "Forbidden" | "NotFound") => Ok(()),
        other => other,
    }
}

fn furnishings(namespace: &str, authority: &str) -> Result<[Furnishing; 2], Failure> {
    let find = |plural| kind::find("", "v1", plural).ok_or_else(Failure::no_such_path);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": namespace}});
    let about = "The authority that signed the API server's certificate, for clients in the cluster.";
    let authority = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": AUTHORITY, "namespace": namespace,
                     "annotations": {"kubernetes.io/description": about}},
        "data": {AUTHORITY_FILE: authority}});
    Ok([
        (find("serviceaccounts")?, account),
        (find("configmaps")?, authority),
    ])
}
