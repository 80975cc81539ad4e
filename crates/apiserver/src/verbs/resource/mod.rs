//! Implements the verbs on objects of all kinds; [`strategy`] has the rules of each kind.
//!
//! A write reads the stored object, decides, and commits on condition that the object has not changed. After a
//! conflict it decides again, up to [`ATTEMPTS_MAX`] times.

mod apply;
mod collection;
mod continuation;
mod create;
mod delete;
mod delete_rules;
mod encoded_events;
mod list;
mod new_object;
mod patch;
mod read;
mod rewrite_rate;
mod scale;
mod selection;
mod shared_frames;
mod strategy;
mod update;
mod watch;
mod watch_events;

pub(crate) use apply::Ownership;
use apply::set_records;
pub(crate) use delete::deletion_warnings;
pub(crate) use encoded_events::EncodedEvents;
pub(crate) use new_object::{generate_name, new_server_object};
pub(crate) use rewrite_rate::RewriteRates;
pub(crate) use scale::scale_response;
pub(crate) use shared_frames::SharedFrames;
pub(crate) use strategy::Strategy;

use std::sync::Arc;

use apply::SERVER;

use api::decode::{DecodeError, Decoded, Format};
use api::kind::Kind;
use api::tree::{child, clear, set, text};
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use store::{CommitError, Entry, Revision, Store, Transaction};

use crate::access::audit::Recorder;
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::metrics::watches::WatchCounts;
use crate::registry::admission::Admission;
use crate::registry::encryption::Encryption;
use crate::registry::service;
use crate::request::query::{FieldValidation, WriteOptions};
use crate::request::route::Target;
use crate::shutdown::Shutdown;

/// Maximum number of attempts of a write before it fails with a conflict. Each conflict means that another writer
/// succeeded. After this many conflicts in a row, the clients must resolve the conflict.
const ATTEMPTS_MAX: usize = 16;

/// Size limit of stored objects, as etcd's default: every watcher receives every version of an object.
const OBJECT_BYTES_MAX: usize = 3 << 19;

/// The store, and the other parts that verbs need to read and write objects.
pub(crate) struct Resources {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) services: service::Allocators,
    pub(crate) admission: Admission,
    /// The cluster CA certificate in PEM, which every namespace has a copy of.
    pub(crate) ca_certificate: String,
    pub(crate) shutdown: Shutdown,
    /// Watch events that were encoded for other watches.
    pub(crate) encoded_events: Arc<EncodedEvents>,
    /// Frames that were written for equal watches.
    pub(crate) frames: Arc<SharedFrames>,
    /// Counters of watches, for metrics.
    pub(crate) watch_counts: Arc<WatchCounts>,
    /// Rates at which users rewrite objects.
    pub(crate) rewrites: RewriteRates,
    /// Encryption at rest; `None` if it is not configured.
    pub(crate) encryption: Option<Arc<Encryption>>,
}

/// The parameters of a write besides the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteContext<'a> {
    /// True for a dry run: nothing is stored.
    pub(crate) dry_run: bool,
    /// True if the request cannot create an object, because it gives a `resourceVersion`. Only a POST is refused.
    pub(crate) refuses_version: bool,
    /// Owner of the fields that the write changes.
    pub(crate) ownership: Ownership<'a>,
    /// The client; `None` for writes of the server itself, which admission accepts.
    pub(crate) requester: Option<&'a Identity>,
    /// Recorder of admission decisions.
    pub(crate) recorder: Recorder<'a>,
}

impl WriteContext<'static> {
    /// The parameters of the server's own writes.
    pub(crate) const SERVER: WriteContext<'static> = WriteContext {
        dry_run: false,
        refuses_version: false,
        ownership: SERVER,
        requester: None,
        recorder: Recorder::NONE,
    };
}

impl<'a> WriteContext<'a> {
    /// Returns the parameters of a client's write.
    fn of(options: &WriteOptions<'a>, ownership: Ownership<'a>) -> WriteContext<'a> {
        WriteContext {
            dry_run: options.dry_run,
            refuses_version: false,
            ownership,
            requester: options.requester,
            recorder: options.recorder,
        }
    }
}

