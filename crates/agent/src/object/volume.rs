//! Volumes and their sources in the Pod API.

use api::object::null_as_default;
use serde::Deserialize;

use super::ResourceFieldRef;
use super::container::FieldRef;

/// Entry of `volumes`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    pub empty_dir: Option<EmptyDir>,
    pub host_path: Option<HostPath>,
    pub config_map: Option<FileSource>,
    pub secret: Option<FileSource>,
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<DownwardSource>,
    pub projected: Option<Projected>,
}

/// `emptyDir` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmptyDir {
    pub medium: String,
    pub size_limit: Option<String>,
}

impl EmptyDir {
    /// Returns true if the files are in memory (`medium: Memory`).
    pub fn is_in_memory(&self) -> bool {
        self.medium == "Memory"
    }
}

/// `hostPath` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HostPath {
    pub path: String,
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
}

/// `configMap` or `secret` of a volume or a projection. Plain Secret volumes have `secretName` instead of `name`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSource {
    #[serde(alias = "secretName")]
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub items: Vec<KeyToPath>,
    pub default_mode: Option<u32>,
    pub optional: Option<bool>,
}

/// Entry of `items`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct KeyToPath {
    pub key: String,
    pub path: String,
    pub mode: Option<u32>,
}

/// `downwardAPI` of a volume or a projection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DownwardSource {
    #[serde(deserialize_with = "null_as_default")]
    pub items: Vec<DownwardItem>,
    pub default_mode: Option<u32>,
}

/// File of the downward API.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DownwardItem {
    pub path: String,
    pub field_ref: Option<FieldRef>,
    pub resource_field_ref: Option<ResourceFieldRef>,
    pub mode: Option<u32>,
}

/// `projected` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Projected {
    #[serde(deserialize_with = "null_as_default")]
    pub sources: Vec<Projection>,
    pub default_mode: Option<u32>,
}

/// Entry of `sources`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Projection {
    pub config_map: Option<FileSource>,
    pub secret: Option<FileSource>,
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<DownwardSource>,
    pub service_account_token: Option<TokenSource>,
}

/// `serviceAccountToken` of a projected volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenSource {
    pub audience: String,
    pub expiration_seconds: Option<u64>,
    pub path: String,
}

/// Entry of a container's `volumeMounts`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    pub name: String,
    pub mount_path: String,
    pub read_only: bool,
    pub sub_path: String,
    pub sub_path_expr: String,
}
