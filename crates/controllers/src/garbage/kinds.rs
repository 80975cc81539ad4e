//! The kinds that can own and be owned: what is read of them, where they are, and their watches.

use api::object::{ObjectKey, ObjectMeta, OwnerReference, Resource};
use client::{Event, Query};
use tokio::sync::mpsc::Sender;

use crate::keeper::forward;
use crate::run::Environment;

/// Declares the kinds: their rows, and a view of each that holds nothing but its metadata.
macro_rules! kinds {
    ($($kind:ident $group:literal $version:literal $plural:literal $is_namespaced:literal;)*) => {
        /// A kind whose objects own and are owned. Events are none: they go by themselves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = concat!("`", $plural, "`")] $kind),*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// Whether the objects live in a namespace.
            pub fn is_namespaced(self) -> bool {
                match self { $(Self::$kind => $is_namespaced),* }
            }

            /// Whether every server of Kubernetes' API has the kind, so that its list can be waited for. Portolan's
            /// own kinds are no part of a foreign cluster that was not told of them.
            pub fn is_everywhere(self) -> bool {
                match self { $(Self::$kind => $group != "portolan.dev"),* }
            }

            /// The kind of an owner reference, if it is watched here.
            pub fn find(api_version: &str, kind: &str) -> Option<Self> {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                match (group, version, kind) {
                    $(($group, $version, name) if name == stringify!($kind) => Some(Self::$kind),)*
                    _ => None,
                }
            }

            fn collection(self, namespace: Option<&str>) -> String {
                match self { $(Self::$kind => views::$kind::collection(namespace)),* }
            }
        }

        mod views {
            use super::ObjectMeta;

            $(
                #[derive(serde::Deserialize)]
                pub(super) struct $kind {
                    #[serde(default)]
                    pub(super) metadata: ObjectMeta,
                }

                api::resource!($kind, $group, $version, stringify!($kind), $plural);
            )*
        }

        /// Watches all kinds, each in a task of its own that ends with the receiver.
        pub(super) fn watch_all(environment: &Environment, sender: &Sender<Change>) {
            $(forward(environment, Query::default(), sender.clone(), |event| Change {
                kind: Kind::$kind,
                event: metadata_of(event, |view: views::$kind| view.metadata),
            });)*
        }
    };
}

kinds! {
    ConfigMap "" "v1" "configmaps" true;
    Endpoints "" "v1" "endpoints" true;
    Namespace "" "v1" "namespaces" false;
    Node "" "v1" "nodes" false;
    Pod "" "v1" "pods" true;
    Secret "" "v1" "secrets" true;
    ServiceAccount "" "v1" "serviceaccounts" true;
    Service "" "v1" "services" true;
    Deployment "apps" "v1" "deployments" true;
    ReplicaSet "apps" "v1" "replicasets" true;
    CertificateSigningRequest "certificates.k8s.io" "v1" "certificatesigningrequests" false;
    Lease "coordination.k8s.io" "v1" "leases" true;
    EndpointSlice "discovery.k8s.io" "v1" "endpointslices" true;
    IPAddress "networking.k8s.io" "v1" "ipaddresses" false;
    ServiceCIDR "networking.k8s.io" "v1" "servicecidrs" false;
    ClusterRole "rbac.authorization.k8s.io" "v1" "clusterroles" false;
    ClusterRoleBinding "rbac.authorization.k8s.io" "v1" "clusterrolebindings" false;
    Role "rbac.authorization.k8s.io" "v1" "roles" true;
    RoleBinding "rbac.authorization.k8s.io" "v1" "rolebindings" true;
    AddressPool "portolan.dev" "v1alpha1" "addresspools" false;
}

/// What happened to an object of a kind.
pub(super) struct Change {
    pub(super) kind: Kind,
    pub(super) event: Event<ObjectMeta>,
}

/// Where an object is: whichever has the kind, the namespace and the name at the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The kind.
    pub kind: Kind,
    /// Namespace and name.
    pub key: ObjectKey,
}

impl Place {
    /// The place of a kind's object.
    pub fn new(kind: Kind, key: ObjectKey) -> Self {
        Self { kind, key }
    }

    /// Where the owner of the object at this place is. None if nobody can say: the kind is not watched
    /// here, or an object without a namespace names an owner that has one.
    pub fn of_owner(&self, owner: &OwnerReference) -> Option<Self> {
        let kind = Kind::find(&owner.api_version, &owner.kind)?;
        let namespace = match (kind.is_namespaced(), self.kind.is_namespaced()) {
            (false, _) => "",
            (true, true) => &self.key.namespace,
            (true, false) => return None,
        };
        Some(Self::new(kind, ObjectKey::new(namespace, &owner.name)))
    }

    /// The object's path.
    pub(super) fn path(&self) -> String {
        let namespace = self.kind.is_namespaced().then_some(&*self.key.namespace);
        format!("{}/{}", self.kind.collection(namespace), self.key.name)
    }
}

fn metadata_of<T>(event: Event<T>, read: fn(T) -> ObjectMeta) -> Event<ObjectMeta> {
    match event {
        Event::Applied(object) => Event::Applied(read(object)),
        Event::Deleted(key) => Event::Deleted(key),
        Event::Synced => Event::Synced,
        Event::Malformed { key, error } => Event::Malformed { key, error },
    }
}

#[cfg(test)]
mod tests;
