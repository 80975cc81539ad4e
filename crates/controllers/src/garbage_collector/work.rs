//! Collection of a candidate: reads of the object and its owners, the decision, and its writes.

use std::collections::{BTreeSet, HashMap, HashSet};

use api::object::{ObjectMeta, OwnerReference};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::decide::{Decision, OwnerState, Propagation, decide};
use super::graph::{Candidate, Dependent, ORPHAN, Phase};
use super::kinds::ObjectLocation;

/// Reads a candidate and its owners, and executes the decision.
pub(super) async fn collect(
    client: &Client,
    location: &ObjectLocation,
    candidate: &Candidate,
) -> Result<(), ClientError> {
    let Some(mut meta) = read(client, location)
        .await?
        .filter(|meta| meta.uid == candidate.uid)
    else {
        // The object is deleted or replaced; the watch will report it.
        return Ok(());
    };
    let mut found = FoundOwners::new();
    for owner in owners_to_read(location, candidate, &meta.owner_references) {
        if let Some(meta) = read(client, &owner).await? {
            let phase = Phase::of(&meta);
            found.insert(owner, (meta.uid, phase));
        }
    }
    let owners = meta.owner_references.iter();
    let owner_states: Vec<OwnerState> = owners
        .map(|owner| owner_state(location, candidate, &found, owner))
        .collect();
    let decision = decide(&meta, &owner_states, &candidate.dependents);
    if decision != Decision::Leave {
        tracing::debug!(kind = ?location.kind, object = %location.key, ?decision, "garbage collection decided");
    }
    match decision {
        Decision::Leave => Ok(()),
        Decision::RemoveFinalizer(finalizer) => remove_finalizer(client, location, &meta, finalizer).await,
        Decision::Orphan => {
            for Dependent { location, .. } in &candidate.dependents {
                remove_reference_of(client, location, &meta.uid).await?;
            }
            remove_finalizer(client, location, &meta, ORPHAN).await
        }
        Decision::RemoveReferences(uids) => remove_references(client, location, &meta, &uids).await,
        Decision::Delete {
            propagation,
            unblocks,
        } => {
            if unblocks {
                unblock(client, location, &mut meta).await?;
            }
            delete(client, location, &meta, propagation).await
        }
    }
}

/// UIDs and phases of the owners that exist.
type FoundOwners = HashMap<ObjectLocation, (String, Phase)>;

/// Returns the locations of the owners that the graph does not mark as solid. Each is read once: an object can name one
/// location under thousands of UIDs.
fn owners_to_read(
    location: &ObjectLocation,
    candidate: &Candidate,
    owners: &[OwnerReference],
) -> BTreeSet<ObjectLocation> {
    let unknown = owners
        .iter()
        .filter(|owner| !candidate.solid_owners.contains(&owner.uid));
    unknown.filter_map(|owner| location.of_owner(owner)).collect()
}

/// Returns the state of an owner.
fn owner_state(
    location: &ObjectLocation,
    candidate: &Candidate,
    found: &FoundOwners,
    owner: &OwnerReference,
) -> OwnerState {
    let Some(owner_location) = location.of_owner(owner) else {
        return OwnerState::Solid;
    };
    if candidate.solid_owners.contains(&owner.uid) {
        return OwnerState::Solid;
    }
    match found.get(&owner_location).filter(|(uid, _)| *uid == owner.uid) {
        None => OwnerState::Dangling,
        Some((_, Phase::Foreground)) => OwnerState::Waiting,
        Some(_) => OwnerState::Solid,
    }
}

/// Reads the metadata of the object at a location.
async fn read(client: &Client, location: &ObjectLocation) -> Result<Option<ObjectMeta>, ClientError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: ObjectMeta,
    }
    match client.get::<Object>(&location.path()).await {
        Ok(object) => Ok(Some(object.metadata)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn remove_finalizer(
    client: &Client,
    location: &ObjectLocation,
    meta: &ObjectMeta,
    finalizer: &str,
) -> Result<(), ClientError> {
    let others: Vec<&String> = meta.finalizers.iter().filter(|name| *name != finalizer).collect();
    patch(client, location, meta, "finalizers", json!(others)).await?;
    Ok(())
}

async fn remove_reference_of(
    client: &Client,
    location: &ObjectLocation,
    uid: &str,
) -> Result<(), ClientError> {
    match read(client, location).await? {
        Some(meta) if meta.owner_references.iter().any(|owner| owner.uid == uid) => {
            remove_references(client, location, &meta, &[uid.to_owned()]).await
        }
        _ => Ok(()),
    }
}

async fn remove_references(
    client: &Client,
    location: &ObjectLocation,
    meta: &ObjectMeta,
    uids: &[String],
) -> Result<(), ClientError> {
    let lost: HashSet<&String> = uids.iter().collect();
    let owners = meta.owner_references.iter();
    let kept: Vec<&OwnerReference> = owners.filter(|owner| !lost.contains(&owner.uid)).collect();
    patch(client, location, meta, "ownerReferences", json!(kept)).await?;
    Ok(())
}

/// Clears `blockOwnerDeletion`. It updates the resourceVersion in `meta`, so that the next write does not
/// conflict.
async fn unblock(
    client: &Client,
    location: &ObjectLocation,
    meta: &mut ObjectMeta,
) -> Result<(), ClientError> {
    for owner in &mut meta.owner_references {
        owner.block_owner_deletion = Some(false);
    }
    let owners = json!(meta.owner_references);
    if let Some(version) = patch(client, location, meta, "ownerReferences", owners).await? {
        meta.resource_version = version;
    }
    Ok(())
}

/// Patches a field of the metadata, unless another client has written the object since. Returns the new
/// resourceVersion, `None` if the object is deleted.
async fn patch(
    client: &Client,
    location: &ObjectLocation,
    meta: &ObjectMeta,
    field: &str,
    value: Value,
) -> Result<Option<String>, ClientError> {
    let mut body = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}});
    body["metadata"][field] = value;
    match client
        .request(Method::PATCH, &location.path(), MERGE_PATCH, Some(&body))
        .await
    {
        Ok(response) => Ok(response["metadata"]["resourceVersion"]
            .as_str()
            .map(str::to_owned)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the object, unless another client has written it since.
async fn delete(
    client: &Client,
    location: &ObjectLocation,
    meta: &ObjectMeta,
    propagation: Propagation,
) -> Result<(), ClientError> {
    let options = json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "propagationPolicy": propagation.name(),
    });
    match client
        .request(Method::DELETE, &location.path(), JSON, Some(&options))
        .await
    {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
