//! Namespace (core/v1).

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, resource};

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
}

resource!(Namespace, "", "v1", "Namespace", "namespaces");
