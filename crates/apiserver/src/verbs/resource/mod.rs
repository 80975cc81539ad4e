//! The verbs on objects, for every kind alike; what is particular to a kind is in [`strategy`].
//!
//! A write reads, decides and commits with the expectation that what it read is still so. If it is not, the
//! decision is made anew, a bounded number of times.

mod apply;
mod birth;
mod collection;
mod continuation;
mod create;
mod delete;
mod delete_rules;
mod list;
mod patch;
mod read;
mod rendered_events;
mod scale;
mod selection;
mod shared_frames;
mod strategy;
mod update;
mod watch;
mod watch_events;

pub(crate) use apply::Ownership;
use apply::set_records;
pub(crate) use birth::{generated_name, newborn};
pub(crate) use rendered_events::RenderedEvents;
pub(crate) use scale::shown_as_scale;
pub(crate) use shared_frames::SharedFrames;
pub(crate) use strategy::Strategy;

use std::sync::Arc;

use apply::SERVER;

use api::decode::{DecodeError, Decoded, Format};
use api::kind::Kind;
use api::tree::{child, set, text};
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

/// How often a write is decided anew because what it rests on has changed meanwhile. Each time somebody else's
/// write succeeded, so this many in a row mean a hot object, and its writers should slow down.
const DECISIONS_MAX: usize = 16;

/// Largest object that is stored, as etcd has it by default: every watcher gets every version of it.
const OBJECT_BYTES_MAX: usize = 3 << 19;

/// The objects of all kinds, and what is done with them.
pub(crate) struct Resources {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) services: service::Registry,
    pub(crate) admission: Admission,
    /// The certificate of the cluster's authority, PEM, which every namespace has a copy of.
    pub(crate) authority: String,
    pub(crate) shutdown: Shutdown,
    /// What watches have written already.
    pub(crate) rendered: Arc<RenderedEvents>,
    /// What watches that tell the same have told already.
    pub(crate) frames: Arc<SharedFrames>,
    /// What watches are doing, for metrics.
    pub(crate) watch_counts: Arc<WatchCounts>,
    /// Encryption of the store; `None` without a configuration.
    pub(crate) encryption: Option<Arc<Encryption>>,
}

/// How a write is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intent<'a> {
    /// Nothing is stored.
    pub(crate) dry_run: bool,
    /// Who owns the fields that it changes.
    pub(crate) ownership: Ownership<'a>,
    /// Who asks for it. Nobody: the server does it of its own accord, and is admitted to everything.
    pub(crate) requester: Option<&'a Identity>,
    /// Recorder of the decisions about the request.
    pub(crate) recorder: Recorder<'a>,
}

impl Intent<'static> {
    /// Of the server itself.
    pub(crate) const SERVER: Intent<'static> = Intent {
        dry_run: false,
        ownership: SERVER,
        requester: None,
        recorder: Recorder::NONE,
    };
}

impl<'a> Intent<'a> {
    /// As a request has it.
    fn of(options: &WriteOptions<'a>, ownership: Ownership<'a>) -> Intent<'a> {
        Intent {
            dry_run: options.dry_run,
            ownership,
            requester: options.requester,
            recorder: options.recorder,
        }
    }
}

/// What a verb that names one object comes to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// 200 or 201.
    pub(crate) code: StatusCode,
    /// The object as clients see it.
    pub(crate) object: Bytes,
    /// Whether `object` is a `Status` in the place of an object.
    pub(crate) is_status: bool,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl Outcome {
    /// An object that was there before.
    fn ok(object: Bytes) -> Outcome {
        Outcome {
            code: StatusCode::OK,
            object,
            is_status: false,
            warnings: Vec::new(),
        }
    }

    /// An object that came into being.
    fn created(object: Bytes) -> Outcome {
        Outcome {
            code: StatusCode::CREATED,
            ..Outcome::ok(object)
        }
    }
}

/// Why a decision did not become a change.
#[derive(Debug)]
pub(crate) enum Interruption {
    /// It is refused or failed.
    Failed(Failure),
    /// What it rests on has changed meanwhile; deciding anew helps.
    Overtaken,
}

impl From<Failure> for Interruption {
    fn from(failure: Failure) -> Interruption {
        Interruption::Failed(failure)
    }
}

/// Adds what was said of a write on the way. The client hears it whatever came of the write.
fn told(written: Result<Outcome, Interruption>, mut warnings: Vec<String>) -> Result<Outcome, Interruption> {
    match written {
        Ok(mut outcome) => {
            warnings.append(&mut outcome.warnings);
            Ok(Outcome { warnings, ..outcome })
        }
        Err(Interruption::Failed(failure)) => Err(failure.warned(warnings).into()),
        Err(Interruption::Overtaken) => Err(Interruption::Overtaken),
    }
}

/// Refuses an entry whose value no key opened.
fn check_readable(entry: &Entry) -> Result<(), Failure> {
    match store::is_sealed(&entry.value) {
        true => Err(Failure::internal(format!(
            "unable to transform key {:?}: no provider of the encryption configuration decrypts its value",
            entry.key
        ))),
        false => Ok(()),
    }
}

/// An object in the store and what it says.
pub(crate) struct Stored {
    pub(crate) entry: Entry,
    pub(crate) object: Value,
}

impl Resources {
    /// The object that a path names, as it is now.
    pub(crate) async fn stored(&self, target: &Target) -> Result<Option<Stored>, Failure> {
        self.catch_up().await?;
        self.store
            .index()
            .get(&target.key())
            .map(Stored::read)
            .transpose()
    }

    /// Whether an object is stored in another form than a write would give it now: with an older key, for example.
    fn is_stored_stale(&self, key: &str) -> bool {
        let encryption = self.encryption.as_ref();
        encryption.is_some_and(|encryption| encryption.is_stale(key))
    }

