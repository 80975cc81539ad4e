//! Implements `update` of objects and their subresources.

use api::apply::is_same_except_times;
use api::decode::Format;
use api::kind::{EPHEMERAL_CONTAINERS, SCALE};
use api::metadata::drop_duplicate_owners;
use api::tree::{child, clear, is_set, items, number, object_mut, omit_zero, set_or_clear, text};
use http::StatusCode;
use serde_json::Value;
use store::{Expectation, Transaction, Write};

use super::{
    Outcome, Ownership, Resources, StoredObject, Strategy, WriteContext, WriteError, add_warnings,
    decode_body, encode, encode_at_revision, ensure_name, ensure_namespace, metadata_mut, render,
    retry_on_conflict, scale, set_records, within_limit,
};
use crate::failure::Failure;
use crate::registry::admission::WriteAttempt;
use crate::registry::service::Allocation;
use crate::request::query::{WriteOptions, parse_version};
use crate::request::route::Target;

impl Resources {
    /// Replaces an object by that of a request body. Creates it if the kind allows creation on update (API-06).
    pub(crate) async fn update(
        &self,
        target: &Target,
        body: &[u8],
        format: Format,
        options: WriteOptions<'_>,
    ) -> Result<Outcome, Failure> {
        retry_on_conflict(target, || async move {
            let kind = target.sent_kind();
            let (object, warnings) = decode_body(body, format, kind, options.field_validation)?;
            let context = WriteContext::of(&options, Ownership::Updated(options.manager));
            add_warnings(self.replace_or_create(target, object, context).await, warnings)
        })
        .await
    }

    async fn replace_or_create(
        &self,
        target: &Target,
        mut object: Value,
        context: WriteContext<'_>,
    ) -> Result<Outcome, WriteError> {
        ensure_name(&object, target)?;
        ensure_namespace(&mut object, target)?;
        match self.stored(target).await? {
            Some(stored) => {
                check_uid(target, Some(&stored), &object)?;
                let object = scale::from_representation(object, &stored.object, target)?;
                self.replace(target, stored, object, Vec::new(), context).await
            }
            None if target.kind.create_on_update && target.subresource.is_none() => {
                check_uid(target, None, &object)?;
                self.admission.admit_creation(target, context.requester)?;
                self.create_object(target, object, Vec::new(), context).await
            }
            None => Err(Failure::not_found(target.kind, target.name()).into()),
        }
    }

    /// Replaces a stored object by a new version. The result has `warnings` and those of the update.
    pub(crate) async fn replace(
        &self,
        target: &Target,
        stored: StoredObject,
        new: Value,
        mut warnings: Vec<String>,
        context: WriteContext<'_>,
    ) -> Result<Outcome, WriteError> {
        let replaced = self
            .try_replace(target, stored, new, &mut warnings, context)
            .await;
        add_warnings(replaced, warnings)
    }

    /// Replaces the stored object in one attempt.
    async fn try_replace(
        &self,
        target: &Target,
        stored: StoredObject,
        mut new: Value,
        warnings: &mut Vec<String>,
        context: WriteContext<'_>,
    ) -> Result<Outcome, WriteError> {
        let (kind, name) = (target.kind, target.name());
        let (ownership, dry_run) = (context.ownership, context.dry_run);
        let old = &stored.object;
        check_version(target, &stored, &new)?;
        let given_records = Ownership::take(&mut new);
        carry_over(&mut new, old);
        let strategy = Strategy::of(kind);
        (strategy.default_on_write)(&mut new);
        warnings.extend(drop_duplicate_owners(&mut new));
        let records = ownership.records_of_changed(&new, old, given_records, target);
        let attempt = WriteAttempt::update(target, context.requester, old).recorded(context.recorder);
        self.admission.admit(self.store.index(), attempt, &mut new)?;
        let allocation = self.prepare(target, old, &mut new, dry_run)?;
        warnings.extend(match target.subresource {
            // As upstream: a scale is a change of the object, with the warnings about it.
            None | Some(SCALE) => [(strategy.warnings)(&new), (strategy.update_warnings)(&new, old)].concat(),
            Some("status") => (strategy.status_warnings)(&new),
            Some(_) => Vec::new(),
        });
        warnings.extend(self.admission.validate(self.store.index(), attempt, &new)?);
        (strategy.default_on_read)(&mut new, self.services.families().primary);
        set_records(&mut new, records);
        // As upstream: an unchanged object is written if its stored form is outdated, to encrypt it with the
        // current key.
        if is_same_except_times(&new, old) && !self.is_stored_stale(&stored.entry.key) {
            return Ok(Outcome::ok(stored.entry.value));
        }
        if !dry_run {
            self.count_rewrite(target, context.requester, stored.entry.value.len())?;
        }
        if is_finished(&new) {
            return self.finish(target, &stored, new, dry_run).await;
        }
        if dry_run {
            return Ok(Outcome::ok(render(&new)));
        }
        let value = within_limit(encode(&new))?;
        let transaction = Transaction {
            expectations: vec![(stored.entry.key.clone(), Expectation::At(stored.entry.modified))],
            writes: vec![Write::Put(stored.entry.key, value.clone())],
        };
        let revision = self.commit_allocated(transaction, allocation).await?;
        (strategy.after_commit)(&self.services, name, Some(&new));
        Ok(Outcome::ok(encode_at_revision(&value, revision)?))
    }

