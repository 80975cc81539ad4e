//! Containers and their environment in the Pod API.

use std::sync::Arc;

use api::object::{ContainerPort as ProbedPort, null_as_default};
use probe::Probes;
use probe::definition::Probe;
use serde::Deserialize;

use super::handler::Lifecycle;
use super::port::ContainerPort;
use super::{ResourceFieldRef, Resources, RestartPolicy, SecurityContext, VolumeMount};

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub image: String,
    /// `Always`, `IfNotPresent` or `Never`; "" for the default of the image's tag.
    pub image_pull_policy: String,
    #[serde(deserialize_with = "null_as_default")]
    pub command: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub args: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub env: Vec<EnvVar>,
    #[serde(deserialize_with = "null_as_default")]
    pub env_from: Vec<EnvFrom>,
    pub working_dir: String,
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ContainerPort>,
    pub startup_probe: Option<Probe>,
    pub liveness_probe: Option<Probe>,
    pub readiness_probe: Option<Probe>,
    pub lifecycle: Option<Lifecycle>,
    #[serde(deserialize_with = "null_as_default")]
    pub volume_mounts: Vec<VolumeMount>,
    #[serde(deserialize_with = "null_as_default")]
    pub security_context: SecurityContext,
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Resources,
    /// Set to `Always` for sidecars among the init containers.
    pub restart_policy: Option<RestartPolicy>,
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    /// Container whose processes an ephemeral container sees, or "".
    pub target_container_name: String,
    pub termination_message_path: String,
    /// `File` or `FallbackToLogsOnError`.
    pub termination_message_policy: String,
}

impl Container {
    /// Returns true for an init container that keeps running alongside the main containers (sidecar).
    pub fn is_restartable(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }

    /// Returns the ports as probes see them.
    pub fn probed_ports(&self) -> Arc<[ProbedPort]> {
        let ports = self.ports.iter().map(|port| ProbedPort {
            name: port.name.clone(),
            container_port: port.container_port,
            protocol: port.protocol,
        });
        ports.collect()
    }

    /// Returns the probes of the container.
    pub fn probes(&self) -> Probes<'_> {
        Probes {
            startup: self.startup_probe.as_ref(),
            liveness: self.liveness_probe.as_ref(),
            readiness: self.readiness_probe.as_ref(),
        }
    }
}

/// Entry of `env`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    pub name: String,
    pub value: String,
    pub value_from: Option<EnvSource>,
}

/// `valueFrom` of an environment variable.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvSource {
    pub field_ref: Option<FieldRef>,
    pub config_map_key_ref: Option<KeyRef>,
    pub secret_key_ref: Option<KeyRef>,
    pub resource_field_ref: Option<ResourceFieldRef>,
}

/// Field of the Pod as a value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldRef {
    pub field_path: String,
}

/// Key of a ConfigMap or Secret as a value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct KeyRef {
    pub name: String,
    pub key: String,
    pub optional: Option<bool>,
}

/// Entry of `envFrom`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvFrom {
    pub prefix: String,
    pub config_map_ref: Option<KeyRef>,
    pub secret_ref: Option<KeyRef>,
}
