//! Names of clusters in a set.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use api::names;

/// Name of a cluster in its set, a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(Arc<str>);

/// A name that is not a DNS label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a cluster name of at most 63 lower-case letters, digits and hyphens, such as eu-west, found {0:?}"
)]
pub struct InvalidClusterId(String);

impl ClusterId {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClusterId {
    type Err = InvalidClusterId;

    fn from_str(text: &str) -> Result<Self, InvalidClusterId> {
        if names::dns_label(text).is_empty() {
            Ok(Self(text.into()))
        } else {
            Err(InvalidClusterId(text.to_owned()))
        }
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