    /// Brings the index and the allocators to everything that was acknowledged, by any server, before now.
    pub(crate) async fn catch_up(&self) -> Result<(), Failure> {
        let reached = self.store.read_barrier().await;
        reached.map_err(|error| Failure::of_read(&error))?;
        self.services.catch_up(self.store.index());
        Ok(())
    }

    /// Commits; a conflict means that the decision is outdated.
    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<Revision, Interruption> {
        self.store.commit(transaction).await.map_err(|error| match error {
            CommitError::Conflict { .. } => Interruption::Overtaken,
            other => Interruption::Failed(Failure::of_commit(&other)),
        })
    }

    /// Commits a transaction that carries an allocation of the Service registry: it counts only if the commit does.
    pub(crate) async fn commit_allocated(
        &self,
        mut transaction: Transaction,
        allocation: Option<service::Allocation>,
    ) -> Result<Revision, Interruption> {
        let Some(mut allocation) = allocation else {
            return self.commit(transaction).await;
        };
        transaction.expectations.append(&mut allocation.expectations);
        transaction.writes.append(&mut allocation.writes);
        match self.store.commit(transaction).await {
            Ok(revision) => {
                allocation.committed();
                Ok(revision)
            }
            Err(CommitError::Conflict { key, .. }) => {
                allocation.conflicted(&key);
                Err(Interruption::Overtaken)
            }
            Err(other) => Err(Interruption::Failed(Failure::of_commit(&other))),
        }
    }
}

impl Stored {
    /// Reads an entry's object. What is in the store has been written by this server, so an error is ours.
    pub(crate) fn read(entry: Entry) -> Result<Stored, Failure> {
        check_readable(&entry)?;
        let object = serde_json::from_slice(&entry.value).map_err(|error| {
            tracing::error!(key = %entry.key, %error, "a stored object is not JSON");
            Failure::internal("a stored object cannot be read")
        })?;
        Ok(Stored { entry, object })
    }

    /// Its metadata.
    pub(crate) fn metadata(&self) -> &Value {
        child(&self.object, "metadata")
    }
}

/// Makes the decision of `decide` anew as long as it is overtaken, a bounded number of times.
pub(crate) async fn decided<T, F, Fut>(target: &Target, mut decide: F) -> Result<T, Failure>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, Interruption>>,
{
    for _ in 0..DECISIONS_MAX {
        match decide().await {
            Ok(value) => return Ok(value),
            Err(Interruption::Failed(failure)) => return Err(failure),
            Err(Interruption::Overtaken) => {}
        }
    }
    Err(Failure::modified(target.kind, target.name()))
}

/// What a decoded body comes to under a field validation: the object in the form in which it is stored, and warnings.
pub(crate) fn admitted(
    decoded: Result<Decoded, DecodeError>,
    kind: &Kind,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Failure> {
    let refused = |error: DecodeError| Failure::of_decode(&error);
    let decoded = decoded.map_err(refused)?;
    let (object, warnings) = match validation {
        FieldValidation::Strict => (decoded.strict(kind).map_err(refused)?, Vec::new()),
        FieldValidation::Warn => (decoded.object, decoded.strict_errors),
        FieldValidation::Ignore => (decoded.object, Vec::new()),
    };
    Ok((kind.into_stored(object), warnings))
}

/// Reads a body as an object of `kind`.
pub(crate) fn decode_body(
    body: &[u8],
    format: Format,
    kind: &Kind,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Failure> {
    admitted(api::decode::decode(body, format, kind), kind, validation)
}

/// An object as the store takes it.
pub(crate) fn encoded(object: &Value) -> store::Value {
    let (bytes, revision_at) = api::encode::encode(object);
    store::Value {
        bytes: bytes.into(),
        revision_at: Some(revision_at),
    }
}

/// Refuses an object that is larger than any may be.
fn within_limit(value: store::Value) -> Result<store::Value, Failure> {
    match value.bytes.len() <= OBJECT_BYTES_MAX {
        true => Ok(value),
        false => Err(Failure::too_large(OBJECT_BYTES_MAX)),
    }
}

/// An object as clients see it that was written at `revision`.
pub(crate) fn inscribed(value: &store::Value, revision: Revision) -> Result<Bytes, Failure> {
    value
        .with_revision(revision)
        .ok_or_else(|| Failure::internal("the object could not be encoded"))
}

/// An object as clients see it that was not stored.
pub(crate) fn rendered(object: &Value) -> Bytes {
    Bytes::from(object.to_string())
}

/// The object's namespace must be the path's; it may be left out.
pub(crate) fn settle_namespace(object: &mut Value, target: &Target) -> Result<(), Failure> {
    let metadata = metadata_mut(object);
    let given = text(metadata, "namespace");
    if given == target.namespace() {
        return Ok(());
    }
    if !given.is_empty() || !target.kind.namespaced {
        let message = format!(
            "the namespace of the provided object does not match the namespace sent on the request ({given} != {})",
            target.namespace()
        );
        return Err(Failure::bad_request(message));
    }
    set(metadata, "namespace", target.namespace());
    Ok(())
}

/// The object's name must be the path's; it may be left out.
pub(crate) fn settle_name(object: &mut Value, target: &Target) -> Result<(), Failure> {
    let metadata = metadata_mut(object);
    let given = text(metadata, "name");
    if given == target.name() {
        return Ok(());
    }
    if !given.is_empty() {
        let message = format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            target.name()
        );
        return Err(Failure::bad_request(message));
    }
    set(metadata, "name", target.name());
    Ok(())
}

/// The object's metadata for changing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Value {
    api::tree::as_object_mut(object)
        .entry("metadata")
        .or_insert_with(|| Value::Object(serde_json::Map::new()))
}