/// The result of a verb on one object.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Status code: 200, 201 or 202.
    pub(crate) code: StatusCode,
    /// The object as clients see it.
    pub(crate) object: Bytes,
    /// True if `object` is a `Status`.
    pub(crate) is_status: bool,
    /// Texts of the `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl Outcome {
    /// Returns an object that existed before.
    fn ok(object: Bytes) -> Outcome {
        Outcome {
            code: StatusCode::OK,
            object,
            is_status: false,
            warnings: Vec::new(),
        }
    }

    /// Returns an object that was created.
    fn created(object: Bytes) -> Outcome {
        Outcome {
            code: StatusCode::CREATED,
            ..Outcome::ok(object)
        }
    }
}

/// An unsuccessful attempt to write.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The write is refused or failed.
    Failed(Failure),
    /// The stored state changed since it was read; another attempt may succeed.
    Conflict,
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> WriteError {
        WriteError::Failed(failure)
    }
}

/// Adds warnings to a result. Failures contain them, too.
fn add_warnings(
    written: Result<Outcome, WriteError>,
    mut warnings: Vec<String>,
) -> Result<Outcome, WriteError> {
    match written {
        Ok(mut outcome) => {
            warnings.append(&mut outcome.warnings);
            Ok(Outcome { warnings, ..outcome })
        }
        Err(WriteError::Failed(failure)) => Err(failure.warned(warnings).into()),
        Err(WriteError::Conflict) => Err(WriteError::Conflict),
    }
}

/// Refuses an entry whose value cannot be decrypted.
fn check_readable(entry: &Entry) -> Result<(), Failure> {
    if store::is_sealed(&entry.value) {
        Err(Failure::internal(format!(
            "unable to transform key {:?}: no provider of the encryption configuration decrypts its value",
            entry.key
        )))
    } else {
        Ok(())
    }
}

/// A stored object, decoded.
pub(crate) struct StoredObject {
    pub(crate) entry: Entry,
    pub(crate) object: Value,
}

impl Resources {
    /// Reads the object of a path at the newest revision.
    pub(crate) async fn stored(&self, target: &Target) -> Result<Option<StoredObject>, Failure> {
        self.catch_up().await?;
        self.store
            .index()
            .get(&target.key())
            .map(StoredObject::read)
            .transpose()
    }

    /// Returns true if the stored form of an object is outdated, for example encrypted with an older key.
    fn is_stored_stale(&self, key: &str) -> bool {
        let encryption = self.encryption.as_ref();
        encryption.is_some_and(|encryption| encryption.is_stale(key))
    }

    /// Waits until the index and the allocators reflect all writes that any server acknowledged before the call.
    pub(crate) async fn catch_up(&self) -> Result<(), Failure> {
        let barrier = self.store.read_barrier().await;
        barrier.map_err(|error| Failure::of_read(&error))?;
        self.services.catch_up(self.store.index());
        Ok(())
    }

    /// Commits a transaction; a conflict means that the decision is outdated.
    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<Revision, WriteError> {
        self.store.commit(transaction).await.map_err(|error| match error {
            CommitError::Conflict { .. } => WriteError::Conflict,
            other => WriteError::Failed(Failure::of_commit(&other)),
        })
    }

    /// Commits a transaction together with an allocation, which takes effect only if the commit succeeds.
    pub(crate) async fn commit_allocated(
        &self,
        mut transaction: Transaction,
        allocation: Option<service::Allocation>,
    ) -> Result<Revision, WriteError> {
        let Some(mut allocation) = allocation else {
            return self.commit(transaction).await;
        };
        transaction.expectations.append(&mut allocation.expectations);
        transaction.writes.append(&mut allocation.writes);
        match self.store.commit(transaction).await {
            Ok(revision) => {
                allocation.commit();
                Ok(revision)
            }
            Err(CommitError::Conflict { key, .. }) => {
                allocation.resolve_conflict(&key);
                Err(WriteError::Conflict)
            }
            Err(other) => Err(WriteError::Failed(Failure::of_commit(&other))),
        }
    }
}

impl StoredObject {
    /// Decodes an entry. The server wrote the entry itself, so failures are internal errors.
    pub(crate) fn read(entry: Entry) -> Result<StoredObject, Failure> {
        check_readable(&entry)?;
        let object = serde_json::from_slice(&entry.value).map_err(|error| {
            tracing::error!(key = %entry.key, %error, "stored object not valid JSON");
            Failure::internal("a stored object cannot be read")
        })?;
        Ok(StoredObject { entry, object })
    }

