//! Service of a class: it has no selector, gets the addresses, and belongs to the class.

use api::edge_secret::EDGE_CLASS;
use api::object::{IngressClass, ObjectKey, Resource, Service};
use serde_json::{Value, json};

/// Namespace of the Services of classes.
pub const NAMESPACE: &str = "kube-system";
/// Beginning of their names; the name of the class follows.
const NAME_PREFIX: &str = "ingress-";
/// Longest name of a Service.
const NAME_BYTES_MAX: usize = 63;
/// Port of HTTP.
pub const HTTP_PORT: u16 = 80;
/// Port of HTTP with TLS.
pub const HTTPS_PORT: u16 = 443;

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

/// Returns the Service of a class.
pub fn object(class: &IngressClass, key: &ObjectKey) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "namespace": &*key.namespace,
            "name": &*key.name,
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
