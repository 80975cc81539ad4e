//! Object metadata, keys, and the trait of all views.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Labels or annotations, in the order of their keys.
pub type Labels = BTreeMap<String, String>;

thread_local! {
    /// Last key of the thread. Lists contain the objects of one namespace in a row. The parts of a component need the
    /// key of one object one after the other. Their keys share the texts: caches hold a key for each of their objects.
    static LAST_KEY: RefCell<Option<ObjectKey>> = const { RefCell::new(None) };
}

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace, or "".
    pub namespace: Arc<str>,
    /// Name, unique in its namespace for each kind.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// Returns the key of `namespace`/`name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        let shared = LAST_KEY.try_with(|last| {
            let mut last = last.borrow_mut();
            let key = Self::sharing(last.as_ref(), namespace, name);
            *last = Some(key.clone());
            key
        });
        // The end of a thread drops its last key.
        shared.unwrap_or_else(|_| Self::sharing(None, namespace, name))
    }

    /// Returns a key that shares equal texts with another one.
    fn sharing(other: Option<&Self>, namespace: &str, name: &str) -> Self {
        let shared = |text: &str, of: fn(&Self) -> &Arc<str>| {
            let same = other.map(of).filter(|other| &***other == text);
            same.map_or_else(|| text.into(), Arc::clone)
        };
        Self {
            namespace: shared(namespace, |key| &key.namespace),
            name: shared(name, |key| &key.name),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `metadata`, without the fields that no component reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Name, unique in the namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Prefix for a name that the server generates.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Namespace, or "" for cluster-scoped kinds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Identity of the object. A name that is used again has another UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Revision of the last write, opaque to clients.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Number of changes of the desired state.
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// RFC 3339 time of creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// RFC 3339 time of the deletion request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Grace period of the deletion, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// Labels, which selectors match.
    #[serde(
        skip_serializing_if = "Labels::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub labels: Labels,
    /// Annotations, which no selector matches.
    #[serde(
        skip_serializing_if = "Labels::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub annotations: Labels,
    /// Owners; the object is garbage when none of them exists.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub owner_references: Vec<OwnerReference>,
    /// Finalizers: the deletion waits until all are removed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub finalizers: Vec<String>,
}

impl ObjectMeta {
    /// Returns the namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// Returns the owner reference that is marked as the controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }
}

/// Entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// True for the managing controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// True if foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// A view, with the names that list and watch need.
pub trait Resource: DeserializeOwned + Send + Sync + 'static {
    /// API group, "" for the core group.
    const GROUP: &'static str;
    /// Version in the group.
    const VERSION: &'static str;
    /// Kind, in upper camel case.
    const KIND: &'static str;
    /// Plural name, as in paths.
    const PLURAL: &'static str;

    /// Returns the metadata of the object.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the path of the collection in a namespace, or in all namespaces.
    fn collection(namespace: Option<&str>) -> String {
        let root = if Self::GROUP.is_empty() {
            format!("/api/{}", Self::VERSION)
        } else {
            format!("/apis/{}/{}", Self::GROUP, Self::VERSION)
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", Self::PLURAL),
            None => format!("{root}/{}", Self::PLURAL),
        }
    }
}

/// Implements [`crate::object::Resource`] for a view with the field `metadata`: group, version, kind and
/// plural.
#[macro_export]
macro_rules! resource {
    ($view:ty, $group:expr, $version:expr, $kind:expr, $plural:expr) => {
        impl $crate::object::Resource for $view {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;

            fn metadata(&self) -> &$crate::object::ObjectMeta {
                &self.metadata
            }
        }
    };
}
pub(crate) use resource;

/// Reads JSON `null` as the default of the type, as Go decoders do; for `deserialize_with`.
///
/// # Errors
/// The error of the deserializer.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
