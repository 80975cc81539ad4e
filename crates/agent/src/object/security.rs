//! Security contexts and resources in the Pod API.

use std::collections::BTreeMap;

use api::object::null_as_default;
use serde::Deserialize;

/// `securityContext` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSecurityContext {
    pub run_as_user: Option<u32>,
    pub run_as_group: Option<u32>,
    pub run_as_non_root: Option<bool>,
    pub fs_group: Option<u32>,
    #[serde(deserialize_with = "null_as_default")]
    pub supplemental_groups: Vec<u32>,
    /// `Merge` or `Strict`; `Merge` by default.
    pub supplemental_groups_policy: Option<String>,
    pub seccomp_profile: Option<SeccompProfile>,
    #[serde(deserialize_with = "null_as_default")]
    pub sysctls: Vec<Sysctl>,
}

/// Entry of `sysctls`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Sysctl {
    pub name: String,
    pub value: String,
}

/// `securityContext` of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityContext {
    pub run_as_user: Option<u32>,
    pub run_as_group: Option<u32>,
    pub run_as_non_root: Option<bool>,
    pub read_only_root_filesystem: Option<bool>,
    pub allow_privilege_escalation: Option<bool>,
    pub privileged: Option<bool>,
    pub capabilities: Option<Capabilities>,
    pub seccomp_profile: Option<SeccompProfile>,
    pub proc_mount: Option<String>,
}

/// `seccompProfile` of a security context.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SeccompProfile {
    #[serde(rename = "type")]
    pub kind: String,
    pub localhost_profile: Option<String>,
}

/// `capabilities` of a security context.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    #[serde(deserialize_with = "null_as_default")]
    pub add: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub drop: Vec<String>,
}

/// `resources` of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    #[serde(deserialize_with = "null_as_default")]
    pub limits: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub requests: BTreeMap<String, String>,
}

/// Resource of a container as a value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFieldRef {
    pub container_name: String,
    pub resource: String,
    #[serde(deserialize_with = "null_as_default")]
    pub divisor: String,
}
