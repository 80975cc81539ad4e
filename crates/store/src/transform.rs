//! Transformation of stored values, such as encryption at rest.
//!
//! A [`Transformer`] seals a value before an engine stores it, and opens it when the engine reads it. Indexes,
//! readers and watchers get opened values only. The offset of the revision is part of the sealed bytes, so copies,
//! snapshots and restored stores contain sealed values unchanged.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::{CommitError, Record, StoreError, Value, Write};

/// Prefix of sealed values (upstream: `k8s:enc:PROVIDER:VERSION:`). No object has it: objects are JSON.
const SEALED_PREFIX: &[u8] = b"k8s:enc:";
/// Limit of logged failures to open a value; a wrong key makes all of them fail.
const FAILURES_LOGGED_MAX: usize = 20;

/// Returns true if a value is sealed: as an engine stores it, or as readers get it if it cannot be opened.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(SEALED_PREFIX)
}

/// Failure to seal or open a value. A retry with the same keys fails as well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to transform key {key:?}: {reason}")]
pub struct TransformError {
    /// Key of the value.
    pub key: String,
    /// Description of the failure.
    pub reason: String,
}

/// Converts values to their stored form and back.
pub trait Transformer: Send + Sync + 'static {
    /// Returns the stored form of a value, which may be the value itself.
    ///
    /// # Errors
    ///
    /// Returns [`TransformError`] if the value cannot be sealed; it is then not stored.
    fn seal(&self, key: &str, value: &Value) -> Result<Value, TransformError>;

    /// Returns the value of a stored form.
    ///
    /// # Errors
    ///
    /// Returns [`TransformError`] if the value cannot be opened.
    fn open(&self, key: &str, stored: &Value) -> Result<Value, TransformError>;

    /// Releases cached state about a removed key.
    fn forget(&self, key: &str);
}

/// The optional transformer of an engine. Without one, values are stored unchanged.
#[derive(Clone, Default)]
pub struct Transformation {
    transformer: Option<Arc<dyn Transformer>>,
    failures: Arc<AtomicUsize>,
}

impl fmt::Debug for Transformation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_transformer = self.transformer.is_some();
        f.debug_struct("Transformation")
            .field("transformer", &has_transformer)
            .finish_non_exhaustive()
    }
}

impl Transformation {
    /// Creates a transformation with a transformer.
    pub fn by(transformer: Arc<dyn Transformer>) -> Transformation {
        Transformation {
            transformer: Some(transformer),
            failures: Arc::default(),
        }
    }

    /// Returns true if values are stored unchanged.
    pub(crate) fn is_none(&self) -> bool {
        self.transformer.is_none()
    }

    /// Returns writes in their stored form.
    pub(crate) fn to_stored<'w>(&self, writes: &'w [Write]) -> Result<Cow<'w, [Write]>, CommitError> {
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
        let stored_write = |write: &Write| {
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
            .map(stored_write)
            .collect::<Result<Vec<_>, _>>()
            .map(Cow::Owned)
    }

    /// Returns a stored value as readers get it. A value that cannot be opened stays sealed, and readers reject it.
    pub(crate) fn open_value(&self, key: &str, stored: Value) -> Value {
        let result = match &self.transformer {
            Some(transformer) => transformer.open(key, &stored),
            None if is_sealed(&stored.bytes) => Err(TransformError {
                key: key.to_owned(),
                reason: "the value is encrypted, but --encryption-provider-config is not set".to_owned(),
            }),
            None => return stored,
        };
        result.unwrap_or_else(|error| {
            match self.failures.fetch_add(1, Ordering::Relaxed) {
                failure @ ..FAILURES_LOGGED_MAX => {
                    tracing::error!(%error, failures = failure + 1, "stored value not decrypted; reads of it fail");
                }
                _ => tracing::debug!(%error, "stored value not decrypted"),
            }
            stored
        })
    }

    /// Returns a stored record as readers get it.
    pub(crate) fn open_record(&self, record: Record) -> Record {
        Record {
            value: self.open_value(&record.key, record.value),
            ..record
        }
    }

    /// Releases cached state about a key that another process removed.
    pub(crate) fn forget(&self, key: &str) {
        if let Some(transformer) = &self.transformer {
            transformer.forget(key);
        }
    }
}

impl Value {
    /// Returns the value and the offset of its revision as one sequence of bytes, which transformers seal and etcd
    /// stores. It has the offset (`-` for no offset), a newline, and the bytes.
    pub fn packed(&self) -> Bytes {
        let mut packed = match self.revision_at {
            Some(at) => format!("{at}\n").into_bytes(),
            None => b"-\n".to_vec(),
        };
        packed.extend_from_slice(&self.bytes);
        Bytes::from(packed)
    }

    /// Parses the result of [`Value::packed`]; `None` if it is malformed.
    pub fn unpack(packed: &Bytes) -> Option<Value> {
        let end = packed.iter().position(|byte| *byte == b'\n')?;
        let revision_at = match packed.get(..end)? {
            b"-" => None,
            at => Some(std::str::from_utf8(at).ok()?.parse().ok()?),
        };
        let bytes = packed.slice(end + 1..);
        (revision_at.is_none_or(|at| at <= bytes.len())).then_some(Value { bytes, revision_at })
    }

    /// Returns a sealed value, which has no offset for a revision.
    pub fn sealed(bytes: Bytes) -> Value {
        Value {
            bytes,
            revision_at: None,
        }
    }
}
