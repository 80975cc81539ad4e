//! Objects that cannot be read: they are told of and skipped, and the others go on.

use api::object::{ObjectKey, Resource};

/// Says that an object is skipped, and why.
pub(crate) fn skip<T: Resource>(key: &ObjectKey, error: &str) {
    tracing::error!(kind = T::KIND, %key, error, "the object cannot be read and is skipped");
}
