//! ServiceExport and ServiceImport (multicluster.x-k8s.io/v1beta1).

use serde::{Deserialize, Serialize};

use super::meta::{Labels, ObjectMeta, null_as_default, resource};
use super::service::{Protocol, SessionAffinityConfig};

/// A ServiceExport: the Service of the same name and namespace is exported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceExport {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ServiceExportSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ServiceExportStatus,
}

resource!(
    ServiceExport,
    "multicluster.x-k8s.io",
    "v1beta1",
    "ServiceExport",
    "serviceexports"
);

/// `spec` of a ServiceExport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceExportSpec {
    /// Labels of the ServiceImports.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Labels::is_empty"
    )]
    pub exported_labels: Labels,
    /// Annotations of the ServiceImports.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Labels::is_empty"
    )]
    pub exported_annotations: Labels,
}

/// `status` of a ServiceExport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceExportStatus {
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<TimedCondition>,
}

/// A condition with the time of its last transition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimedCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// Reason, one word in CamelCase; several are separated by commas.
    pub reason: String,
    /// Message for people.
    pub message: String,
    /// RFC 3339 time at which `status` changed.
    pub last_transition_time: Option<String>,
}

/// A ServiceImport: a Service that clusters of the set export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceImport {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ServiceImportSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ServiceImportStatus,
}

resource!(
    ServiceImport,
    "multicluster.x-k8s.io",
    "v1beta1",
    "ServiceImport",
    "serviceimports"
);

/// `spec` of a ServiceImport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportSpec {
    /// Ports of the Service.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ImportPort>,
    /// Clusterset IPs, one per IP family.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// `ClusterSetIP` or `Headless`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `None` or `ClientIP`; "" means `None`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_affinity: String,
    /// Settings of the session affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// IP families, `IPv4` and `IPv6`.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<String>,
    /// `Cluster` or `Local`; `None` means `Cluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_traffic_policy: Option<String>,
    /// Preference among endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
}

impl ServiceImportSpec {
    /// Returns true if the Service has no clusterset IP.
    pub fn is_headless(&self) -> bool {
        self.kind == "Headless"
    }
}

/// Entry of `spec.ports` of a ServiceImport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImportPort {
    /// Name, or "".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Transport protocol.
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: Protocol,
    /// Application protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
    /// Number.
    pub port: u16,
}

/// `status` of a ServiceImport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceImportStatus {
    /// Clusters that export the Service.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterStatus>,
    /// `Present` or `Absent`; "" if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint_slice_objects: String,
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<TimedCondition>,
}

/// Entry of `status.clusters` of a ServiceImport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// Name of the cluster in the set.
    pub cluster: String,
}
