//! The served kinds, as rows of one table (`rows`): what discovery says of them, where the store keeps them and how the
//! verbs treat them.

mod rows;

use serde_json::Value;

use crate::kinds::event;
use rows::KINDS;

pub use rows::{SCALE_KIND, TOKEN_REQUEST};

/// The word of the subresource that passes requests on (API-03).
pub const PROXY: &str = "proxy";

/// The word of the subresource that says how many replicas there are to be, in a form that is the same for all kinds.
pub const SCALE: &str = "scale";

/// The word of the subresource that is asked of the agent of a Pod's node.
pub const LOG: &str = "log";

/// The API group of Portolan's own kinds.
pub const PORTOLAN_GROUP: &str = "portolan.dev";

/// One served kind. The table is [`all`]; a row is found by [`find`] or [`find_by_kind`].
#[derive(Debug)]
pub struct Kind {
    /// API group, "" for the core group.
    pub group: &'static str,
    /// Version in the group.
    pub version: &'static str,
    /// The word of an object's `kind`.
    pub kind: &'static str,
    /// The word of a list's `kind`.
    pub list_kind: &'static str,
    /// The word in paths.
    pub plural: &'static str,
    /// The word for one, as kubectl takes it.
    pub singular: &'static str,
    /// Short words that kubectl takes.
    pub short_names: &'static [&'static str],
    /// Groups of kinds that kubectl takes, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// The verbs, sorted.
    pub verbs: &'static [&'static str],
    /// What has a path of its own below an object.
    pub subresources: &'static [Subresource],
    /// Name of the definition in the OpenAPI documents and in [`crate::machinery::schema`].
    pub definition: &'static str,
    /// A PUT to a name that does not exist creates the object (API-06).
    pub create_on_update: bool,
    /// An update without `metadata.resourceVersion` is accepted (API-06).
    pub unconditional_update: bool,
    /// `metadata.generation` counts the changes of the desired state (API-54).
    pub has_generation: bool,
    /// A delete answers with the deleted object in place of a `Status` (API-09).
    pub delete_returns_object: bool,
}

/// Something below an object that has a path of its own.
#[derive(Debug)]
pub struct Subresource {
    /// The last segment of the path.
    pub name: &'static str,
    /// The verbs, sorted.
    pub verbs: &'static [&'static str],
    /// The word of its `kind`, where that is not the object's.
    pub kind: Option<&'static str>,
    /// What is sent and answered there, if that is not the object itself.
    pub sent: Option<&'static Kind>,
}

/// All rows, ordered by group, then by plural.
pub fn all() -> &'static [Kind] {
    KINDS
}

/// The kind that is served at `/apis/{group}/{version}/…/{plural}` (at `/api/{version}/…` if `group` is "").
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|k| k.plural == plural && k.group == group && k.version == version)
}

/// The kind of an object with this `apiVersion` and `kind`.
pub fn find_by_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|k| k.kind == kind && k.is_api_version(api_version))
}

impl Kind {
    /// The word of `apiVersion`: `v1`, `discovery.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether `api_version` is this kind's, without building the text.
    pub fn is_api_version(&self, api_version: &str) -> bool {
        match api_version.split_once('/') {
            Some((group, version)) => self.group == group && self.version == version,
            None => self.group.is_empty() && self.version == api_version,
        }
    }

    /// The path of the group and version: `/api/v1`, `/apis/discovery.k8s.io/v1`.
    pub fn root_path(&self) -> String {
        root_path(self.group, self.version)
    }

    /// What `Status.details.kind` and messages call the kind: `services`, `endpointslices.discovery.k8s.io`.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Whether objects of the kind are kept: all but those that are questions, which are answered at once.
    pub fn is_kept(&self) -> bool {
        !self.list_kind.is_empty()
    }

    /// Whether objects of the kind have a form in protobuf: Portolan's own kinds have none, as custom resources
    /// have none at a reference server.
    pub fn has_protobuf(&self) -> bool {
        self.group != PORTOLAN_GROUP
    }

    /// Whether the kind has a `status` that is written through a path of its own.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The kind in whose form the store has the objects: this one but for `events.k8s.io`, whose objects are the
    /// Events of the core group.
    pub fn stored(&'static self) -> &'static Kind {
        match self.is_stored_form() {
            true => self,
            false => find("", "v1", self.plural).unwrap_or(self),
        }
    }

    /// Whether the store has the objects in this kind's own form.
    pub fn is_stored_form(&self) -> bool {
        self.group != event::GROUP
    }

    /// An object of this kind in the form in which it is stored.
    pub fn into_stored(&self, object: Value) -> Value {
        match self.is_stored_form() {
            true => object,
            false => event::into_core(object),
        }
    }

    /// A stored object in the form of this kind.
    pub fn of_stored(&self, object: Value) -> Value {
        match self.is_stored_form() {
            true => object,
            false => event::of_core(object),
        }
    }

    /// The store key of an object; `namespace` does not count for a kind without namespaces.
    pub fn store_key(&self, namespace: &str, name: &str) -> String {
        let mut key = self.store_prefix(Some(namespace));
        key.push_str(name);
        key
    }

    /// The start of the store keys of all objects, or of those in one namespace; it ends in `/`.
    pub fn store_prefix(&self, namespace: Option<&str>) -> String {
        let group = if self.is_stored_form() { self.group } else { "" };
        let group_gap = if group.is_empty() { "" } else { "/" };
        let mut prefix = format!("/{group}{group_gap}{}/", self.plural);
        if let Some(namespace) = namespace
            && self.namespaced
            && !namespace.is_empty()
        {
            prefix.push_str(namespace);
            prefix.push('/');
        }
        prefix
    }
}

/// The path of a group and version: `/api/v1`, `/apis/discovery.k8s.io/v1`.
pub fn root_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

#[cfg(test)]
mod tests;
