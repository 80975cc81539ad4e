//! The verb `create` of resources.

use api::decode::Format;
use api::kind::Kind;
use api::metadata::drop_duplicate_owners;
use api::tree::{child, text};
use serde_json::Value;
use store::{Expectation, Transaction, Write};

use super::{
    Outcome, Ownership, Resources, Strategy, WriteContext, WriteError, add_warnings, decode_body, encode,
    encode_at_revision, ensure_namespace, new_object, render, retry_on_conflict, set_records, within_limit,
};
use crate::failure::Failure;
use crate::registry::admission::WriteAttempt;
use crate::registry::namespace;
use crate::registry::service::Allocation;
use crate::request::query::WriteOptions;
use crate::request::route::Target;

impl Resources {
    /// Creates the object in a request body.
    pub(crate) async fn create(
        &self,
        target: &Target,
        body: &[u8],
        format: Format,
        options: WriteOptions<'_>,
    ) -> Result<Outcome, Failure> {
        let create = || async move {
            let (object, warnings) = decode_body(body, format, target.kind, options.field_validation)?;
            let ownership = Ownership::Updated(options.manager);
            let context = WriteContext {
                refuses_version: gives_version(&object),
                ..WriteContext::of(&options, ownership)
            };
            self.create_object(target, object, warnings, context).await
        };
        match retry_on_conflict(target, create).await {
            // Another server may have changed the state that the refusal depends on.
            Err(failure) if self.store.is_shared() && failure.code().is_client_error() => {
                self.catch_up().await?;
                retry_on_conflict(target, create).await
            }
            outcome => outcome,
        }
    }

    /// Creates an object in the namespace of `target`, under the name in its metadata. The result has `warnings`
    /// and those of the creation.
    pub(crate) async fn create_object(
        &self,
        target: &Target,
        object: Value,
        mut warnings: Vec<String>,
        context: WriteContext<'_>,
    ) -> Result<Outcome, WriteError> {
        let created = self.try_create(target, object, &mut warnings, context).await;
        add_warnings(created, warnings)
    }

    /// Creates the object in one attempt.
    async fn try_create(
        &self,
        target: &Target,
        mut object: Value,
        warnings: &mut Vec<String>,
        context: WriteContext<'_>,
    ) -> Result<Outcome, WriteError> {
        let (kind, ownership, dry_run) = (target.kind, context.ownership, context.dry_run);
        ensure_namespace(&mut object, target)?;
        let is_name_generated = name_of(&object).is_empty();
        let given_records = Ownership::take(&mut object);
        new_object::set_server_metadata(&mut object, kind);
        let guard = namespace::guard_create(self.store.index(), target, &object)?;

        let strategy = Strategy::of(kind);
        (strategy.default_on_write)(&mut object);
        warnings.extend(drop_duplicate_owners(&mut object));
        let records = ownership.records_of_new(&object, given_records, target);
        let attempt = WriteAttempt::create(target, context.requester).recorded(context.recorder);
        self.admission.admit(self.store.index(), attempt, &mut object)?;
        let allocation = if strategy.allocates {
            Some(self.allocate(kind, &mut object, dry_run)?)
        } else {
            None
        };
        (strategy.prepare_create)(&mut object);
        let errors = (strategy.validate)(&object);
        if !errors.is_empty() {
            // As upstream: the error names the stored kind, the core Event for one of `events.k8s.io`.
            return Err(Failure::invalid(kind.stored(), name_of(&object), &errors).into());
        }
        warnings.extend((strategy.creation_warnings)(&object));
        warnings.extend((strategy.warnings)(&object));
        warnings.extend(self.admission.validate(self.store.index(), attempt, &object)?);
        (strategy.default_on_read)(&mut object, self.services.families().primary);
        set_records(&mut object, records);

        let name = name_of(&object);
        let key = kind.store_key(target.namespace(), name);
        if context.refuses_version && !dry_run {
            return Err(Failure::version_on_create().into());
        }
        if self.store.index().get(&key).is_some() {
            let can_retry = is_name_generated || ownership == Ownership::Applied;
            return Err(existing_object(kind, name, can_retry));
        }
        if dry_run {
            return Ok(Outcome::created(render(&object)));
        }
        let value = within_limit(encode(&object))?;
        let mut transaction = Transaction {
            expectations: vec![(key.as_str().into(), Expectation::Absent)],
            writes: vec![Write::Put(key.into(), value.clone())],
        };
        transaction.expectations.extend(guard);
        self.add_default_objects(target, &object, &mut transaction)?;
        let revision = self.commit_allocated(transaction, allocation).await?;
        (strategy.after_commit)(&self.services, name, Some(&object));
        Ok(Outcome::created(encode_at_revision(&value, revision)?))
    }

    /// Reserves the addresses and ports of a new Service.
    fn allocate(&self, kind: &Kind, object: &mut Value, dry_run: bool) -> Result<Allocation, Failure> {
        let allocated = self.services.create(self.store.index(), object, dry_run);
        allocated.map_err(|failure| Failure::of_allocation(failure, kind, name_of(object)))
    }
}

/// Returns the error of a create whose name an object has already. A retry generates another name, or applies the
/// configuration to that object.
fn existing_object(kind: &Kind, name: &str, can_retry: bool) -> WriteError {
    if can_retry {
        WriteError::Conflict
    } else {
        Failure::already_exists(kind, name).into()
    }
}

fn name_of(object: &Value) -> &str {
    text(child(object, "metadata"), "name")
}

/// Returns true if the client gives a new object a `resourceVersion`. As upstream, text that is not a number counts as
/// none.
fn gives_version(object: &Value) -> bool {
    let version = text(child(object, "metadata"), "resourceVersion");
    version.parse::<u64>().is_ok_and(|version| version != 0)
}
