//! Lifecycle handlers in the Pod API.

use probe::definition::{Exec, HttpGet};
use serde::Deserialize;

/// `lifecycle` of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    pub post_start: Option<LifecycleHandler>,
    pub pre_stop: Option<LifecycleHandler>,
    pub stop_signal: Option<String>,
}

/// Lifecycle handler of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleHandler {
    pub exec: Option<Exec>,
    pub http_get: Option<HttpGet>,
    pub sleep: Option<Sleep>,
}

/// `sleep` of a lifecycle handler.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Sleep {
    pub seconds: u64,
}
