//! Settings of the mode: the section `winkernel` of kube-proxy's configuration, and facts of the node (KPC-07).

use std::net::IpAddr;

use plan::Family;
use serde::Deserialize;
use serde_json::Value;

use crate::features::Features;
use crate::mac::MacAddress;
use crate::network::{HnsNetwork, NetworkKind};

/// Port of `/healthz`, the health check of Services without a health check node port.
const HEALTHZ_PORT: u16 = 10_256;

/// Settings of the mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the HNS network: `networkName`.
    pub network_name: String,
    /// Source address of forwarded packets in overlay networks: `sourceVip`.
    pub source_vip: Option<IpAddr>,
    /// True if load balancers of cluster IPs use direct server return: `enableDSR`.
    pub enable_dsr: bool,
    /// Name of the endpoint of the host: `rootHnsEndpointName`.
    pub root_endpoint_name: String,
    /// True if load balancer IPs forward the port of the health check: `forwardHealthCheckVip`.
    pub forward_health_check_vip: bool,
    /// Primary address of the Node first, then that of the other family.
    pub node_ips: Vec<IpAddr>,
    /// MAC address of the interface with the primary address. Overlay networks need it.
    pub host_mac: Option<MacAddress>,
    /// Port of `/healthz`.
    pub healthz_port: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            network_name: String::new(),
            source_vip: None,
            enable_dsr: false,
            root_endpoint_name: "cbr0".to_owned(),
            forward_health_check_vip: false,
            node_ips: Vec::new(),
            host_mac: None,
            healthz_port: HEALTHZ_PORT,
        }
    }
}

/// Reasons why the mode does not run. A retry helps if the network or the node changes.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The section has a field of another type.
    #[error("winkernel: {source}")]
    Section {
        /// Error of the decoder.
        #[source]
        source: serde_json::Error,
    },
    /// A field holds no address.
    #[error("winkernel.sourceVip: expected an IP address, found {0:?}")]
    SourceVip(String),
    /// Neither the configuration nor the environment names the network.
    #[error("the HNS network has no name: set networkName or the environment variable KUBE_NETWORK")]
    NoNetworkName,
    /// The node has no address.
    #[error("the Node has no IP address: set --bind-address")]
    NoNodeIp,
    /// HNS is too old.
    #[error("this Windows has no version 2 of the HNS schema: use Windows Server 2019 or later")]
    SchemaNotSupported,
    /// Direct server return is enabled, and HNS lacks it.
    #[error(
        "enableDSR: this Windows does not support direct server return; update it, or set enableDSR to false"
    )]
    DsrNotSupported,
    /// The network is an overlay, and `sourceVip` is unset.
    #[error("the overlay network {0:?} needs sourceVip")]
    NoSourceVip(String),
    /// The network is an overlay, and the interface of the node's address is unknown.
    #[error(
        "the overlay network {network:?} needs the MAC address of the interface with {node_ip}; none found"
    )]
    NoHostMac {
        /// Name of the network.
        network: String,
        /// Primary address of the Node.
        node_ip: IpAddr,
    },
}

/// The section `winkernel`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WinkernelSection {
    network_name: String,
    source_vip: String,
    #[serde(rename = "enableDSR")]
    enable_dsr: bool,
    root_hns_endpoint_name: String,
    forward_health_check_vip: bool,
}

impl Settings {
    /// Reads the section `winkernel`. `kube_network` is the value of the environment variable `KUBE_NETWORK`, which
    /// names the network if the section does not. The facts of the node stay unset.
    ///
    /// # Errors
    ///
    /// A [`SettingsError`] if a field has an invalid value, or the network has no name.
    pub fn read(section: &Value, kube_network: Option<&str>) -> Result<Self, SettingsError> {
        let section: WinkernelSection = match section {
            Value::Null => WinkernelSection::default(),
            section => {
                WinkernelSection::deserialize(section).map_err(|source| SettingsError::Section { source })?
            }
        };
        let source_vip = match section.source_vip.as_str() {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|_| SettingsError::SourceVip(text.to_owned()))?,
            ),
        };
        let network_name = match section.network_name.as_str() {
            "" => kube_network.unwrap_or_default(),
            name => name,
        };
        if network_name.is_empty() {
            return Err(SettingsError::NoNetworkName);
        }
        let mut settings = Self {
            network_name: network_name.to_owned(),
            source_vip,
            enable_dsr: section.enable_dsr,
            forward_health_check_vip: section.forward_health_check_vip,
            ..Self::default()
        };
        if !section.root_hns_endpoint_name.is_empty() {
            settings.root_endpoint_name = section.root_hns_endpoint_name;
        }
        Ok(settings)
    }

    /// Checks that network, HNS and node have the features that the settings need.
    ///
    /// # Errors
    ///
    /// A [`SettingsError`] that names the missing part.
    pub fn check(&self, network: &HnsNetwork, features: Features) -> Result<(), SettingsError> {
        let node_ip = *self.node_ips.first().ok_or(SettingsError::NoNodeIp)?;
        if !features.schema_v2 {
            return Err(SettingsError::SchemaNotSupported);
        }
        if self.enable_dsr && !features.dsr {
            return Err(SettingsError::DsrNotSupported);
        }
        if network.kind == NetworkKind::Overlay {
            if self.source_vip.is_none() {
                return Err(SettingsError::NoSourceVip(network.name.clone()));
            }
            if self.host_mac.is_none() {
                let network = network.name.clone();
                return Err(SettingsError::NoHostMac { network, node_ip });
            }
        }
        Ok(())
    }

    /// Returns the address of the Node in a family.
    pub fn node_ip(&self, family: Family) -> Option<IpAddr> {
        self.node_ips.iter().copied().find(|ip| Family::of(*ip) == family)
    }

    /// Returns true if a family is served. The family of the primary address is served, and the other family if HNS
    /// supports both. Overlay networks have one family.
    pub fn serves(&self, family: Family, network: &HnsNetwork, features: Features) -> bool {
        let is_primary = self.node_ips.first().is_some_and(|ip| Family::of(*ip) == family);
        let is_second = network.kind != NetworkKind::Overlay && features.dual_stack;
        is_primary || (is_second && self.node_ip(family).is_some())
    }
}

#[cfg(test)]
mod tests;