    /// Returns the object's metadata.
    pub(crate) fn metadata(&self) -> &Value {
        child(&self.object, "metadata")
    }
}

/// Runs an attempt to write until it succeeds or fails for another reason than a conflict, at most
/// [`ATTEMPTS_MAX`] times.
pub(crate) async fn retry_on_conflict<T, F, Fut>(target: &Target, mut decide: F) -> Result<T, Failure>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, WriteError>>,
{
    for _ in 0..ATTEMPTS_MAX {
        match decide().await {
            Ok(value) => return Ok(value),
            Err(WriteError::Failed(failure)) => return Err(failure),
            Err(WriteError::Conflict) => {}
        }
    }
    Err(Failure::modified(target.kind, target.name()))
}

/// Applies `fieldValidation` to a decoded body. Returns the object in the stored version, and warnings. `refused`
/// converts decoding errors.
pub(crate) fn apply_field_validation(
    decoded: Result<Decoded, DecodeError>,
    kind: &Kind,
    validation: FieldValidation,
    refused: impl Fn(DecodeError) -> Failure,
) -> Result<(Value, Vec<String>), Failure> {
    let decoded = decoded.map_err(&refused)?;
    let (object, warnings) = match validation {
        FieldValidation::Strict => (decoded.strict(kind).map_err(&refused)?, Vec::new()),
        FieldValidation::Warn => (decoded.object, decoded.strict_errors),
        FieldValidation::Ignore => (decoded.object, Vec::new()),
    };
    Ok((kind.into_stored(object), warnings))
}

/// Decodes a body as an object of `kind`. Returns the object in the stored version, and warnings.
pub(crate) fn decode_body(
    body: &[u8],
    format: Format,
    kind: &Kind,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Failure> {
    let decoded = api::decode::decode(body, format, kind);
    apply_field_validation(decoded, kind, validation, |error| Failure::of_decode(&error))
}

/// Encodes an object for the store.
pub(crate) fn encode(object: &Value) -> store::Value {
    let (bytes, revision_at) = api::encode::encode(object);
    store::Value {
        bytes: bytes.into(),
        revision_at: Some(revision_at),
    }
}

/// Refuses objects above the size limit.
fn within_limit(value: store::Value) -> Result<store::Value, Failure> {
    if value.bytes.len() <= OBJECT_BYTES_MAX {
        Ok(value)
    } else {
        Err(Failure::too_large(OBJECT_BYTES_MAX))
    }
}

/// Returns the bytes of an object that was stored at `revision`, as clients see it.
pub(crate) fn encode_at_revision(value: &store::Value, revision: Revision) -> Result<Bytes, Failure> {
    value
        .with_revision(revision)
        .ok_or_else(|| Failure::internal("the object could not be encoded"))
}

/// Returns the bytes of an object that is not stored.
pub(crate) fn render(object: &Value) -> Bytes {
    Bytes::from(object.to_string())
}

/// Sets the namespace of an object to that of the path; rejects a different one. As upstream, an object of the cluster
/// loses its namespace.
pub(crate) fn ensure_namespace(object: &mut Value, target: &Target) -> Result<(), Failure> {
    let metadata = metadata_mut(object);
    let given = text(metadata, "namespace");
    if given == target.namespace() {
        return Ok(());
    }
    if !target.kind.namespaced {
        clear(metadata, "namespace");
        return Ok(());
    }
    if !given.is_empty() {
        let message = format!(
            "the namespace of the provided object does not match the namespace sent on the request ({given} != {})",
            target.namespace()
        );
        return Err(Failure::bad_request(message));
    }
    set(metadata, "namespace", target.namespace());
    Ok(())
}

/// Rejects an object whose name is not that of the path.
pub(crate) fn ensure_name(object: &Value, target: &Target) -> Result<(), Failure> {
    let given = text(child(object, "metadata"), "name");
    if given == target.name() {
        return Ok(());
    }
    let name = target.name();
    Err(Failure::bad_request(if given.is_empty() {
        format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({given}) does not match the name on the URL ({name})")
    }))
}

/// Returns the object's metadata, which is created if missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Value {
    api::tree::as_object_mut(object)
        .entry("metadata")
        .or_insert_with(|| Value::Object(serde_json::Map::new()))
}
