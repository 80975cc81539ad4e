//! `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1` (KPC-02 to KPC-07): what flags and the file say,
//! under upstream's names and with its defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::GoDuration;

/// `apiVersion` of the file.
pub const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// `kind` of the file.
pub const KIND: &str = "KubeProxyConfiguration";

/// Where health is served if nothing is said: in both families (KPF-11).
pub const HEALTHZ_ADDRESS: &str = "0.0.0.0:10256";
/// Where metrics are served if nothing is said (KPF-12).
pub const METRICS_ADDRESS: &str = "127.0.0.1:10249";
/// The same where the bind address is of IPv6.
pub const METRICS_ADDRESS_V6: &str = "[::1]:10249";
/// Port of health.
const HEALTHZ_PORT: u16 = 10_256;
/// Port of metrics.
const METRICS_PORT: u16 = 10_249;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // the fields are those of upstream's file, by their names
pub struct Configuration {
    pub api_version: String,
    pub kind: String,
    pub feature_gates: BTreeMap<String, bool>,
    pub client_connection: ClientConnection,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub logging: Value,
    pub hostname_override: String,
    pub bind_address: String,
    pub healthz_bind_address: String,
    pub metrics_bind_address: String,
    pub bind_address_hard_fail: bool,
    pub enable_profiling: bool,
    pub show_hidden_metrics_for_version: String,
    pub mode: String,
    pub iptables: Iptables,
    pub ipvs: Ipvs,
    pub nftables: Nftables,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub winkernel: Value,
    pub detect_local_mode: String,
    pub detect_local: DetectLocal,
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: String,
    pub node_port_addresses: Vec<String>,
    pub oom_score_adj: i32,
    pub conntrack: Conntrack,
    pub config_sync_period: GoDuration,
    pub port_range: String,
    pub windows_run_as_service: bool,
}

/// How the API is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // as above
pub struct ClientConnection {
    pub kubeconfig: String,
    pub accept_content_types: String,
    pub content_type: String,
    pub qps: f32,
    pub burst: i32,
}

/// Settings of iptables mode, some of which hold for all modes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // as above
pub struct Iptables {
    pub masquerade_bit: i32,
    pub masquerade_all: bool,
    pub localhost_node_ports: bool,
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
}

/// Settings of ipvs mode, which there is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // as above
pub struct Ipvs {
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
    pub scheduler: String,
    #[serde(rename = "excludeCIDRs")]
    pub exclude_cidrs: Vec<String>,
    #[serde(rename = "strictARP")]
    pub strict_arp: bool,
    pub tcp_timeout: GoDuration,
    pub tcp_fin_timeout: GoDuration,
    pub udp_timeout: GoDuration,
}

/// Settings of nftables mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // as above
pub struct Nftables {
    pub masquerade_bit: i32,
    pub masquerade_all: bool,
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
}

/// What the modes of detecting Pods need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // as above
pub struct DetectLocal {
    pub bridge_interface: String,
    pub interface_name_prefix: String,
}

/// Settings of connection tracking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)] // as above
pub struct Conntrack {
    pub max_per_core: i32,
    pub min: i32,
    pub tcp_established_timeout: GoDuration,
    pub tcp_close_wait_timeout: GoDuration,
    pub tcp_be_liberal: bool,
    pub udp_timeout: GoDuration,
    pub udp_stream_timeout: GoDuration,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            feature_gates: BTreeMap::new(),
            client_connection: ClientConnection::default(),
            logging: Value::Null,
            hostname_override: String::new(),
            bind_address: "0.0.0.0".to_owned(),
            healthz_bind_address: HEALTHZ_ADDRESS.to_owned(),
            metrics_bind_address: METRICS_ADDRESS.to_owned(),
            bind_address_hard_fail: false,
            enable_profiling: false,
            show_hidden_metrics_for_version: String::new(),
            mode: String::new(),
            iptables: Iptables::default(),
            ipvs: Ipvs::default(),
            nftables: Nftables::default(),
            winkernel: Value::Null,
            detect_local_mode: "ClusterCIDR".to_owned(),
            detect_local: DetectLocal::default(),
            cluster_cidr: String::new(),
            node_port_addresses: Vec::new(),
            oom_score_adj: -999,
            conntrack: Conntrack::default(),
            config_sync_period: GoDuration::seconds(15 * 60),
            port_range: String::new(),
            windows_run_as_service: false,
        }
    }
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            qps: 5.0,
            burst: 10,
        }
    }
}

