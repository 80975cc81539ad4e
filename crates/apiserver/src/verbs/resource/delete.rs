//! Implements `delete`: removes an object, or marks it while finalizers or a grace period remain.

use api::tree::text;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use store::{Expectation, Revision, Transaction, Write};

use super::delete_rules::{Decision, decide, removed_state};
use super::{
    Outcome, Resources, StoredObject, Strategy, WriteError, encode, encode_at_revision, render,
    retry_on_conflict,
};
use crate::failure::Failure;
use crate::registry::namespace;
use crate::request::query::DeleteOptions;
use crate::request::route::Target;

/// Warning about a delete of a Job without a propagation policy.
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
     remove them or set propagationPolicy=Orphan to suppress this warning";

/// The result of a deletion.
pub(crate) struct DeletionResult {
    /// The object: its last state, or its state with the deletion mark.
    pub(crate) object: Bytes,
    /// True if the object was removed from the store.
    pub(crate) is_gone: bool,
    uid: String,
}

impl Resources {
    /// Deletes an object. The response is the object if it still exists or if the kind requires it (API-09),
    /// otherwise a `Status`.
    pub(crate) async fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Outcome, Failure> {
        namespace::guard_delete(target)?;
        let deleted = self.delete_object(target, options).await?;
        let is_status = deleted.is_gone && !target.kind.delete_returns_object;
        let object = if is_status {
            render(&success(target, &deleted.uid))
        } else {
            deleted.object
        };
        let code = if options.is_old_cascade && !deleted.is_gone {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        Ok(Outcome {
            code,
            object,
            is_status,
            warnings: deletion_warnings(target, options),
        })
    }

    /// Deletes an object without building a response.
    pub(crate) async fn delete_object(
        &self,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<DeletionResult, Failure> {
        retry_on_conflict(target, || async move {
            let stored = self
                .stored(target)
                .await?
                .ok_or_else(|| Failure::not_found(target.kind, target.name()))?;
            check_preconditions(target, &stored, options)?;
            self.delete_stored(target, stored, options).await
        })
        .await
    }

    /// Deletes the stored object in one attempt.
    async fn delete_stored(
        &self,
        target: &Target,
        stored: StoredObject,
        options: &DeleteOptions,
    ) -> Result<DeletionResult, WriteError> {
        let uid = text(stored.metadata(), "uid").to_owned();
        match decide(target.kind, &stored.object, options) {
            Decision::Pending => Ok(DeletionResult {
                object: stored.entry.value,
                is_gone: false,
                uid,
            }),
            Decision::Mark(marked) if options.dry_run => Ok(DeletionResult {
                object: render(&marked),
                is_gone: false,
                uid,
            }),
            Decision::Mark(marked) => {
                let value = encode(&marked);
                let transaction = Transaction {
                    expectations: vec![(stored.entry.key.clone(), Expectation::At(stored.entry.modified))],
                    writes: vec![Write::Put(stored.entry.key, value.clone())],
                };
                let revision = self.commit(transaction).await?;
                (Strategy::of(target.kind).after_commit)(&self.services, target.name(), Some(&marked));
                Ok(DeletionResult {
                    object: encode_at_revision(&value, revision)?,
                    is_gone: false,
                    uid,
                })
            }
            Decision::Remove if options.dry_run => Ok(DeletionResult {
                object: removed_state(target.kind, &stored.object)
                    .map_or(stored.entry.value, |state| render(&state)),
                is_gone: true,
                uid,
            }),
            Decision::Remove => {
                let state = removed_state(target.kind, &stored.object);
                let last = state.as_ref().unwrap_or(&stored.object);
                let (last, revision) = self.remove_stored(target, &stored, last).await?;
                Ok(DeletionResult {
                    object: encode_at_revision(&last, revision)?,
                    is_gone: true,
                    uid,
                })
            }
        }
    }

    /// Removes an object that has not changed since `version`, whatever finalizers it has, as etcd does when a lease
    /// ends.
    pub(crate) async fn expire(&self, target: &Target, version: Revision) -> Result<(), Failure> {
        let stored = self.stored(target).await?;
        let Some(stored) = stored.filter(|stored| stored.entry.modified == version) else {
            return Ok(());
        };
        match self.remove(target, &stored, &stored.object).await {
            Ok(_) | Err(WriteError::Conflict) => Ok(()),
            Err(WriteError::Failed(failure)) => Err(failure),
        }
    }

    /// Removes an object from the store and releases its allocations. Returns its last state with the revision of
    /// the removal.
    pub(super) async fn remove(
        &self,
        target: &Target,
        stored: &StoredObject,
        last: &Value,
    ) -> Result<Bytes, WriteError> {
        let (value, revision) = self.remove_stored(target, stored, last).await?;
        Ok(encode_at_revision(&value, revision)?)
    }

    /// Removes an object. Returns its last state and the revision of the removal.
    async fn remove_stored(
        &self,
        target: &Target,
        stored: &StoredObject,
        last: &Value,
    ) -> Result<(store::Value, Revision), WriteError> {
        let strategy = Strategy::of(target.kind);
        let allocation = if strategy.allocates {
            Some(self.services.delete(self.store.index(), &stored.object, false))
        } else {
            None
        };
        let value = encode(last);
        let transaction = Transaction {
            expectations: vec![(stored.entry.key.clone(), Expectation::At(stored.entry.modified))],
            writes: vec![Write::Delete {
                key: stored.entry.key.clone(),
                last: Some(value.clone()),
            }],
        };
        let revision = self.commit_allocated(transaction, allocation).await?;
        (strategy.after_commit)(&self.services, target.name(), None);
        Ok((value, revision))
    }
}

/// Returns the warning about Jobs whose Pods stay, also for a collection (upstream's `batch/job/storage`).
pub(crate) fn deletion_warnings(target: &Target, options: &DeleteOptions) -> Vec<String> {
    let is_given = options.propagation.is_some() || options.is_old_cascade;
    if target.kind.kind != "Job" || is_given {
        return Vec::new();
    }
    vec![JOB_WARNING.to_owned()]
}

fn check_preconditions(
    target: &Target,
    stored: &StoredObject,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let metadata = stored.metadata();
    for (field, expected, found) in [
        ("UID", &options.uid, text(metadata, "uid").to_owned()),
        (
            "ResourceVersion",
            &options.resource_version,
            stored.entry.modified.to_string(),
        ),
    ] {
        if let Some(expected) = expected
            && *expected != found
        {
            let message = format!(
                "the {field} in the precondition ({expected}) does not match the {field} in record ({found}). \
                 The object might have been deleted and then recreated"
            );
            return Err(Failure::precondition(target.kind, target.name(), &message));
        }
    }
    Ok(())
}

/// Returns the `Status` of a successful deletion.
fn success(target: &Target, uid: &str) -> Value {
    let mut details = json!({ "name": target.name() });
    if !target.kind.group.is_empty() {
        details["group"] = target.kind.group.into();
    }
    details["kind"] = target.kind.plural.into();
    details["uid"] = uid.into();
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
