//! Kinds of objects that the rules read.

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants have the names of the Kubernetes API")]
pub enum Kind {
    Service,
    Endpoints,
    EndpointSlice,
    Pod,
    Node,
    Namespace,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Ingress,
    IngressClass,
    NetworkPolicy,
    ResourceQuota,
    ServiceCidr,
    Event,
    /// ConfigMaps. Only those of kube-system are read from an API server.
    ConfigMap,
    Lease,
    ValidatingWebhookConfiguration,
    MutatingWebhookConfiguration,
    ApiService,
    HttpRoute,
    GrpcRoute,
    TcpRoute,
    TlsRoute,
    UdpRoute,
    /// AddressPool of Portolan.
    AddressPool,
    /// IPAddressPool of MetalLB.
    IpAddressPool,
    /// L2Advertisement of MetalLB.
    L2Advertisement,
    /// BGPAdvertisement of MetalLB.
    BgpAdvertisement,
    /// BGPPeer of MetalLB.
    BgpPeer,
    /// Observation of a node. No API server serves it.
    NodeObservation,
}

/// Names of a kind in the API.
struct Names {
    kind: Kind,
    name: &'static str,
    /// API group; "" for the core group.
    group: &'static str,
    /// Version that is listed.
    version: &'static str,
    plural: &'static str,
    is_namespaced: bool,
}

const fn names(
    kind: Kind,
    name: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    is_namespaced: bool,
) -> Names {
    Names {
        kind,
        name,
        group,
        version,
        plural,
        is_namespaced,
    }
}

/// Returns the names of a kind of routes of the Gateway API.
const fn route(kind: Kind, name: &'static str, version: &'static str, plural: &'static str) -> Names {
    names(kind, name, "gateway.networking.k8s.io", version, plural, true)
}

const NAMES: &[Names] = &[
    names(Kind::Service, "Service", "", "v1", "services", true),
    names(Kind::Endpoints, "Endpoints", "", "v1", "endpoints", true),
    names(
        Kind::EndpointSlice,
        "EndpointSlice",
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        true,
    ),
    names(Kind::Pod, "Pod", "", "v1", "pods", true),
    names(Kind::Node, "Node", "", "v1", "nodes", false),
    names(Kind::Namespace, "Namespace", "", "v1", "namespaces", false),
    names(Kind::Deployment, "Deployment", "apps", "v1", "deployments", true),
    names(Kind::ReplicaSet, "ReplicaSet", "apps", "v1", "replicasets", true),
    names(
        Kind::StatefulSet,
        "StatefulSet",
        "apps",
        "v1",
        "statefulsets",
        true,
    ),
    names(Kind::DaemonSet, "DaemonSet", "apps", "v1", "daemonsets", true),
    names(Kind::Job, "Job", "batch", "v1", "jobs", true),
    names(Kind::CronJob, "CronJob", "batch", "v1", "cronjobs", true),
    names(
        Kind::Ingress,
        "Ingress",
        "networking.k8s.io",
        "v1",
        "ingresses",
        true,
    ),
    names(
        Kind::IngressClass,
        "IngressClass",
        "networking.k8s.io",
        "v1",
        "ingressclasses",
        false,
    ),
    names(
        Kind::NetworkPolicy,
        "NetworkPolicy",
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        true,
    ),
    names(
        Kind::ResourceQuota,
        "ResourceQuota",
        "",
        "v1",
        "resourcequotas",
        true,
    ),
    names(
        Kind::ServiceCidr,
        "ServiceCIDR",
        "networking.k8s.io",
        "v1",
        "servicecidrs",
        false,
    ),
    names(Kind::Event, "Event", "", "v1", "events", true),
    names(Kind::ConfigMap, "ConfigMap", "", "v1", "configmaps", true),
    names(Kind::Lease, "Lease", "coordination.k8s.io", "v1", "leases", true),
    names(
        Kind::ValidatingWebhookConfiguration,
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        false,
    ),
    names(
        Kind::MutatingWebhookConfiguration,
        "MutatingWebhookConfiguration",
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        false,
    ),
    names(
        Kind::ApiService,
        "APIService",
        "apiregistration.k8s.io",
        "v1",
        "apiservices",
        false,
    ),
    route(Kind::HttpRoute, "HTTPRoute", "v1", "httproutes"),
    route(Kind::GrpcRoute, "GRPCRoute", "v1", "grpcroutes"),
    route(Kind::TcpRoute, "TCPRoute", "v1", "tcproutes"),
    route(Kind::TlsRoute, "TLSRoute", "v1", "tlsroutes"),
    route(Kind::UdpRoute, "UDPRoute", "v1", "udproutes"),
    names(
        Kind::AddressPool,
        "AddressPool",
        "portolan.dev",
        "v1alpha1",
        "addresspools",
        false,
    ),
    names(
        Kind::IpAddressPool,
        "IPAddressPool",
        "metallb.io",
        "v1beta1",
        "ipaddresspools",
        true,
    ),
    names(
        Kind::L2Advertisement,
        "L2Advertisement",
        "metallb.io",
        "v1beta1",
        "l2advertisements",
        true,
    ),
    names(
        Kind::BgpAdvertisement,
        "BGPAdvertisement",
        "metallb.io",
        "v1beta1",
        "bgpadvertisements",
        true,
    ),
    names(
        Kind::BgpPeer,
        "BGPPeer",
        "metallb.io",
        "v1beta2",
        "bgppeers",
        true,
    ),
    names(
        Kind::NodeObservation,
        "NodeObservation",
        "doctor.portolan.dev",
        "v1",
        "nodeobservations",
        false,
    ),
];

impl Kind {
    /// Returns all kinds that API servers serve.
    pub fn served() -> impl Iterator<Item = Self> {
        let kinds = NAMES.iter().map(|names| names.kind);
        kinds.filter(|kind| *kind != Self::NodeObservation)
    }

    /// Returns the kind of an object with this `kind` and `apiVersion`. An absent `apiVersion` matches any group. The
    /// version is not compared: the fields that the rules read are the same in all versions.
    pub fn named(name: &str, api_version: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        NAMES
            .iter()
            .find(|names| names.name == name && (api_version.is_empty() || names.group == group))
            .map(|names| names.kind)
    }

    fn names(self) -> &'static Names {
        NAMES.iter().find(|names| names.kind == self).unwrap_or(&NAMES[0])
    }

    /// Returns the name, such as `Service`.
    pub fn name(self) -> &'static str {
        self.names().name
    }

    /// Returns true if objects of the kind have a namespace.
    pub fn is_namespaced(self) -> bool {
        self.names().is_namespaced
    }

    /// Returns the path of the objects in the API: those of all namespaces, and only those of kube-system for
    /// ConfigMaps.
    pub fn collection(self) -> String {
        let names = self.names();
        let (version, plural) = (names.version, names.plural);
        if self == Self::ConfigMap {
            return format!("/api/{version}/namespaces/kube-system/{plural}");
        }
        if names.group.is_empty() {
            format!("/api/{version}/{plural}")
        } else {
            format!("/apis/{}/{version}/{plural}", names.group)
        }
    }
}
