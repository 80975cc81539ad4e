//! The served kinds as rows of one table (`rows`): their discovery, store keys and special rules of the verbs.

mod rows;

use serde_json::Value;

use crate::kinds::{event, multicluster, resource_metrics};
use rows::{KINDS, MEASURED};

pub use rows::{SCALE_KIND, TOKEN_REQUEST};

/// Subresource that passes requests to a Pod or Service (API-03).
pub const PROXY: &str = "proxy";

/// Subresource that reads and writes the number of replicas, in the same form for all kinds.
pub const SCALE: &str = "scale";

/// Subresource with the log of a Pod, which the node's agent answers.
pub const LOG: &str = "log";

/// Subresource with the standard streams of a running container, which the node's agent serves.
pub const ATTACH: &str = "attach";

/// Subresource that adds ephemeral containers to a Pod.
pub const EPHEMERAL_CONTAINERS: &str = "ephemeralcontainers";

/// Subresource that executes a command in a container, which the node's agent serves.
pub const EXEC: &str = "exec";

/// Subresource that forwards connections to ports of a Pod, which the node's agent serves.
pub const PORT_FORWARD: &str = "portforward";

/// Subresource with the observation of a Node, which the node's agent answers.
pub const OBSERVATION: &str = "observation";

/// Subresource with the flows through the proxy of a Node, which the node's agent answers.
pub const FLOWS: &str = "flows";

/// API group of Portolan's own kinds.
pub const PORTOLAN_GROUP: &str = "portolan.dev";

/// A served kind. [`all`] is the table; [`find`] and [`find_by_kind`] look rows up.
///
/// ```
/// let kind = api::kind::find_by_kind("discovery.k8s.io/v1", "EndpointSlice").expect("a served kind");
/// assert_eq!(kind.root_path(), "/apis/discovery.k8s.io/v1");
/// assert_eq!(kind.store_key("default", "web-1"), "/discovery.k8s.io/endpointslices/default/web-1");
/// ```
#[derive(Debug)]
pub struct Kind {
    /// API group, "" for the core group.
    pub group: &'static str,
    /// Version in the group.
    pub version: &'static str,
    /// `kind` of an object.
    pub kind: &'static str,
    /// `kind` of a list; "" for reviews, which are not stored.
    pub list_kind: &'static str,
    /// Name in paths.
    pub plural: &'static str,
    /// Singular name for kubectl.
    pub singular: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Categories for kubectl, such as `all`.
    pub categories: &'static [&'static str],
    /// True if objects live in a namespace.
    pub namespaced: bool,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
    /// Subresources, sorted by name.
    pub subresources: &'static [Subresource],
    /// Name of the definition in the OpenAPI documents and in [`schema`](crate::schema).
    pub definition: &'static str,
    /// True if a PUT to an unused name creates the object (API-06).
    pub create_on_update: bool,
    /// True if an update does not need `metadata.resourceVersion` (API-06).
    pub unconditional_update: bool,
    /// True if `metadata.generation` counts changes of the desired state (API-54).
    pub has_generation: bool,
    /// True if the response to a delete is the deleted object instead of a `Status` (API-09).
    pub delete_returns_object: bool,
}

/// A subresource: a path below an object.
#[derive(Debug)]
pub struct Subresource {
    /// Last segment of the path.
    pub name: &'static str,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
    /// `kind` in discovery, if it is not that of the object.
    pub kind: Option<&'static str>,
    /// Kind of request and response bodies, if it is not that of the object.
    pub body_kind: Option<&'static Kind>,
}

/// Returns all kinds with a schema, ordered by group, then by plural.
pub fn all() -> &'static [Kind] {
    KINDS
}

/// Returns the kinds of [`all`], then those of `metrics.k8s.io`, which are measured and have no schema.
pub fn served() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().chain(MEASURED)
}

/// Finds the kind at `/apis/{group}/{version}/…/{plural}`, or at `/api/{version}/…` for the group "".
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    served().find(|row| row.plural == plural && row.group == group && row.version == version)
}

