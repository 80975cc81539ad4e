//! The table of the served kinds.

use super::{
    ATTACH, EPHEMERAL_CONTAINERS, EXEC, FLOWS, Kind, LOG, OBSERVATION, PORT_FORWARD, PORTOLAN_GROUP, PROXY,
    SCALE, Subresource,
};
use crate::kinds::{batch, certificates, event, multicluster, resource_metrics};

/// Verbs of a stored kind, in the order of discovery.
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

/// Verbs of a review, which is answered and not stored.
const REVIEW_VERBS: &[&str] = &["create"];

/// Verbs of a subresource that reads and changes a part of an object.
const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// Verbs of a `proxy` subresource: one for each HTTP method that is passed on.
const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

const STATUS: Subresource = Subresource {
    name: "status",
    verbs: STATUS_VERBS,
    kind: None,
    body_kind: None,
};

const SCALE_OF_REPLICAS: Subresource = Subresource {
    name: SCALE,
    verbs: STATUS_VERBS,
    kind: None,
    body_kind: Some(&SCALE_KIND),
};

/// Decision about a CertificateSigningRequest.
const APPROVAL: Subresource = Subresource {
    name: "approval",
    verbs: STATUS_VERBS,
    kind: None,
    body_kind: None,
};

const EPHEMERAL_CONTAINERS_OF_POD: Subresource = Subresource {
    name: EPHEMERAL_CONTAINERS,
    verbs: STATUS_VERBS,
    kind: None,
    body_kind: None,
};

const LOG_OF_POD: Subresource = Subresource {
    name: LOG,
    verbs: &["get"],
    // The body is text, for which discovery has no kind.
    kind: Some("Pod"),
    body_kind: None,
};

/// Streams to a Pod: a GET upgrades the connection to WebSocket, a POST to SPDY.
const fn streams(name: &'static str, kind: &'static str) -> Subresource {
    Subresource {
        name,
        verbs: &["create", "get"],
        kind: Some(kind),
        body_kind: None,
    }
}

/// Report about a node. Upstream has no schema for it.
const fn report(name: &'static str, kind: &'static str) -> Subresource {
    Subresource {
        name,
        verbs: &["get"],
        kind: Some(kind),
        body_kind: None,
    }
}

const fn proxy(kind: &'static str) -> Subresource {
    Subresource {
        name: PROXY,
        verbs: PROXY_VERBS,
        kind: Some(kind),
        body_kind: None,
    }
}

/// Base of most rows: a namespaced kind of the core group.
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

/// Base of the reviews.
const QUESTION: Kind = Kind {
    namespaced: false,
    verbs: REVIEW_VERBS,
    ..CORE
};

/// Base of roles and their bindings.
const RBAC: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    create_on_update: true,
    ..CORE
};

/// Request for a token of a ServiceAccount, served as a subresource of it.
pub static TOKEN_REQUEST: Kind = Kind {
    group: "authentication.k8s.io",
    kind: "TokenRequest",
    definition: "io.k8s.api.authentication.v1.TokenRequest",
    ..QUESTION
};

/// Number of replicas of an object, served as a subresource of it.
pub static SCALE_KIND: Kind = Kind {
    group: "autoscaling",
    kind: "Scale",
    definition: "io.k8s.api.autoscaling.v1.Scale",
    verbs: STATUS_VERBS,
    ..CORE
};

/// Base of the workloads of `apps/v1`.
const APPS: Kind = Kind {
    group: "apps",
    categories: &["all"],
    subresources: &[SCALE_OF_REPLICAS, STATUS],
    has_generation: true,
    ..CORE
};

/// Base of the kinds of multi-cluster Services, with the rules of custom resources.
const MULTICLUSTER: Kind = Kind {
    group: multicluster::GROUP,
    version: multicluster::VERSION,
    categories: &["multicluster"],
    subresources: &[STATUS],
    unconditional_update: false,
    has_generation: true,
    ..CORE
};

/// Base of ServiceExports.
/// Base of the kinds that configure announcing by BGP.
const BGP: Kind = Kind {
    group: PORTOLAN_GROUP,
    version: "v1alpha1",
    namespaced: false,
    unconditional_update: false,
    has_generation: true,
    ..CORE
};

const SERVICE_EXPORT: Kind = Kind {
    kind: "ServiceExport",
    list_kind: "ServiceExportList",
    plural: "serviceexports",
    singular: "serviceexport",
    short_names: &["svcex", "svcexport"],
    ..MULTICLUSTER
};

/// Base of ServiceImports.
const SERVICE_IMPORT: Kind = Kind {
    kind: "ServiceImport",
    list_kind: "ServiceImportList",
    plural: "serviceimports",
    singular: "serviceimport",
    short_names: &["svcim", "svcimport"],
    ..MULTICLUSTER
};

