//! Pod API as the agent reads it, with more fields than other components need.

#![allow(missing_docs, reason = "the fields have the names of the Kubernetes API")]

mod container;
mod handler;
mod port;
pub mod quantity;
pub(crate) mod rfc3339;
mod security;
mod volume;

use std::time::Duration;

use api::object::{ObjectMeta, PodCondition, PodIp, is_final_phase, null_as_default};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use container::{Container, EnvFrom, EnvSource, EnvVar, FieldRef, KeyRef};
pub use handler::{Lifecycle, LifecycleHandler, Sleep};
pub use port::ContainerPort;
pub use security::{
    Capabilities, PodSecurityContext, ResourceFieldRef, Resources, SeccompProfile, SecurityContext, Sysctl,
};
pub use volume::{
    DownwardItem, DownwardSource, EmptyDir, FileSource, HostPath, KeyToPath, Projected, Projection,
    TokenSource, Volume, VolumeMount,
};

/// Default of `terminationGracePeriodSeconds`.
const GRACE_SECONDS_DEFAULT: i64 = 30;
/// Longest grace period: a year. The API accepts any number of seconds, and the sum of the present time and the longest
/// of them does not exist.
const GRACE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Pod, with the fields that the agent reads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "null_as_default")]
    pub spec: PodSpec,
    #[serde(deserialize_with = "status_with_raw")]
    pub status: PodStatus,
}

api::resource!(Pod, "", "v1", "Pod", "pods");

impl Pod {
    /// Returns true if the Pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns true if the phase is `Succeeded` or `Failed`.
    pub fn is_finished(&self) -> bool {
        is_final_phase(&self.status.phase)
    }

    /// Returns the grace period. That of the deletion takes precedence over that of the spec.
    pub fn grace(&self) -> Duration {
        let deletion_grace = self.metadata.deletion_grace_period_seconds;
        deletion_grace.map_or_else(|| self.spec.termination_grace(), signed_grace)
    }

    /// Returns the host name (KDN-05): `spec.hostnameOverride`, `spec.hostname`, or the name of the Pod.
    pub fn hostname(&self) -> &str {
        if let Some(name) = &self.spec.hostname_override {
            name
        } else if self.spec.hostname.is_empty() {
            &self.metadata.name
        } else {
            &self.spec.hostname
        }
    }
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub os: PodOs,
    pub host_network: bool,
    #[serde(rename = "hostIPC")]
    pub host_ipc: bool,
    #[serde(rename = "hostPID")]
    pub host_pid: bool,
    pub host_users: Option<bool>,
    pub hostname: String,
    /// Host name as the Pod sees it. Names in DNS do not follow it.
    pub hostname_override: Option<String>,
    pub subdomain: String,
    #[serde(rename = "setHostnameAsFQDN", deserialize_with = "null_as_default")]
    pub set_hostname_as_fqdn: bool,
    pub service_account_name: String,
    pub restart_policy: RestartPolicy,
    pub termination_grace_period_seconds: Option<i64>,
    /// Seconds for which the Pod may be active on its node.
    pub active_deadline_seconds: Option<i64>,
    pub enable_service_links: Option<bool>,
    pub dns_policy: DnsPolicy,
    pub dns_config: Option<DnsConfig>,
    #[serde(deserialize_with = "null_as_default")]
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub readiness_gates: Vec<ReadinessGate>,
    #[serde(deserialize_with = "null_as_default")]
    pub host_aliases: Vec<HostAlias>,
    #[serde(deserialize_with = "null_as_default")]
    pub image_pull_secrets: Vec<ObjectName>,
    pub share_process_namespace: Option<bool>,
    #[serde(deserialize_with = "null_as_default")]
    pub volumes: Vec<Volume>,
    #[serde(deserialize_with = "null_as_default")]
    pub security_context: PodSecurityContext,
}

/// Entry of `hostAliases`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HostAlias {
    pub ip: String,
    #[serde(deserialize_with = "null_as_default")]
    pub hostnames: Vec<String>,
}

/// Reference to an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ObjectName {
    pub name: String,
}

/// `spec.os` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodOs {
    /// Operating system of the containers; "" for any.
    pub name: String,
}

impl PodOs {
    /// Returns true if an agent on Linux may run the Pod. Pod Security has weaker rules for Windows, so
    /// Windows Pods must not run.
    pub fn is_supported(&self) -> bool {
        matches!(self.name.as_str(), "" | "linux")
    }
}

impl PodSpec {
    /// Returns all containers, init containers first, ephemeral containers last.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        let own = self.init_containers.iter().chain(&self.containers);
        own.chain(&self.ephemeral_containers)
    }

    /// Returns the grace period of the spec, which applies unless the Pod is being deleted.
    pub fn termination_grace(&self) -> Duration {
        let seconds = self.termination_grace_period_seconds;
        signed_grace(seconds.unwrap_or(GRACE_SECONDS_DEFAULT))
    }
}

/// Restart policy of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum RestartPolicy {
    /// After every termination.
    #[default]
    Always,
    /// After a failure.
    OnFailure,
    /// No restart.
    Never,
}

/// Source of a Pod's resolv.conf (KDN-01, KDN-02).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum DnsPolicy {
    /// Cluster DNS, except in the host network.
    #[default]
    ClusterFirst,
    /// Cluster DNS.
    ClusterFirstWithHostNet,
    /// resolv.conf of the node.
    Default,
    /// Only `dnsConfig`.
    None,
}

/// `dnsConfig` of a Pod (KDN-03).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DnsConfig {
    #[serde(deserialize_with = "null_as_default")]
    pub nameservers: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub searches: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub options: Vec<DnsOption>,
}

/// Entry of `dnsConfig.options`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DnsOption {
    pub name: String,
    pub value: Option<String>,
}

/// Entry of `readinessGates`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadinessGate {
    pub condition_type: String,
}

/// Fields of `status` from which a restarted agent continues.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: String,
    pub start_time: Option<String>,
    #[serde(rename = "podIPs", deserialize_with = "null_as_default")]
    pub pod_ips: Vec<PodIp>,
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "null_as_default")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_as_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Whole status as read.
    #[serde(skip)]
    pub raw: Value,
}

impl PodStatus {
    /// Returns true if the status reports a container as started.
    pub fn was_started(&self, container: &str) -> bool {
        let mut all = self
            .init_container_statuses
            .iter()
            .chain(&self.container_statuses);
        all.any(|status| status.name == container && status.started == Some(true))
    }
}

/// Fields of a container's status from which a restarted agent continues.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub restart_count: u32,
    pub started: Option<bool>,
}

/// Returns a grace period, a year at most, which is safe to add to the present time.
pub fn bounded_grace(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(GRACE_MAX)
}

fn signed_grace(seconds: i64) -> Duration {
    bounded_grace(u64::try_from(seconds).unwrap_or(0))
}

/// Deserializes a status and keeps all of its fields in `raw`.
fn status_with_raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PodStatus, D::Error> {
    let raw = Value::deserialize(deserializer)?;
    if raw.is_null() {
        return Ok(PodStatus::default());
    }
    let mut status = PodStatus::deserialize(&raw).map_err(D::Error::custom)?;
    status.raw = raw;
    Ok(status)
}

#[cfg(test)]
mod tests;
