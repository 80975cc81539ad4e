//! Probes and lifecycle handlers, as containers describe them.

use api::object::IntOrString;
use serde::Deserialize;

use super::null_as_default;

/// A probe, with upstream's defaults where a field is absent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct Probe {
    pub http_get: Option<HttpGet>,
    pub tcp_socket: Option<TcpSocket>,
    pub exec: Option<Exec>,
    pub grpc: Option<Grpc>,
    pub initial_delay_seconds: u32,
    pub timeout_seconds: u32,
    pub period_seconds: u32,
    pub success_threshold: u32,
    pub failure_threshold: u32,
    pub termination_grace_period_seconds: Option<u64>,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            http_get: None,
            tcp_socket: None,
            exec: None,
            grpc: None,
            initial_delay_seconds: 0,
            timeout_seconds: 1,
            period_seconds: 10,
            success_threshold: 1,
            failure_threshold: 3,
            termination_grace_period_seconds: None,
        }
    }
}

/// `httpGet` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct HttpGet {
    pub path: String,
    pub port: IntOrString,
    pub host: String,
    pub scheme: String,
    #[serde(deserialize_with = "null_as_default")]
    pub http_headers: Vec<HttpHeader>,
}

/// One of `httpHeaders`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct HttpHeader {
    pub name: String,
    pub value: String,
}

/// `tcpSocket` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct TcpSocket {
    pub port: IntOrString,
    pub host: String,
}

/// `exec` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct Exec {
    #[serde(deserialize_with = "null_as_default")]
    pub command: Vec<String>,
}

/// `grpc` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct Grpc {
    pub port: u16,
    #[serde(deserialize_with = "null_as_default")]
    pub service: String,
}

/// `lifecycle` of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct Lifecycle {
    pub post_start: Option<LifecycleHandler>,
    pub pre_stop: Option<LifecycleHandler>,
}

/// What to do after the start of a container, or before its end.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct LifecycleHandler {
    pub exec: Option<Exec>,
    pub http_get: Option<HttpGet>,
    pub sleep: Option<Sleep>,
}

/// `sleep` of a lifecycle handler.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the fields are those of the Kubernetes API, by their names
pub struct Sleep {
    pub seconds: u64,
}