pub(super) static KINDS: &[Kind] = &[
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
        // As upstream: Namespaces cannot be deleted as a collection.
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
        subresources: &[
            Subresource {
                name: "finalize",
                verbs: &["update"],
                kind: None,
                body_kind: None,
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
        subresources: &[
            report(FLOWS, "NodeFlows"),
            report(OBSERVATION, "NodeObservation"),
            // The agents of nodes serve reads only.
            Subresource {
                verbs: &["get"],
                ..proxy("NodeProxyOptions")
            },
            STATUS,
        ],
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
        subresources: &[
            streams(ATTACH, "PodAttachOptions"),
            EPHEMERAL_CONTAINERS_OF_POD,
            streams(EXEC, "PodExecOptions"),
            LOG_OF_POD,
            streams(PORT_FORWARD, "PodPortForwardOptions"),
            proxy("PodProxyOptions"),
            STATUS,
        ],
        definition: "io.k8s.api.core.v1.Pod",
        has_generation: true,
        delete_returns_object: true,
        ..CORE
    },
    Kind {
        kind: "ReplicationController",
        list_kind: "ReplicationControllerList",
        plural: "replicationcontrollers",
        singular: "replicationcontroller",
        short_names: &["rc"],
        categories: &["all"],
        subresources: &[SCALE_OF_REPLICAS, STATUS],
        definition: "io.k8s.api.core.v1.ReplicationController",
        has_generation: true,
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
            verbs: REVIEW_VERBS,
            kind: None,
            body_kind: Some(&TOKEN_REQUEST),
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
        kind: "ControllerRevision",
        list_kind: "ControllerRevisionList",
        plural: "controllerrevisions",
        singular: "controllerrevision",
        categories: &[],
        subresources: &[],
        definition: "io.k8s.api.apps.v1.ControllerRevision",
        has_generation: false,
        ..APPS
    },
    Kind {
        kind: "DaemonSet",
        list_kind: "DaemonSetList",
        plural: "daemonsets",
        singular: "daemonset",
        short_names: &["ds"],
        subresources: &[STATUS],
        definition: "io.k8s.api.apps.v1.DaemonSet",
        ..APPS
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
        kind: "StatefulSet",
        list_kind: "StatefulSetList",
        plural: "statefulsets",
        singular: "statefulset",
        short_names: &["sts"],
        definition: "io.k8s.api.apps.v1.StatefulSet",
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
        group: batch::GROUP,
        kind: "Job",
        list_kind: "JobList",
        plural: "jobs",
        singular: "job",
        categories: &["all"],
        subresources: &[STATUS],
        definition: "io.k8s.api.batch.v1.Job",
        has_generation: true,
        ..CORE
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
        definition: "io.x-k8s.multicluster.v1beta1.ServiceExport",
        ..SERVICE_EXPORT
    },
    Kind {
        definition: "io.x-k8s.multicluster.v1beta1.ServiceImport",
        ..SERVICE_IMPORT
    },
    Kind {
        version: multicluster::EARLIER_VERSION,
        definition: "io.x-k8s.multicluster.v1alpha1.ServiceExport",
        ..SERVICE_EXPORT
    },
    Kind {
        version: multicluster::EARLIER_VERSION,
        definition: "io.x-k8s.multicluster.v1alpha1.ServiceImport",
        ..SERVICE_IMPORT
    },
    Kind {
        group: "networking.k8s.io",
        kind: "IngressClass",
        list_kind: "IngressClassList",
        plural: "ingressclasses",
        singular: "ingressclass",
        namespaced: false,
        has_generation: true,
        definition: "io.k8s.api.networking.v1.IngressClass",
        ..CORE
    },
    Kind {
        group: "networking.k8s.io",
        kind: "Ingress",
        list_kind: "IngressList",
        plural: "ingresses",
        singular: "ingress",
        short_names: &["ing"],
        subresources: &[STATUS],
        has_generation: true,
        definition: "io.k8s.api.networking.v1.Ingress",
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
        kind: "BFDProfile",
        list_kind: "BFDProfileList",
        plural: "bfdprofiles",
        singular: "bfdprofile",
        definition: "dev.portolan.v1alpha1.BFDProfile",
        ..BGP
    },
    Kind {
        kind: "BGPAdvertisement",
        list_kind: "BGPAdvertisementList",
        plural: "bgpadvertisements",
        singular: "bgpadvertisement",
        definition: "dev.portolan.v1alpha1.BGPAdvertisement",
        ..BGP
    },
    Kind {
        kind: "BGPPeer",
        list_kind: "BGPPeerList",
        plural: "bgppeers",
        singular: "bgppeer",
        definition: "dev.portolan.v1alpha1.BGPPeer",
        ..BGP
    },
    Kind {
        kind: "Community",
        list_kind: "CommunityList",
        plural: "communities",
        singular: "community",
        definition: "dev.portolan.v1alpha1.Community",
        ..BGP
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

/// Base of the measured kinds. Upstream's have no singular names.
const MEASUREMENT: Kind = Kind {
    group: resource_metrics::GROUP,
    version: resource_metrics::VERSION,
    verbs: &["get", "list"],
    ..CORE
};

/// The kinds of `metrics.k8s.io`, which have no schema here.
pub(super) static MEASURED: &[Kind] = &[
    Kind {
        kind: "NodeMetrics",
        list_kind: "NodeMetricsList",
        plural: "nodes",
        namespaced: false,
        ..MEASUREMENT
    },
    Kind {
        kind: "PodMetrics",
        list_kind: "PodMetricsList",
        plural: "pods",
        ..MEASUREMENT
    },
];
