//! Address of the API server for Pods that do not reach it by a Service.

use std::net::IpAddr;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::error::InvalidValue;

/// Name of the ConfigMap with the address, in the namespace of the Pods.
const CONFIG_MAP: &str = "portolan-server";
/// Port of URLs without a port.
const HTTPS_PORT: u16 = 443;

/// Host and port of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    host: String,
    port: u16,
}

impl FromStr for Server {
    type Err = InvalidValue;

    /// Parses `https://HOST[:PORT]`. Loopback addresses are rejected, because they are others in each Pod and node.
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let invalid = || {
            InvalidValue::new(
                text,
                "https://HOST:PORT with a host that all nodes reach, for example https://192.0.2.10:6443",
            )
        };
        let uri: http::Uri = text.parse().map_err(|_| invalid())?;
        let has_path = uri.path().len() > 1 || uri.query().is_some();
        if uri.scheme_str() != Some("https") || has_path {
            return Err(invalid());
        }
        let host = uri.host().ok_or_else(invalid)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_loopback =
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if is_loopback || host.is_empty() {
            return Err(invalid());
        }
        Ok(Self {
            host,
            port: uri.port_u16().unwrap_or(HTTPS_PORT),
        })
    }
}

/// Returns the ConfigMap with the address. Its keys are the variables that clients in Pods read.
pub(super) fn config_map(namespace: &str, server: &Server) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CONFIG_MAP,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "portolan"},
        },
        "data": {"KUBERNETES_SERVICE_HOST": server.host, "KUBERNETES_SERVICE_PORT": server.port.to_string()},
    })
}

/// Returns the source of environment variables for containers that connect to this address.
pub(super) fn env_from() -> Value {
    json!([{"configMapRef": {"name": CONFIG_MAP}}])
}
