//! `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1` (KPC-02 to KPC-07), with upstream's field names and
//! defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::go_duration::GoDuration;

/// `apiVersion` of the file.
pub(super) const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// `kind` of the file.
pub(super) const KIND: &str = "KubeProxyConfiguration";

/// Default address of the health server: both IP families (KPF-11).
pub const HEALTHZ_ADDRESS: &str = "0.0.0.0:10256";
/// Default address of the metrics server (KPF-12).
pub const METRICS_ADDRESS: &str = "127.0.0.1:10249";
/// Default address of the metrics server if the bind address is an IPv6 address.
pub const METRICS_ADDRESS_IPV6: &str = "[::1]:10249";
/// Default port of the health server.
const HEALTHZ_PORT: u16 = 10_256;
/// Default port of the metrics server.
const METRICS_PORT: u16 = 10_249;

/// Content of the configuration file; flags fill the same fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields of upstream's file, documented there")]
pub struct KubeProxyConfiguration {
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

/// Connection to the API server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields of upstream's file, documented there")]
pub struct ClientConnection {
    pub kubeconfig: String,
    pub accept_content_types: String,
    pub content_type: String,
    pub qps: f32,
    pub burst: i32,
}

/// Settings of iptables mode; some apply to all modes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields of upstream's file, documented there")]
pub struct Iptables {
    pub masquerade_bit: i32,
    pub masquerade_all: bool,
    pub localhost_node_ports: bool,
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
}

/// Settings of ipvs mode (KPC-04).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields of upstream's file, documented there")]
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
#[expect(missing_docs, reason = "fields of upstream's file, documented there")]
pub struct Nftables {
    pub masquerade_bit: i32,
    pub masquerade_all: bool,
    pub sync_period: GoDuration,
    pub min_sync_period: GoDuration,
}

/// Interfaces for the modes of Pod detection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields of upstream's file, documented there")]
pub struct DetectLocal {
    pub bridge_interface: String,
    pub interface_name_prefix: String,
}

/// Settings of connection tracking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "fields of upstream's file, documented there")]
pub struct Conntrack {
    pub max_per_core: i32,
    pub min: i32,
    pub tcp_established_timeout: GoDuration,
    pub tcp_close_wait_timeout: GoDuration,
    pub tcp_be_liberal: bool,
    pub udp_timeout: GoDuration,
    pub udp_stream_timeout: GoDuration,
}

impl Default for KubeProxyConfiguration {
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
            config_sync_period: GoDuration::from_secs(15 * 60),
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
            sync_period: GoDuration::from_secs(30),
            min_sync_period: GoDuration::from_secs(1),
        }
    }
}

impl Default for Ipvs {
    fn default() -> Self {
        Self {
            sync_period: GoDuration::from_secs(30),
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
            sync_period: GoDuration::from_secs(30),
            min_sync_period: GoDuration::from_secs(1),
        }
    }
}

impl Default for Conntrack {
    fn default() -> Self {
        Self {
            max_per_core: 32_768,
            min: 131_072,
            tcp_established_timeout: GoDuration::from_secs(24 * 3_600),
            tcp_close_wait_timeout: GoDuration::from_secs(3_600),
            tcp_be_liberal: false,
            udp_timeout: GoDuration::default(),
            udp_stream_timeout: GoDuration::default(),
        }
    }
}

impl KubeProxyConfiguration {
    /// Returns the path of the kubeconfig file, if the file names one.
    pub fn kubeconfig(&self) -> Option<PathBuf> {
        let path = &self.client_connection.kubeconfig;
        (!path.is_empty()).then(|| path.into())
    }

    /// Adds the default ports to the addresses of the health and metrics servers.
    pub fn set_default_ports(&mut self) {
        set_default_port(&mut self.healthz_bind_address, HEALTHZ_PORT);
        set_default_port(&mut self.metrics_bind_address, METRICS_PORT);
    }

    /// Replaces empty and zero fields by upstream's defaults (KPC-02 to KPC-06).
    pub(super) fn set_defaults(&mut self) {
        let defaults = Self::default();
        let is_ipv6 = self.bind_address.contains(':');
        if self.bind_address.is_empty() {
            self.bind_address = defaults.bind_address;
        }
        let (healthz, metrics) = if is_ipv6 {
            ("[::]:10256", METRICS_ADDRESS_IPV6)
        } else {
            (HEALTHZ_ADDRESS, METRICS_ADDRESS)
        };
        for (address, default) in [
            (&mut self.healthz_bind_address, healthz),
            (&mut self.metrics_bind_address, metrics),
        ] {
            if address.is_empty() {
                default.clone_into(address);
            }
        }
        self.set_default_ports();
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

/// Adds a port to an address without one.
pub fn set_default_port(address: &mut String, port: u16) {
    if let Ok(ip) = address.parse() {
        *address = std::net::SocketAddr::new(ip, port).to_string();
    }
}
