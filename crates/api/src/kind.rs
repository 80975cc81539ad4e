//! The served kinds, as rows of one table: what discovery says of them, where the store keeps them and how the
//! verbs treat them.

use serde_json::Value;

use crate::certificates;
use crate::event;

/// Every verb of a kind that is served in full, in the order of discovery.
const ALL_VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The verb of a kind that is a question: it is answered and never kept.
const QUESTION_VERBS: &[&str] = &["create"];

/// The verbs of a `status` or `scale` subresource.
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// The verbs of a `proxy` subresource: one for each method that is passed on.
const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

/// The word of the subresource that passes requests on (API-03).
pub const PROXY: &str = "proxy";

/// The word of the subresource that says how many replicas there are to be, in a form that is the same for all kinds.
pub const SCALE: &str = "scale";

/// The word of the subresource that is asked of the agent of a Pod's node.
pub const LOG: &str = "log";

const STATUS: Subresource = Subresource {
    name: "status",
    verbs: STATUS_VERBS,
    kind: None,
    sent: None,
};

const SCALE_OF_REPLICAS: Subresource = Subresource {
    name: SCALE,
    verbs: STATUS_VERBS,
    kind: None,
    sent: Some(&SCALE_KIND),
};

/// Where it is decided whether a certificate is signed.
const APPROVAL: Subresource = Subresource {
    name: "approval",
    verbs: STATUS_VERBS,
    kind: None,
    sent: None,
};

const LOG_OF_POD: Subresource = Subresource {
    name: LOG,
    verbs: &["get"],
    // Text, which the description of the API has no form for.
    kind: Some("Pod"),
    sent: None,
};

const fn proxy(kind: &'static str) -> Subresource {
    Subresource {
        name: PROXY,
        verbs: PROXY_VERBS,
        kind: Some(kind),
        sent: None,
    }
}

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
    /// Name of the definition in the OpenAPI documents and in [`crate::schema`].
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

/// What most rows have in common: a namespaced core kind with nothing special.
const CORE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    list_kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL_VERBS,
    subresources: &[],
    definition: "",
    create_on_update: false,
    unconditional_update: true,
    has_generation: false,
    delete_returns_object: false,
};

/// The API group of Portolan's own kinds.
pub const PORTOLAN_GROUP: &str = "portolan.dev";

/// What all questions about who may do what have in common.
const QUESTION: Kind = Kind {
    namespaced: false,
    verbs: QUESTION_VERBS,
    ..CORE
};

/// What roles and their bindings have in common.
const RBAC: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    create_on_update: true,
    ..CORE
};

/// The question for a token of a ServiceAccount, which is asked below the ServiceAccount.
pub static TOKEN_REQUEST: Kind = Kind {
    group: "authentication.k8s.io",
    kind: "TokenRequest",
    definition: "io.k8s.api.authentication.v1.TokenRequest",
    ..QUESTION
};

/// How many replicas an object has and is to have, which is read and written below the object.
pub static SCALE_KIND: Kind = Kind {
    group: "autoscaling",
    kind: "Scale",
    definition: "io.k8s.api.autoscaling.v1.Scale",
    verbs: STATUS_VERBS,
    ..CORE
};

/// What Deployments and ReplicaSets have in common.
const APPS: Kind = Kind {
    group: "apps",
    categories: &["all"],
    subresources: &[SCALE_OF_REPLICAS, STATUS],
    has_generation: true,
    ..CORE
};

