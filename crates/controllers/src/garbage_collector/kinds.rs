//! The kinds that the garbage collector watches, with their metadata and locations.

use api::object::{ObjectKey, ObjectMeta, OwnerReference, Resource};
use client::{Event, Query};
use reconcile::watches;
use tokio::sync::mpsc::Sender;

use crate::environment::Environment;

/// Declares the kinds, each with a view of its metadata.
macro_rules! kinds {
    ($($kind:ident $group:literal $version:literal $plural:literal $is_namespaced:literal;)*) => {
        /// A kind that can own and be owned. Events are excluded; they expire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Kind {
            $(#[doc = concat!("`", $plural, "`")] $kind),*
        }

        impl Kind {
            /// All kinds.
            pub(crate) const ALL: &[Self] = &[$(Self::$kind),*];

            /// Returns true if the kind is namespaced.
            pub(crate) fn is_namespaced(self) -> bool {
                match self { $(Self::$kind => $is_namespaced),* }
            }

            /// Returns true if every Kubernetes API server has the kind, so that its initial list can be
            /// awaited. A foreign cluster may lack Portolan's own kinds and those of multi-cluster Services.
            pub(crate) fn is_everywhere(self) -> bool {
                match self { $(Self::$kind => !["portolan.dev", "multicluster.x-k8s.io"].contains(&$group)),* }
            }

            /// Returns the kind of an owner reference, if it is watched.
            pub(crate) fn find(api_version: &str, kind: &str) -> Option<Self> {
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

        /// Watches all kinds, each in a task that ends with the receiver.
        pub(super) fn watch_all(environment: &Environment, sender: &Sender<Change>) {
            $(watch_kind(environment, sender.clone(), Kind::$kind, |view: views::$kind| view.metadata);)*
        }
    };
}

kinds! {
    ConfigMap "" "v1" "configmaps" true;
    Endpoints "" "v1" "endpoints" true;
    Namespace "" "v1" "namespaces" false;
    Node "" "v1" "nodes" false;
    Pod "" "v1" "pods" true;
    ReplicationController "" "v1" "replicationcontrollers" true;
    Secret "" "v1" "secrets" true;
    ServiceAccount "" "v1" "serviceaccounts" true;
    Service "" "v1" "services" true;
    ControllerRevision "apps" "v1" "controllerrevisions" true;
    DaemonSet "apps" "v1" "daemonsets" true;
    Deployment "apps" "v1" "deployments" true;
    ReplicaSet "apps" "v1" "replicasets" true;
    StatefulSet "apps" "v1" "statefulsets" true;
    Job "batch" "v1" "jobs" true;
    CertificateSigningRequest "certificates.k8s.io" "v1" "certificatesigningrequests" false;
    Lease "coordination.k8s.io" "v1" "leases" true;
    EndpointSlice "discovery.k8s.io" "v1" "endpointslices" true;
    ServiceExport "multicluster.x-k8s.io" "v1beta1" "serviceexports" true;
    ServiceImport "multicluster.x-k8s.io" "v1beta1" "serviceimports" true;
    IngressClass "networking.k8s.io" "v1" "ingressclasses" false;
    Ingress "networking.k8s.io" "v1" "ingresses" true;
    IPAddress "networking.k8s.io" "v1" "ipaddresses" false;
    ServiceCIDR "networking.k8s.io" "v1" "servicecidrs" false;
    ClusterRole "rbac.authorization.k8s.io" "v1" "clusterroles" false;
    ClusterRoleBinding "rbac.authorization.k8s.io" "v1" "clusterrolebindings" false;
    Role "rbac.authorization.k8s.io" "v1" "roles" true;
    RoleBinding "rbac.authorization.k8s.io" "v1" "rolebindings" true;
    AddressPool "portolan.dev" "v1alpha1" "addresspools" false;
    BFDProfile "portolan.dev" "v1alpha1" "bfdprofiles" false;
    BGPAdvertisement "portolan.dev" "v1alpha1" "bgpadvertisements" false;
    BGPPeer "portolan.dev" "v1alpha1" "bgppeers" false;
    Community "portolan.dev" "v1alpha1" "communities" false;
}

/// A change of an object.
pub(super) struct Change {
    pub(super) kind: Kind,
    pub(super) event: Event<ObjectMeta>,
}

/// Kind, namespace and name of an object, independent of its UID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectLocation {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace and name.
    pub key: ObjectKey,
}

impl ObjectLocation {
    /// Creates a location.
    pub(crate) fn new(kind: Kind, key: ObjectKey) -> Self {
        Self { kind, key }
    }

    /// Returns the location of an owner. `None` if its kind is not watched, or if a cluster-scoped object
    /// names a namespaced owner.
    pub(crate) fn of_owner(&self, owner: &OwnerReference) -> Option<Self> {
        let kind = Kind::find(&owner.api_version, &owner.kind)?;
        let namespace = match (kind.is_namespaced(), self.kind.is_namespaced()) {
            (false, _) => "",
            (true, true) => &self.key.namespace,
            (true, false) => return None,
        };
        Some(Self::new(kind, ObjectKey::new(namespace, &owner.name)))
    }

    /// Returns the path of the object in the API. The name is escaped: that of an owner is any text that the author
    /// of a dependent chose, such as `pod/proxy/path` or `?watch=true`.
    pub(super) fn path(&self) -> String {
        let namespace = self.kind.is_namespaced().then_some(&*self.key.namespace);
        let mut path = self.kind.collection(namespace);
        path.push('/');
        client::push_escaped(&mut path, &self.key.name);
        path
    }
}

/// Watches a kind. Pods have a watch that controllers share.
fn watch_kind<T: Resource>(
    environment: &Environment,
    sender: Sender<Change>,
    kind: Kind,
    read: fn(T) -> ObjectMeta,
) {
    let to_change = move |event: Event<T>| Change {
        kind,
        event: metadata_of(event, read),
    };
    if kind == Kind::Pod {
        environment.pods.forward(sender, move |event, _| to_change(event));
    } else {
        watches::forward(&environment.client, Query::default(), sender, to_change);
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
