//! Ingress and IngressClass (networking.k8s.io/v1).

use std::collections::BTreeSet;

use serde::Deserialize;

use super::meta::{ObjectMeta, null_as_default, resource};
use super::service::LoadBalancerStatus;

/// An Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Ingress {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: IngressSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: IngressStatus,
}

resource!(Ingress, "networking.k8s.io", "v1", "Ingress", "ingresses");

impl Ingress {
    /// Returns the name of the class: the field, or the annotation that it replaces.
    pub fn class(&self) -> Option<&str> {
        let annotated = || self.metadata.annotations.get(crate::ingress::CLASS_ANNOTATION);
        let class = self.spec.ingress_class_name.as_ref().or_else(annotated)?;
        Some(class)
    }

    /// Returns the hosts that the Ingress names, in lower case; `""` stands for any other host. An Ingress without rules names
    /// any host for its default backend.
    pub fn hosts(&self) -> BTreeSet<String> {
        if self.spec.rules.is_empty() {
            return BTreeSet::from([String::new()]);
        }
        let rules = self.spec.rules.iter();
        rules.map(|rule| rule.host.to_ascii_lowercase()).collect()
    }

    /// Returns the order in which Ingresses get their hosts: the oldest one comes first.
    pub fn precedence(&self) -> (&str, &str, &str) {
        let meta = &self.metadata;
        (
            // Timestamps of one format sort as text.
            meta.creation_timestamp.as_deref().unwrap_or_default(),
            &meta.namespace,
            &meta.name,
        )
    }
}

/// `spec` of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressSpec {
    /// Name of the IngressClass.
    pub ingress_class_name: Option<String>,
    /// Backend of requests without a rule.
    pub default_backend: Option<IngressBackend>,
    /// Certificates of hosts.
    #[serde(deserialize_with = "null_as_default")]
    pub tls: Vec<IngressTls>,
    /// Rules of hosts.
    #[serde(deserialize_with = "null_as_default")]
    pub rules: Vec<IngressRule>,
}

/// Entry of `spec.tls`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressTls {
    /// Hosts; empty for all hosts of the Ingress.
    #[serde(deserialize_with = "null_as_default")]
    pub hosts: Vec<String>,
    /// Secret with certificate and key, or "".
    pub secret_name: String,
}

/// Entry of `spec.rules`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressRule {
    /// Host, possibly a wildcard, or "" for all hosts.
    pub host: String,
    /// Paths of the host.
    pub http: Option<IngressPaths>,
}

/// `http` of a rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressPaths {
    /// Paths with their backends.
    #[serde(deserialize_with = "null_as_default")]
    pub paths: Vec<IngressPath>,
}

/// Entry of `http.paths`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressPath {
    /// Path, or "".
    pub path: String,
    /// `Exact`, `Prefix` or `ImplementationSpecific`.
    pub path_type: String,
    /// Backend of the path.
    #[serde(deserialize_with = "null_as_default")]
    pub backend: IngressBackend,
}

/// Backend of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressBackend {
    /// Port of a Service; absent for another kind of backend.
    pub service: Option<IngressServiceBackend>,
}

/// `service` of a backend.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressServiceBackend {
    /// Name of the Service.
    pub name: String,
    /// Port of the Service.
    #[serde(deserialize_with = "null_as_default")]
    pub port: ServiceBackendPort,
}

/// Port of a Service, by name or by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceBackendPort {
    /// Name, or "".
    pub name: String,
    /// Number, or 0.
    pub number: u16,
}

/// `status` of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressStatus {
    /// Addresses at which the Ingress is served.
    #[serde(deserialize_with = "null_as_default")]
    pub load_balancer: LoadBalancerStatus,
}

/// An IngressClass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressClass {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: IngressClassSpec,
}

resource!(
    IngressClass,
    "networking.k8s.io",
    "v1",
    "IngressClass",
    "ingressclasses"
);

impl IngressClass {
    /// Returns true if Portolan serves the class.
    pub fn is_own(&self) -> bool {
        self.spec.controller == crate::ingress::CONTROLLER && self.metadata.deletion_timestamp.is_none()
    }
}

/// `spec` of an IngressClass.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IngressClassSpec {
    /// Controller that serves the class.
    pub controller: String,
}
