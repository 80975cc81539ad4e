//! Reads and writes of an owner and its objects.

use api::object::{ObjectMeta, Resource};
use client::{Client, ClientError, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::api_requests::{ObjectList, decode, list, path_of, read};
use crate::owned_objects::{OwnerChange, read_selector};

/// The state of an owner and its objects in responses of the server.
#[derive(Debug)]
pub(crate) struct ServerState<O, T> {
    /// The owner, if it was read or written.
    pub(crate) owner: Option<Box<O>>,
    /// True if the owner is deleted.
    pub(crate) is_deleted: bool,
    /// All objects that match its selector, if they were read.
    pub(crate) listed: Option<ObjectList<T>>,
    /// Objects that were written.
    pub(crate) objects: Vec<T>,
    /// Objects that are deleted.
    pub(crate) deleted: Vec<ObjectMeta>,
}

impl<O, T> Default for ServerState<O, T> {
    fn default() -> Self {
        Self {
            owner: None,
            is_deleted: false,
            listed: None,
            objects: Vec::new(),
            deleted: Vec::new(),
        }
    }
}

/// Reads an owner and the objects that match its selector; `None` if the owner is deleted.
pub(crate) async fn read_current<O: Resource, T: Resource>(
    client: &Client,
    owner: &O,
    selector_of: fn(&O) -> &Value,
) -> Result<Option<(O, ObjectList<T>)>, ClientError> {
    let meta = owner.metadata();
    let now = read::<O>(client, &meta.key()).await?;
    let Some(now) = now.filter(|now| now.metadata().uid == meta.uid) else {
        return Ok(None);
    };
    let selector = read_selector(selector_of(&now)).map(|selector| selector.to_string());
    let objects = list::<T>(client, &meta.namespace, &selector.unwrap_or_default()).await?;
    Ok(Some((now, objects)))
}

/// Writes adoptions and releases by `owner`. Before an adoption it verifies that the owner exists and is not being
/// deleted. A write by another client since an object was read is a conflict.
pub(crate) async fn write_owner_changes<O: Resource, T: Resource>(
    client: &Client,
    owner: &O,
    changes: Vec<OwnerChange>,
) -> Result<ServerState<O, T>, ClientError> {
    let mut state = ServerState::default();
    if changes.iter().any(|change| change.is_adoption) {
        let meta = owner.metadata();
        let now = read::<O>(client, &meta.key()).await?;
        let now = now.filter(|now| now.metadata().uid == meta.uid);
        let is_ending = |now: &O| now.metadata().deletion_timestamp.is_some();
        state.is_deleted = now.is_none();
        state.owner = now.filter(is_ending).map(Box::new);
        if state.is_deleted || state.owner.is_some() {
            return Ok(state);
        }
    }
    for change in changes {
        match write_owner_change(client, &change).await? {
            Some(object) => state.objects.push(object),
            None => state.deleted.push(change.meta),
        }
    }
    Ok(state)
}

/// Writes an adoption or a release; returns the object after the write, `None` if it is deleted.
async fn write_owner_change<T: Resource>(
    client: &Client,
    change: &OwnerChange,
) -> Result<Option<T>, ClientError> {
    let OwnerChange {
        meta,
        owners,
        finalizers,
        ..
    } = change;
    let path = path_of::<T>(&meta.key());
    let owners = if owners.is_empty() {
        Value::Null
    } else {
        json!(owners)
    };
    let mut patch = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "ownerReferences": owners,
    }});
    if let Some(finalizers) = finalizers {
        // A merge patch removes the field with null.
        patch["metadata"]["finalizers"] = if finalizers.is_empty() {
            Value::Null
        } else {
            json!(finalizers)
        };
    }
    match client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
    {
        Ok(response) => decode(path, response).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
