//! Values that lie in an engine in another form than readers see them: encrypted, for example.
//!
//! A [`Transformer`] seals a value before an engine stores it and opens it when the engine reads it. Indices, readers and
//! watchers know the opened form alone. A sealed value has no place for its revision: that is part of what is sealed, so
//! copies, snapshots and restored stores take sealed values as they are.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::{CommitError, Record, StoreError, Value, Write};

/// Sealed values begin with this (upstream: `k8s:enc:PROVIDER:VERSION:`). No object does: they are JSON.
const SEALED_PREFIX: &[u8] = b"k8s:enc:";
/// Values that cannot be opened, of which each is written to the log. A wrong key fails all of them.
const FAILURES_LOGGED_MAX: usize = 20;

/// Whether a value is sealed: as an engine stores it, or as readers get it if nothing opens it.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(SEALED_PREFIX)
}

/// Why a value could not be sealed or opened. Opening it again with the same keys does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to transform key {key:?}: {reason}")]
pub struct TransformError {
    /// The key.
    pub key: String,
    /// Why.
    pub reason: String,
}

/// Gives values the form in which they are stored, and takes it off again.
pub trait Transformer: Send + Sync + 'static {
    /// The form in which a value is stored; the value itself if it is stored as it is.
    ///
    /// # Errors
    /// [`TransformError`] if it cannot be sealed; it is not stored then.
    fn seal(&self, key: &str, value: &Value) -> Result<Value, TransformError>;

    /// The value of a stored form.
    ///
    /// # Errors
    /// [`TransformError`] if it cannot be opened.
    fn open(&self, key: &str, stored: &Value) -> Result<Value, TransformError>;

    /// A key was removed.
    fn forget(&self, key: &str);
}

/// The transformer of an engine, if it has one. Without one, values are stored as they are.
#[derive(Clone, Default)]
pub struct Transformation {
    transformer: Option<Arc<dyn Transformer>>,
    failures: Arc<AtomicUsize>,
}

impl fmt::Debug for Transformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = self.transformer.is_some();
        f.debug_struct("Transformation")
            .field("transformer", &is_there)
            .finish_non_exhaustive()
    }
}

impl Transformation {
    /// By this transformer.
    pub fn by(transformer: Arc<dyn Transformer>) -> Transformation {
        Transformation {
            transformer: Some(transformer),
            failures: Arc::default(),
        }
    }

    /// Whether values are stored as they are.
    pub(crate) fn is_none(&self) -> bool {
        self.transformer.is_none()
    }

    /// Writes as an engine stores them.
    pub(crate) fn stored<'w>(&self, writes: &'w [Write]) -> Result<Cow<'w, [Write]>, CommitError> {
        let Some(transformer) = &self.transformer else {
            return Ok(Cow::Borrowed(writes));
        };
        let seal = |key: &str, value: &Value| {
            transformer.seal(key, value).map_err(|error| {
                CommitError::Store(StoreError::Unavailable {
                    reason: error.to_string(),
                })
            })
        };
        let stored = |write: &Write| {
            Ok(match write {
                Write::Put(key, value) => Write::Put(key.clone(), seal(key, value)?),
                Write::Delete { key, last } => {
                    let last = last.as_ref().map(|last| seal(key, last)).transpose()?;
                    transformer.forget(key);
                    Write::Delete {
                        key: key.clone(),
                        last,
                    }
                }
            })
        };
        writes
            .iter()
            .map(stored)
            .collect::<Result<Vec<_>, _>>()
            .map(Cow::Owned)
    }

    /// A stored value as readers see it. One that cannot be opened stays sealed, for readers to refuse.
    pub(crate) fn opened(&self, key: &str, stored: Value) -> Value {
        let opened = match &self.transformer {
            Some(transformer) => transformer.open(key, &stored),
            None if is_sealed(&stored.bytes) => Err(TransformError {
                key: key.to_owned(),
                reason: "it is encrypted, and --encryption-provider-config is not given".to_owned(),
            }),
            None => return stored,
        };
        opened.unwrap_or_else(|error| {
            match self.failures.fetch_add(1, Ordering::Relaxed) {
                failure @ ..FAILURES_LOGGED_MAX => {
                    tracing::error!(%error, failures = failure + 1, "a stored value cannot be opened; reading it fails");
                }
                _ => tracing::debug!(%error, "a stored value cannot be opened"),
            }
            stored
        })
    }

    /// A stored record as readers see it.
    pub(crate) fn opened_record(&self, record: Record) -> Record {
        Record {
            value: self.opened(&record.key, record.value),
            ..record
        }
    }

    /// A key was removed by somebody else.
    pub(crate) fn forget(&self, key: &str) {
        if let Some(transformer) = &self.transformer {
            transformer.forget(key);
        }
    }
}

impl Value {
    /// The value in one piece, with the place for its revision: what is sealed, and what etcd stores. The place, `-` for
    /// none, and a newline precede the bytes.
    pub fn packed(&self) -> Bytes {
        let mut packed = match self.revision_at {
            Some(at) => format!("{at}\n").into_bytes(),
            None => b"-\n".to_vec(),
        };
        packed.extend_from_slice(&self.bytes);
        Bytes::from(packed)
    }

    /// Reads what [`Value::packed`] wrote; `None` if it did not.
    pub fn unpack(packed: &Bytes) -> Option<Value> {
        let end = packed.iter().position(|byte| *byte == b'\n')?;
        let revision_at = match packed.get(..end)? {
            b"-" => None,
            at => Some(std::str::from_utf8(at).ok()?.parse().ok()?),
        };
        let bytes = packed.slice(end + 1..);
        (revision_at.is_none_or(|at| at <= bytes.len())).then_some(Value { bytes, revision_at })
    }

    /// A sealed value: it has no place for its revision.
    pub fn sealed(bytes: Bytes) -> Value {
        Value {
            bytes,
            revision_at: None,
        }
    }
}
