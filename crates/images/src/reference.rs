//! Names of images, with Docker's normalization: `nginx` is `docker.io/library/nginx:latest`.
//!
//! The grammar is the one of the distribution project's package `reference`.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{Digest, DigestError};

#[cfg(test)]
mod tests;

/// Registry of references that name none.
pub const DEFAULT_REGISTRY: &str = "docker.io";
/// Older name of [`DEFAULT_REGISTRY`].
const DEFAULT_REGISTRY_FORMERLY: &str = "index.docker.io";
/// Repositories of one part lie below this one in [`DEFAULT_REGISTRY`].
const DEFAULT_REPOSITORY_PREFIX: &str = "library/";
/// Tag of references with neither tag nor digest.
const DEFAULT_TAG: &str = "latest";

/// Characters of registry and repository together, as the distribution project limits them.
const NAME_LENGTH_MAX: usize = 255;
/// Characters of a tag, as the distribution specification limits them.
const TAG_LENGTH_MAX: usize = 128;
/// Characters of a whole reference: name, tag and the longest digest, with separators.
const REFERENCE_LENGTH_MAX: usize = NAME_LENGTH_MAX + TAG_LENGTH_MAX + 160;

/// Reason why a text is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The text is empty.
    #[error("invalid reference format: the name is empty")]
    Empty,
    /// The text or its name is too long.
    #[error("invalid reference format: the name must have at most {NAME_LENGTH_MAX} characters")]
    TooLong,
    /// The registry is not a host with an optional port.
    #[error("invalid reference format: {0:?} is not a registry of the form HOST or HOST:PORT")]
    Registry(String),
    /// The repository has upper-case letters.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Uppercase(String),
    /// The repository has other characters.
    #[error(
        "invalid reference format: {0:?} is not a repository; its parts have letters and digits, with single separators \
         (. _ __ -) between them"
    )]
    Repository(String),
    /// The repository could be confused with an image ID.
    #[error("invalid reference format: the repository {0} must not be a hash of 64 hexadecimal digits")]
    ImageId(String),
    /// The tag has other characters, or is too long.
    #[error(
        "invalid reference format: {0:?} is not a tag; a tag has at most {TAG_LENGTH_MAX} letters, digits, _ . and -"
    )]
    Tag(String),
    /// The part after `@` is not a digest.
    #[error("invalid reference format: {0}")]
    Digest(#[from] DigestError),
}

/// Normalised name of an image: registry, repository, and tag or digest, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Returns the registry, with port if the reference has one: `docker.io`, `registry.example:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository in the registry: `library/nginx`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the tag. `None` only if there is a digest.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest or index. A registry ignores the tag if a digest is present.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Returns the name of this repository at a digest: `docker.io/library/nginx@sha256:…`.
    pub fn at_digest(&self, digest: Digest) -> Self {
        Self {
            tag: None,
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// Returns the text by which the manifest is requested from a registry: the digest, or else the tag.
    pub(crate) fn selector(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => DEFAULT_TAG.to_owned(),
        }
    }

    /// Returns `true` if both references name the same repository of the same registry.
    pub(crate) fn is_same_repository(&self, other: &Self) -> bool {
        self.registry == other.registry && self.repository == other.repository
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if text.len() > REFERENCE_LENGTH_MAX {
            return Err(ReferenceError::TooLong);
        }
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest.parse()?)),
            None => (text, None),
        };
        let name_end = name.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name[name_end..].find(':') {
            Some(colon) => (
                &name[..name_end + colon],
                Some(valid_tag(&name[name_end + colon + 1..])?),
            ),
            None => (name, None),
        };
        let (registry, repository) = split_registry(name)?;
        if registry.len() + 1 + repository.len() > NAME_LENGTH_MAX {
            return Err(ReferenceError::TooLong);
        }
        let tag = match (tag, &digest) {
            (None, None) => Some(DEFAULT_TAG.to_owned()),
            (tag, _) => tag.map(str::to_owned),
        };
        Ok(Self {
            registry,
            repository,
            tag,
            digest,
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@{digest}")?;
        }
        Ok(())
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Splits a name into registry and repository, and adds the parts that Docker's short names leave out.
fn split_registry(name: &str) -> Result<(String, String), ReferenceError> {
    if name.is_empty() {
        return Err(ReferenceError::Empty);
    }
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (valid_registry(first)?, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    let registry = if registry == DEFAULT_REGISTRY_FORMERLY {
        DEFAULT_REGISTRY
    } else {
        registry
    };
    let path = valid_repository(path)?;
    let repository = if registry == DEFAULT_REGISTRY && !path.contains('/') {
        format!("{DEFAULT_REPOSITORY_PREFIX}{path}")
    } else {
        path.to_owned()
    };
    Ok((registry.to_owned(), repository))
}

/// Returns `true` if the first part of a name is a registry, and not the first part of a repository.
fn is_registry(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn valid_registry(registry: &str) -> Result<&str, ReferenceError> {
    let invalid = || ReferenceError::Registry(registry.to_owned());
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']').ok_or_else(invalid)?;
            address.parse::<Ipv6Addr>().map_err(|_| invalid())?;
            (None, rest.strip_prefix(':').or((!rest.is_empty()).then_some("")))
        }
        None => match registry.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(registry), None),
        },
    };
    if host.is_some_and(|host| !host.split('.').all(is_host_label)) {
        return Err(invalid());
    }
    if port
        .is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit()) || port.parse::<u16>().is_err())
    {
        return Err(invalid());
    }
    Ok(registry)
}

fn is_host_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
}

fn valid_repository(path: &str) -> Result<&str, ReferenceError> {
    if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(ReferenceError::Uppercase(path.to_owned()));
    }
    if !path.split('/').all(is_repository_part) {
        return Err(ReferenceError::Repository(path.to_owned()));
    }
    if path.len() == 64 && path.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ReferenceError::ImageId(path.to_owned()));
    }
    Ok(path)
}

/// Returns true for lower-case letters and digits with separators `.`, `_`, `__` or any number of `-` between them.
fn is_repository_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let ends_are_words =
        bytes.first().copied().is_some_and(is_word) && bytes.last().copied().is_some_and(is_word);
    let mut separators = bytes.split(|byte| is_word(*byte));
    ends_are_words
        && separators.all(|separator| {
            matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-')
        })
}

fn valid_tag(tag: &str) -> Result<&str, ReferenceError> {
    let is_first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_inner = |byte: u8| is_first(byte) || matches!(byte, b'.' | b'-');
    let is_valid = tag.bytes().next().is_some_and(is_first) && tag.bytes().all(is_inner);
    if is_valid && tag.len() <= TAG_LENGTH_MAX {
        Ok(tag)
    } else {
        Err(ReferenceError::Tag(tag.to_owned()))
    }
}
