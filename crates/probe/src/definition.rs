//! Probe definitions of the Kubernetes API.

use api::object::{IntOrString, null_as_default};
use serde::{Deserialize, Serialize};

/// A probe, with upstream's defaults where a field is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct Probe {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_socket: Option<TcpSocket>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<Exec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Grpc>,
    pub initial_delay_seconds: u32,
    pub timeout_seconds: u32,
    pub period_seconds: u32,
    pub success_threshold: u32,
    pub failure_threshold: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct HttpGet {
    pub path: String,
    pub port: IntOrString,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheme: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub http_headers: Vec<HttpHeader>,
}

/// One of `httpHeaders`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct HttpHeader {
    pub name: String,
    pub value: String,
}

/// `tcpSocket` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct TcpSocket {
    pub port: IntOrString,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// `exec` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct Exec {
    #[serde(deserialize_with = "null_as_default")]
    pub command: Vec<String>,
}

/// `grpc` of a probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct Grpc {
    pub port: u16,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub service: String,
}
