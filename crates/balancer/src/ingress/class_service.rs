//! Service of a class: it has no selector, receives the addresses, and belongs to the class.

use api::edge_secret::EDGE_CLASS;
use api::object::{IngressClass, ObjectKey, Resource, Service};
use serde_json::{Value, json};

/// Namespace of the Services of classes.
pub const NAMESPACE: &str = "kube-system";
/// Prefix of their names; the name of the class follows.
const NAME_PREFIX: &str = "ingress-";
/// Longest name of a Service.
const NAME_BYTES_MAX: usize = 63;
/// Port of HTTP.
pub const HTTP_PORT: u16 = 80;
/// Port of HTTP with TLS.
pub const HTTPS_PORT: u16 = 443;

/// Label of these Services with the name of the class.
const CLASS_LABEL: &str = "portolan.dev/ingress-class";
/// Name of the AddressPool with the addresses of nodes.
pub const NODE_POOL: &str = "ingress-nodes";
/// Priority of this pool: others come first.
const NODE_POOL_PRIORITY: i64 = -1_000;

/// Returns namespace and name of the Service of a class; `None` if no Service can have the name.
pub fn key(class: &str) -> Option<ObjectKey> {
    let name = format!("{NAME_PREFIX}{class}");
    let is_label = name.len() <= NAME_BYTES_MAX && !class.contains('.');
    is_label.then(|| ObjectKey::new(NAMESPACE, &name))
}

/// Returns the name of the class whose Service has this key.
pub fn class_of(key: &ObjectKey) -> Option<&str> {
    (*key.namespace == *NAMESPACE)
        .then(|| key.name.strip_prefix(NAME_PREFIX))
        .flatten()
}

/// Returns true if the Service belongs to the class.
pub fn is_owned(service: &Service, class: &IngressClass) -> bool {
    service.metadata.owner_references.iter().any(|owner| {
        owner.kind == IngressClass::KIND
            && owner.name == class.metadata.name
            && owner.uid == class.metadata.uid
    })
}

/// Returns true if the Service belongs to an IngressClass.
pub fn is_of_class(service: &Service) -> bool {
    let mut owners = service.metadata.owner_references.iter();
    service.metadata.namespace == NAMESPACE && owners.any(|owner| owner.kind == IngressClass::KIND)
}

/// Returns the Service of a class.
pub fn object(class: &IngressClass, key: &ObjectKey) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": &*key.namespace,
            "name": &*key.name,
            "labels": {CLASS_LABEL: class.metadata.name},
            "ownerReferences": [{
                "apiVersion": "networking.k8s.io/v1",
                "kind": IngressClass::KIND,
                "name": class.metadata.name,
                "uid": class.metadata.uid,
                "controller": true,
            }],
        },
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerClass": EDGE_CLASS,
            "allocateLoadBalancerNodePorts": false,
            "ipFamilyPolicy": "PreferDualStack",
            "ports": [
                {"name": "http", "port": HTTP_PORT, "protocol": "TCP", "appProtocol": "http"},
                {"name": "https", "port": HTTPS_PORT, "protocol": "TCP"},
            ],
        },
    })
}

/// Returns the AddressPool with the addresses of nodes, for Services of classes only.
pub fn node_pool() -> Value {
    json!({
        "apiVersion": "portolan.dev/v1alpha1",
        "kind": "AddressPool",
        "metadata": {"name": NODE_POOL},
        "spec": {
            "nodeAddresses": {"type": "InternalIP"},
            "priority": NODE_POOL_PRIORITY,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "serviceSelector": {"matchExpressions": [{"key": CLASS_LABEL, "operator": "Exists"}]},
        },
    })
}
