//! Server-side apply and the managed fields that it depends on.

use api::apply::{ApplyError, WriteAuthor, apply, read_configuration, record_creation, record_update};
use api::decode::{DecodeError, Format, conform, convert_numbers, decode};
use api::tree::{child, set_or_clear, text};
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Outcome, Resources, WriteContext, ensure_name, ensure_namespace, metadata_mut, new_object,
    retry_on_conflict, scale,
};
use crate::failure::Failure;
use crate::request::query::{FieldValidation, WriteOptions};
use crate::request::route::Target;

/// The field manager of the server's own writes.
pub(super) const SERVER: Ownership<'_> = Ownership::Updated("portolan");

const RECORDS: &str = "managedFields";

/// The way in which a write is recorded in `metadata.managedFields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership<'a> {
    /// An update: this manager owns the fields that the write changes.
    Updated(&'a str),
    /// Server-side apply: the object carries its managed fields already.
    Applied,
}

impl Resources {
    /// Merges a configuration into an object, or creates the object from it.
    pub(crate) async fn apply(
        &self,
        target: &Target,
        body: &[u8],
        options: WriteOptions<'_>,
    ) -> Result<Outcome, Failure> {
        let mut configuration = read_configuration(body, target.sent_kind()).map_err(failure_of)?;
        convert_numbers(&mut configuration, target.sent_kind());
        let configuration = scale::configuration(configuration, target)?;
        // The stored version is merged; managed fields are recorded in that version too.
        let kind = target.kind.stored();
        let mut configuration = target.kind.into_stored(configuration);
        // The name may be absent if the object exists.
        if !text(child(&configuration, "metadata"), "name").is_empty() {
            ensure_name(&configuration, target)?;
        }
        ensure_namespace(&mut configuration, target)?;
        let duplicates = &duplicate_fields(body, target, options.field_validation);
        let (configuration, time) = (&configuration, &new_object::now());
        retry_on_conflict(target, || async move {
            let stored = self.stored(target).await?;
            let author = author(target, options.manager, time);
            let live = stored.as_ref().map(|stored| &stored.object);
            let applied =
                apply(live, configuration, author, options.force == Some(true)).map_err(failure_of)?;
            // Conflicts are reported before duplicate fields.
            let warnings = check_duplicates(duplicates, options.field_validation)?;
            let object = conform(applied, kind)
                .map_err(|error| match error {
                    DecodeError::TooManyValues => Failure::of_decode(&error),
                    other => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", other.to_string()),
                })?
                .object;
            let context = WriteContext::of(&options, Ownership::Applied);
            match stored {
                Some(stored) => self.replace(target, stored, object, warnings, context).await,
                None if target.subresource.is_some() => Err(Failure::not_found(kind, target.name()).into()),
                None => {
                    ensure_name(configuration, target)?;
                    self.admission.admit_creation(target, context.requester)?;
                    refuse_identity(target, configuration)?;
                    self.create_object(target, object, warnings, context).await
                }
            }
        })
        .await
    }
}

impl Ownership<'_> {
    /// Removes the managed fields from an object and returns them.
    pub(super) fn take(object: &mut Value) -> Option<Value> {
        metadata_mut(object).as_object_mut()?.shift_remove(RECORDS)
    }

    /// Returns the managed fields of a new object with its defaults. `given` are those that the client sent.
    pub(super) fn records_of_new(
        self,
        object: &Value,
        given: Option<Value>,
        target: &Target,
    ) -> Option<Value> {
        match self {
            Ownership::Applied => given,
            Ownership::Updated(manager) => record_creation(
                object,
                given.as_ref(),
                author(target, manager, &new_object::now()),
            ),
        }
    }

    /// Returns the managed fields of a changed object with its defaults. `given` are those that the client sent.
    pub(super) fn records_of_changed(
        self,
        new: &Value,
        old: &Value,
        given: Option<Value>,
        target: &Target,
    ) -> Option<Value> {
        match self {
            Ownership::Applied => given,
            Ownership::Updated(manager) => record_update(
                new,
                old,
                given.as_ref(),
                author(target, manager, &new_object::now()),
            ),
        }
    }
}

/// Sets or clears the managed fields of an object.
pub(super) fn set_records(object: &mut Value, records: Option<Value>) {
    set_or_clear(metadata_mut(object), RECORDS, records);
}

fn author<'a>(target: &'a Target, manager: &'a str, time: &'a str) -> WriteAuthor<'a> {
    WriteAuthor {
        kind: target.kind.stored(),
        subresource: target.subresource,
        manager,
        time,
    }
}

/// Returns the strict decoding errors of a body. Apply itself accepts duplicate keys, so they are looked for
/// separately.
fn duplicate_fields(body: &[u8], target: &Target, validation: FieldValidation) -> Vec<String> {
    if validation == FieldValidation::Ignore {
        return Vec::new();
    }
    // Other errors of the body are reported by `read_configuration`.
    decode(body, Format::Yaml, target.sent_kind()).map_or(Vec::new(), |decoded| decoded.strict_errors)
}

/// Returns decoding errors as warnings, or as a failure if the validation is strict.
fn check_duplicates(faults: &[String], validation: FieldValidation) -> Result<Vec<String>, Failure> {
    if validation == FieldValidation::Strict && !faults.is_empty() {
        let message = format!("error strict decoding YAML: {}", faults.join(", "));
        return Err(Failure::bad_request(message));
    }
    Ok(faults.to_vec())
}

/// Rejects a configuration with a UID: it refers to an object that exists, so none is created.
fn refuse_identity(target: &Target, configuration: &Value) -> Result<(), Failure> {
    match text(child(configuration, "metadata"), "uid") {
        "" => Ok(()),
        uid => {
            let message = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            Err(Failure::conflict(target.kind, target.name(), &message))
        }
    }
}

fn failure_of(error: ApplyError) -> Failure {
    let message = error.to_string();
    match error {
        ApplyError::Syntax(_) | ApplyError::WrongKind { .. } | ApplyError::ManagedFields => {
            Failure::bad_request(message)
        }
        ApplyError::TooLarge(error) => Failure::of_decode(&error),
        ApplyError::Untyped { .. } => Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.iter().map(|conflict| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {}", conflict.manager),
                    "field": conflict.path,
                })
            });
            Failure::new(StatusCode::CONFLICT, "Conflict", message).with_causes(causes.collect())
        }
    }
}
