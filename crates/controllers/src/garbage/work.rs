//! What is done about a place: the object and its doubtful owners are read live, judged, and written.

use api::object::{ObjectMeta, OwnerReference};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::graph::{Case, Dependent, ORPHAN, Phase};
use super::judge::{Propagation, Standing, Verdict, judge};
use super::kinds::Place;

/// Looks at an object and does what is due.
pub(super) async fn look(client: &Client, place: &Place, case: &Case) -> Result<(), ClientError> {
    let Some(mut meta) = read(client, place).await?.filter(|meta| meta.uid == case.uid) else {
        // Gone or another by now, of which the watch will tell.
        return Ok(());
    };
    let mut standings = Vec::with_capacity(meta.owner_references.len());
    for owner in &meta.owner_references {
        standings.push(standing(client, place, case, owner).await?);
    }
    let verdict = judge(&meta, &standings, &case.dependents);
    if verdict != Verdict::Leave {
        tracing::debug!(kind = ?place.kind, object = %place.key, ?verdict, "collecting");
    }
    match verdict {
        Verdict::Leave => Ok(()),
        Verdict::Release(finalizer) => release(client, place, &meta, finalizer).await,
        Verdict::Orphan => {
            for Dependent { place, .. } in &case.dependents {
                disown_live(client, place, &meta.uid).await?;
            }
            release(client, place, &meta, ORPHAN).await
        }
        Verdict::Disown(uids) => disown(client, place, &meta, &uids).await,
        Verdict::Delete {
            propagation,
            unblocks,
        } => {
            if unblocks {
                unblock(client, place, &mut meta).await?;
            }
            delete(client, place, &meta, propagation).await
        }
    }
}

/// What an owner is to the object; asked of the server unless it is known to be there.
async fn standing(
    client: &Client,
    place: &Place,
    case: &Case,
    owner: &OwnerReference,
) -> Result<Standing, ClientError> {
    let Some(owner_place) = place.of_owner(owner) else {
        return Ok(Standing::Solid);
    };
    if case.solid_owners.contains(&owner.uid) {
        return Ok(Standing::Solid);
    }
    let found = read(client, &owner_place).await?;
    Ok(match found.filter(|meta| meta.uid == owner.uid) {
        None => Standing::Dangling,
        Some(meta) if Phase::of(&meta) == Phase::Foreground => Standing::Waiting,
        Some(_) => Standing::Solid,
    })
}

/// The metadata of the object at a place, if there is one.
async fn read(client: &Client, place: &Place) -> Result<Option<ObjectMeta>, ClientError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: ObjectMeta,
    }
    match client.get::<Object>(&place.path()).await {
        Ok(object) => Ok(Some(object.metadata)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn release(
    client: &Client,
    place: &Place,
    meta: &ObjectMeta,
    finalizer: &str,
) -> Result<(), ClientError> {
    let others: Vec<&String> = meta.finalizers.iter().filter(|name| *name != finalizer).collect();
    patch(client, place, meta, "finalizers", json!(others)).await?;
    Ok(())
}

async fn disown_live(client: &Client, place: &Place, uid: &str) -> Result<(), ClientError> {
    match read(client, place).await? {
        Some(meta) if meta.owner_references.iter().any(|owner| owner.uid == uid) => {
            disown(client, place, &meta, &[uid.to_owned()]).await
        }
        _ => Ok(()),
    }
}

async fn disown(
    client: &Client,
    place: &Place,
    meta: &ObjectMeta,
    uids: &[String],
) -> Result<(), ClientError> {
    let owners = meta.owner_references.iter();
    let kept: Vec<&OwnerReference> = owners.filter(|owner| !uids.contains(&owner.uid)).collect();
    patch(client, place, meta, "ownerReferences", json!(kept)).await?;
    Ok(())
}

/// Makes no owner wait for the object; `meta` follows, so that the next write is not a conflict.
async fn unblock(client: &Client, place: &Place, meta: &mut ObjectMeta) -> Result<(), ClientError> {
    for owner in &mut meta.owner_references {
        owner.block_owner_deletion = Some(false);
    }
    let owners = json!(meta.owner_references);
    if let Some(version) = patch(client, place, meta, "ownerReferences", owners).await? {
        meta.resource_version = version;
    }
    Ok(())
}

/// Writes a field of the metadata, if nobody wrote the object since it was read; returns its new
/// resourceVersion. An object that is gone needs no write.
async fn patch(
    client: &Client,
    place: &Place,
    meta: &ObjectMeta,
    field: &str,
    value: Value,
) -> Result<Option<String>, ClientError> {
    let mut body = json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}});
    body["metadata"][field] = value;
    match client
        .request(Method::PATCH, &place.path(), MERGE_PATCH, Some(&body))
        .await
    {
        Ok(answer) => Ok(answer["metadata"]["resourceVersion"].as_str().map(str::to_owned)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the object, if nobody wrote it since it was read.
async fn delete(
    client: &Client,
    place: &Place,
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
        .request(Method::DELETE, &place.path(), JSON, Some(&options))
        .await
    {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