/// Finds the kind of an object by its `apiVersion` and `kind`.
pub fn find_by_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|row| row.kind == kind && row.is_api_version(api_version))
}

impl Kind {
    /// Returns the `apiVersion`: `v1`, `discovery.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns true if `api_version` is that of the kind. Does not allocate.
    pub fn is_api_version(&self, api_version: &str) -> bool {
        match api_version.split_once('/') {
            Some((group, version)) => self.group == group && self.version == version,
            None => self.group.is_empty() && self.version == api_version,
        }
    }

    /// Returns the path of the group and version: `/api/v1`, `/apis/discovery.k8s.io/v1`.
    pub fn root_path(&self) -> String {
        root_path(self.group, self.version)
    }

    /// Returns the name in `Status.details.kind` and in messages: `services`, `endpointslices.discovery.k8s.io`.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns the subresource of a name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }

    /// Returns true if objects of the kind are stored. Reviews are not: the server answers them at once.
    pub fn is_stored(&self) -> bool {
        !self.list_kind.is_empty()
    }

    /// Returns true if objects of the kind are measurements of nodes, which the server builds for each request.
    pub fn is_measured(&self) -> bool {
        self.group == resource_metrics::GROUP
    }

    /// Returns true if the kind has a protobuf encoding. Portolan's own kinds, measurements, and kinds that upstream
    /// defines as custom resources have none.
    pub fn has_protobuf(&self) -> bool {
        ![PORTOLAN_GROUP, multicluster::GROUP, resource_metrics::GROUP].contains(&self.group)
    }

    /// Returns true if the kind has a `status` subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Returns the kind in whose form objects are stored. Objects of `events.k8s.io` are stored as Events of the core
    /// group. Objects of earlier multi-cluster versions are stored in the form of the latest one. For other kinds it
    /// is the kind itself.
    pub fn stored(&'static self) -> &'static Kind {
        match self.form() {
            Form::Stored => self,
            Form::Event => find("", "v1", self.plural).unwrap_or(self),
            Form::EarlierMultiCluster => {
                find(multicluster::GROUP, multicluster::VERSION, self.plural).unwrap_or(self)
            }
        }
    }

    /// Returns true if objects are stored in the form of this kind.
    pub fn is_stored_form(&self) -> bool {
        matches!(self.form(), Form::Stored)
    }

    fn form(&self) -> Form {
        if self.group == event::GROUP {
            Form::Event
        } else if self.group == multicluster::GROUP && self.version != multicluster::VERSION {
            Form::EarlierMultiCluster
        } else {
            Form::Stored
        }
    }

    /// Converts an object of this kind to its stored form.
    pub fn into_stored(&self, object: Value) -> Value {
        match self.form() {
            Form::Stored => object,
            Form::Event => event::into_core(object),
            Form::EarlierMultiCluster => multicluster::in_version(object, multicluster::VERSION),
        }
    }

    /// Converts a stored object to the form of this kind.
    pub fn of_stored(&self, object: Value) -> Value {
        match self.form() {
            Form::Stored => object,
            Form::Event => event::of_core(object),
            Form::EarlierMultiCluster => multicluster::in_version(object, self.version),
        }
    }

    /// Returns the store key of an object. Cluster-scoped kinds ignore `namespace`.
    pub fn store_key(&self, namespace: &str, name: &str) -> String {
        let mut key = self.store_prefix(Some(namespace));
        key.push_str(name);
        key
    }

    /// Returns the prefix of the store keys of all objects, or of those in one namespace. Ends with `/`.
    pub fn store_prefix(&self, namespace: Option<&str>) -> String {
        let group = match self.form() {
            Form::Event => "",
            Form::Stored | Form::EarlierMultiCluster => self.group,
        };
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

/// Relation of a kind to the form in which its objects are stored.
enum Form {
    /// The stored form.
    Stored,
    /// An Event, stored as one of the core group.
    Event,
    /// An earlier version of a multi-cluster kind, stored in the present one.
    EarlierMultiCluster,
}

/// Returns the path of a group and version: `/api/v1`, `/apis/discovery.k8s.io/v1`.
pub fn root_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

#[cfg(test)]
mod tests;
