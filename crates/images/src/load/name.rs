//! Names of images in archives.

use super::LoadError;
use crate::reference::Reference;

/// Parses the name of an image.
pub(super) fn parse_name(name: &str) -> Result<Reference, LoadError> {
    name.parse().map_err(|source| LoadError::Name {
        name: name.to_owned(),
        source,
    })
}