impl Default for Iptables {
    fn default() -> Self {
        Self {
            masquerade_bit: 14,
            masquerade_all: false,
            localhost_node_ports: true,
            sync_period: GoDuration::seconds(30),
            min_sync_period: GoDuration::seconds(1),
        }
    }
}

impl Default for Ipvs {
    fn default() -> Self {
        Self {
            sync_period: GoDuration::seconds(30),
            min_sync_period: GoDuration::default(),
            scheduler: String::new(),
            exclude_cidrs: Vec::new(),
            strict_arp: false,
            tcp_timeout: GoDuration::default(),
            tcp_fin_timeout: GoDuration::default(),
            udp_timeout: GoDuration::default(),
        }
    }
}

impl Default for Nftables {
    fn default() -> Self {
        Self {
            masquerade_bit: 14,
            masquerade_all: false,
            sync_period: GoDuration::seconds(30),
            min_sync_period: GoDuration::seconds(1),
        }
    }
}

impl Default for Conntrack {
    fn default() -> Self {
        Self {
            max_per_core: 32_768,
            min: 131_072,
            tcp_established_timeout: GoDuration::seconds(24 * 3_600),
            tcp_close_wait_timeout: GoDuration::seconds(3_600),
            tcp_be_liberal: false,
            udp_timeout: GoDuration::default(),
            udp_stream_timeout: GoDuration::default(),
        }
    }
}

impl Configuration {
    /// The kubeconfig file, if one is named.
    pub fn kubeconfig(&self) -> Option<PathBuf> {
        let path = &self.client_connection.kubeconfig;
        (!path.is_empty()).then(|| path.into())
    }

    /// Gives the addresses of health and metrics ports that have none.
    pub fn complete_ports(&mut self) {
        with_port(&mut self.healthz_bind_address, HEALTHZ_PORT);
        with_port(&mut self.metrics_bind_address, METRICS_PORT);
    }

    /// Puts defaults where upstream's file leaves a field empty or zero (KPC-02 to KPC-06).
    pub fn complete(&mut self) {
        let defaults = Self::default();
        let v6 = self.bind_address.contains(':');
        if self.bind_address.is_empty() {
            self.bind_address = defaults.bind_address;
        }
        let (healthz, metrics) = match v6 {
            true => ("[::]:10256", METRICS_ADDRESS_V6),
            false => (HEALTHZ_ADDRESS, METRICS_ADDRESS),
        };
        for (address, default) in [
            (&mut self.healthz_bind_address, healthz),
            (&mut self.metrics_bind_address, metrics),
        ] {
            if address.is_empty() {
                default.clone_into(address);
            }
        }
        self.complete_ports();
        let client = &mut self.client_connection;
        if client.content_type.is_empty() {
            client.content_type = defaults.client_connection.content_type;
        }
        if client.qps == 0.0 {
            client.qps = defaults.client_connection.qps;
        }
        if client.burst == 0 {
            client.burst = defaults.client_connection.burst;
        }
        if self.detect_local_mode.is_empty() {
            self.detect_local_mode = defaults.detect_local_mode;
        }
        for (period, default) in [
            (&mut self.config_sync_period, defaults.config_sync_period),
            (&mut self.iptables.sync_period, defaults.iptables.sync_period),
            (
                &mut self.iptables.min_sync_period,
                defaults.iptables.min_sync_period,
            ),
            (&mut self.ipvs.sync_period, defaults.ipvs.sync_period),
            (&mut self.nftables.sync_period, defaults.nftables.sync_period),
            (
                &mut self.nftables.min_sync_period,
                defaults.nftables.min_sync_period,
            ),
        ] {
            if period.0.is_zero() {
                *period = default;
            }
        }
    }
}

/// Gives an address a port that has none.
pub fn with_port(address: &mut String, port: u16) {
    if let Ok(ip) = address.parse() {
        *address = std::net::SocketAddr::new(ip, port).to_string();
    }
}