static KINDS: &[Kind] = &[
    Kind {
        kind: "ConfigMap",
        list_kind: "ConfigMapList",
        plural: "configmaps",
        singular: "configmap",
        short_names: &["cm"],
        definition: "io.k8s.api.core.v1.ConfigMap",
        ..CORE
    },
    Kind {
        kind: "Endpoints",
        list_kind: "EndpointsList",
        plural: "endpoints",
        singular: "endpoints",
        short_names: &["ep"],
        definition: "io.k8s.api.core.v1.Endpoints",
        create_on_update: true,
        ..CORE
    },
    Kind {
        kind: "Event",
        list_kind: "EventList",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        definition: "io.k8s.api.core.v1.Event",
        create_on_update: true,
        ..CORE
    },
    Kind {
        kind: "Namespace",
        list_kind: "NamespaceList",
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        namespaced: false,
        // Namespaces are never deleted all at once.
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
        subresources: &[
            Subresource {
                name: "finalize",
                verbs: &["update"],
                kind: None,
                sent: None,
            },
            STATUS,
        ],
        definition: "io.k8s.api.core.v1.Namespace",
        ..CORE
    },
    Kind {
        kind: "Node",
        list_kind: "NodeList",
        plural: "nodes",
        singular: "node",
        short_names: &["no"],
        namespaced: false,
        subresources: &[STATUS],
        definition: "io.k8s.api.core.v1.Node",
        ..CORE
    },
    Kind {
        kind: "Pod",
        list_kind: "PodList",
        plural: "pods",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        subresources: &[LOG_OF_POD, proxy("PodProxyOptions"), STATUS],
        definition: "io.k8s.api.core.v1.Pod",
        has_generation: true,
        delete_returns_object: true,
        ..CORE
    },
    Kind {
        kind: "Secret",
        list_kind: "SecretList",
        plural: "secrets",
        singular: "secret",
        definition: "io.k8s.api.core.v1.Secret",
        ..CORE
    },
    Kind {
        kind: "ServiceAccount",
        list_kind: "ServiceAccountList",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short_names: &["sa"],
        subresources: &[Subresource {
            name: "token",
            verbs: QUESTION_VERBS,
            kind: None,
            sent: Some(&TOKEN_REQUEST),
        }],
        definition: "io.k8s.api.core.v1.ServiceAccount",
        delete_returns_object: true,
        ..CORE
    },
    Kind {
        kind: "Service",
        list_kind: "ServiceList",
        plural: "services",
        singular: "service",
        short_names: &["svc"],
        categories: &["all"],
        subresources: &[proxy("ServiceProxyOptions"), STATUS],
        definition: "io.k8s.api.core.v1.Service",
        create_on_update: true,
        delete_returns_object: true,
        ..CORE
    },
    Kind {
        kind: "Deployment",
        list_kind: "DeploymentList",
        plural: "deployments",
        singular: "deployment",
        short_names: &["deploy"],
        definition: "io.k8s.api.apps.v1.Deployment",
        ..APPS
    },
    Kind {
        kind: "ReplicaSet",
        list_kind: "ReplicaSetList",
        plural: "replicasets",
        singular: "replicaset",
        short_names: &["rs"],
        definition: "io.k8s.api.apps.v1.ReplicaSet",
        ..APPS
    },
    Kind {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        definition: "io.k8s.api.authentication.v1.SelfSubjectReview",
        ..QUESTION
    },
    Kind {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        definition: "io.k8s.api.authentication.v1.TokenReview",
        ..QUESTION
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        namespaced: true,
        definition: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        ..QUESTION
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        definition: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        ..QUESTION
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        definition: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        ..QUESTION
    },
    Kind {
        group: "authorization.k8s.io",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        definition: "io.k8s.api.authorization.v1.SubjectAccessReview",
        ..QUESTION
    },
    Kind {
        group: certificates::GROUP,
        kind: "CertificateSigningRequest",
        list_kind: "CertificateSigningRequestList",
        plural: "certificatesigningrequests",
        singular: "certificatesigningrequest",
        short_names: &["csr"],
        namespaced: false,
        subresources: &[APPROVAL, STATUS],
        definition: "io.k8s.api.certificates.v1.CertificateSigningRequest",
        ..CORE
    },
    Kind {
        group: "coordination.k8s.io",
        kind: "Lease",
        list_kind: "LeaseList",
        plural: "leases",
        singular: "lease",
        definition: "io.k8s.api.coordination.v1.Lease",
        create_on_update: true,
        unconditional_update: false,
        ..CORE
    },
    Kind {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        list_kind: "EndpointSliceList",
        plural: "endpointslices",
        singular: "endpointslice",
        definition: "io.k8s.api.discovery.v1.EndpointSlice",
        has_generation: true,
        ..CORE
    },
    Kind {
        group: event::GROUP,
        kind: "Event",
        list_kind: "EventList",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        definition: "io.k8s.api.events.v1.Event",
        create_on_update: true,
        ..CORE
    },
    Kind {
        group: "networking.k8s.io",
        kind: "IPAddress",
        list_kind: "IPAddressList",
        plural: "ipaddresses",
        singular: "ipaddress",
        short_names: &["ip"],
        namespaced: false,
        definition: "io.k8s.api.networking.v1.IPAddress",
        ..CORE
    },
    Kind {
        group: "networking.k8s.io",
        kind: "ServiceCIDR",
        list_kind: "ServiceCIDRList",
        plural: "servicecidrs",
        singular: "servicecidr",
        namespaced: false,
        subresources: &[STATUS],
        definition: "io.k8s.api.networking.v1.ServiceCIDR",
        ..CORE
    },
    Kind {
        group: PORTOLAN_GROUP,
        version: "v1alpha1",
        kind: "AddressPool",
        list_kind: "AddressPoolList",
        plural: "addresspools",
        singular: "addresspool",
        namespaced: false,
        subresources: &[STATUS],
        definition: "dev.portolan.v1alpha1.AddressPool",
        unconditional_update: false,
        has_generation: true,
        ..CORE
    },
    Kind {
        kind: "ClusterRoleBinding",
        list_kind: "ClusterRoleBindingList",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        namespaced: false,
        definition: "io.k8s.api.rbac.v1.ClusterRoleBinding",
        ..RBAC
    },
    Kind {
        kind: "ClusterRole",
        list_kind: "ClusterRoleList",
        plural: "clusterroles",
        singular: "clusterrole",
        namespaced: false,
        definition: "io.k8s.api.rbac.v1.ClusterRole",
        ..RBAC
    },
    Kind {
        kind: "RoleBinding",
        list_kind: "RoleBindingList",
        plural: "rolebindings",
        singular: "rolebinding",
        definition: "io.k8s.api.rbac.v1.RoleBinding",
        ..RBAC
    },
    Kind {
        kind: "Role",
        list_kind: "RoleList",
        plural: "roles",
        singular: "role",
        definition: "io.k8s.api.rbac.v1.Role",
        ..RBAC
    },
];

#[cfg(test)]
mod tests;
