//! Ports of containers in the Pod API.

use api::object::Protocol;
use serde::Deserialize;

/// Port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub name: String,
    pub container_port: u16,
    pub protocol: Protocol,
    /// Port of the node that leads to this one; 0 for no port.
    pub host_port: u16,
    /// Address of the node for `host_port`; "" for all.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
}
