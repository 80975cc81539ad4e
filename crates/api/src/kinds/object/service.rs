//! Service (core/v1), rows API-19 to API-44.

use serde::{Deserialize, Serialize};

use super::meta::{Labels, ObjectMeta, null_as_default, resource};
use super::network::Condition;
use crate::service::AFFINITY_TIMEOUT_SECONDS_DEFAULT;

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Desired state.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: ServiceSpec,
    /// Observed state.
    #[serde(deserialize_with = "null_as_default")]
    pub status: ServiceStatus,
}

resource!(Service, "", "v1", "Service", "services");

/// `spec` of a Service. Empty strings and lists mean absent fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct ServiceSpec {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ServicePort>,
    #[serde(deserialize_with = "null_as_default")]
    pub selector: Labels,
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    #[serde(rename = "clusterIPs", deserialize_with = "null_as_default")]
    pub cluster_ips: Vec<String>,
    #[serde(rename = "ipFamilies", deserialize_with = "null_as_default")]
    pub ip_families: Vec<String>,
    pub ip_family_policy: Option<String>,
    #[serde(rename = "externalIPs", deserialize_with = "null_as_default")]
    pub external_ips: Vec<String>,
    pub session_affinity: String,
    pub session_affinity_config: Option<SessionAffinityConfig>,
    pub external_traffic_policy: String,
    pub internal_traffic_policy: Option<String>,
    pub health_check_node_port: u16,
    #[serde(deserialize_with = "null_as_default")]
    pub load_balancer_source_ranges: Vec<String>,
    pub load_balancer_class: Option<String>,
    #[serde(rename = "loadBalancerIP")]
    pub load_balancer_ip: String,
    pub external_name: String,
    pub publish_not_ready_addresses: bool,
    pub traffic_distribution: Option<String>,
}

impl ServiceSpec {
    /// Returns true if the Service has no cluster IP (`clusterIP: None`).
    pub fn is_headless(&self) -> bool {
        self.cluster_ip == "None"
    }

    /// Returns the timeout of the session affinity; `None` without affinity (API-30).
    pub fn affinity_timeout_seconds(&self) -> Option<u32> {
        (self.session_affinity == "ClientIP").then(|| {
            self.session_affinity_config
                .as_ref()
                .and_then(|config| config.client_ip.as_ref())
                .and_then(|config| config.timeout_seconds)
                .unwrap_or(AFFINITY_TIMEOUT_SECONDS_DEFAULT)
        })
    }
}

/// `spec.sessionAffinityConfig`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionAffinityConfig {
    /// Settings of `ClientIP` affinity.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIpConfig>,
}

/// `spec.sessionAffinityConfig.clientIP`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    /// Seconds after its last connection after which a client may get another endpoint.
    pub timeout_seconds: Option<u32>,
}

/// Entry of `spec.ports`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct ServicePort {
    pub name: String,
    pub protocol: Protocol,
    pub app_protocol: Option<String>,
    pub port: u16,
    #[serde(deserialize_with = "null_as_default")]
    pub target_port: IntOrString,
    pub node_port: u16,
}

/// A transport protocol of a Service port (API-21).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP, the default.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Returns the number in the IP header.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

/// Port number, or name of a container port (API-24).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// Number; 0 means absent.
    Int(i64),
    /// A name.
    String(String),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

/// `status` of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// The load balancer's addresses.
    #[serde(deserialize_with = "null_as_default")]
    pub load_balancer: LoadBalancerStatus,
    /// Conditions, at most one per type.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

/// `status.loadBalancer`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// Addresses and names at which the balancer takes traffic.
    #[serde(deserialize_with = "null_as_default")]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// Entry of `status.loadBalancer.ingress` (API-43).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// Address, or "".
    pub ip: String,
    /// Name, or "".
    pub hostname: String,
    /// `VIP` or `Proxy`.
    pub ip_mode: Option<String>,
    /// State of the single ports.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<IngressPort>,
}

/// Entry of `status.loadBalancer.ingress[].ports`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IngressPort {
    /// Port number.
    pub port: u16,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Error of the port, if any.
    pub error: Option<String>,
}