    /// Restores fields that the path may not change, reserves allocations, and validates the new object.
    fn prepare(
        &self,
        target: &Target,
        old: &Value,
        new: &mut Value,
        dry_run: bool,
    ) -> Result<Option<Allocation>, Failure> {
        let (kind, strategy) = (target.kind, Strategy::of(target.kind));
        let mut allocation = None;
        let errors = match target.subresource {
            // A scale is written as a change of the object itself.
            None | Some(SCALE) => {
                if strategy.allocates {
                    let allocated = self.services.update(self.store.index(), old, new, dry_run);
                    let failed = |failure| Failure::of_allocation(failure, kind, target.name());
                    allocation = Some(allocated.map_err(failed)?);
                }
                (strategy.prepare_update)(new, old);
                (strategy.validate_update)(new, old)
            }
            Some("finalize") => {
                prepare_finalize(new, old);
                (strategy.validate_update)(new, old)
            }
            Some("approval") => {
                (strategy.prepare_approval_update)(new, old);
                (strategy.validate_approval_update)(new, old)
            }
            Some(EPHEMERAL_CONTAINERS) => {
                (strategy.prepare_ephemeral_containers_update)(new, old);
                (strategy.validate_ephemeral_containers_update)(new, old)
            }
            Some(_) => {
                (strategy.prepare_status_update)(new, old);
                (strategy.validate_status_update)(new, old)
            }
        };
        if errors.is_empty() {
            Ok(allocation)
        } else {
            Err(Failure::invalid(kind.stored(), target.name(), &errors))
        }
    }

    /// Removes an object whose last finalizer was removed; returns it as it would have been stored.
    async fn finish(
        &self,
        target: &Target,
        stored: &StoredObject,
        new: Value,
        dry_run: bool,
    ) -> Result<Outcome, WriteError> {
        let object = render(&new);
        if !dry_run {
            self.remove(target, stored, &new).await?;
        }
        Ok(Outcome::ok(object))
    }
}

/// Checks the `resourceVersion` of a new object against the stored one.
fn check_version(target: &Target, stored: &StoredObject, new: &Value) -> Result<(), Failure> {
    let (kind, name) = (target.kind, target.name());
    let version = text(child(new, "metadata"), "resourceVersion");
    if version.is_empty() || version == "0" {
        if !kind.unconditional_update {
            let path = api::field::Path::new("metadata").child("resourceVersion");
            let error = api::field::FieldError::invalid(&path, 0, "must be specified for an update");
            // As upstream, this error has the resource in the place of the kind.
            return Err(Failure::invalid_options(
                kind.group,
                kind.plural,
                name,
                &vec![error],
            ));
        }
        return Ok(());
    }
    // As upstream.
    let invalid = |fault: String| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", fault);
    if parse_version(version).map_err(invalid)? != stored.entry.modified {
        return Err(Failure::modified(kind, name));
    }
    Ok(())
}

/// Checks the UID of a request body against the stored object, which may be missing. The UID of a PUT is a precondition;
/// for a patch it is an immutable field, which validation checks.
fn check_uid(target: &Target, stored: Option<&StoredObject>, new: &Value) -> Result<(), Failure> {
    let given = text(child(new, "metadata"), "uid");
    let current = stored.map_or("", |stored| text(stored.metadata(), "uid"));
    if given.is_empty() || given == current {
        return Ok(());
    }
    let message = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {current}");
    Err(Failure::conflict(target.kind, target.name(), &message))
}

/// Copies metadata that an update cannot change, or may omit, from the stored object.
fn carry_over(new: &mut Value, old: &Value) {
    let before = child(old, "metadata");
    let metadata = metadata_mut(new);
    for field in ["resourceVersion", "creationTimestamp", "generation"] {
        set_or_clear(metadata, field, before.get(field).cloned());
    }
    if text(metadata, "uid").is_empty() {
        set_or_clear(metadata, "uid", before.get("uid").cloned());
    }
    if is_set(before, "deletionTimestamp") {
        set_or_clear(
            metadata,
            "deletionTimestamp",
            before.get("deletionTimestamp").cloned(),
        );
    }
    if !is_set(metadata, "deletionGracePeriodSeconds") {
        set_or_clear(
            metadata,
            "deletionGracePeriodSeconds",
            before.get("deletionGracePeriodSeconds").cloned(),
        );
    }
    clear(metadata, "selfLink");
}

/// Restores the status, which `finalize` of a Namespace does not change. As upstream, it changes metadata and finalizers.
fn prepare_finalize(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    object_mut(new, "spec");
    if let Some(spec) = new.get_mut("spec") {
        omit_zero(spec, &["finalizers"]);
    }
}

/// Returns true if a deleted object has neither finalizers nor a grace period left.
fn is_finished(object: &Value) -> bool {
    let metadata = child(object, "metadata");
    is_set(metadata, "deletionTimestamp")
        && number(metadata, "deletionGracePeriodSeconds") == 0
        && items(metadata, "finalizers").is_empty()
        && items(child(object, "spec"), "finalizers").is_empty()
}
