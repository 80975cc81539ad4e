//! kube-proxy's configuration: the file format, its defaults, its validation and its feature gates.
//!
//! Flags and the configuration file both fill a [`KubeProxyConfiguration`]. [`validate`] turns it into the
//! [`Config`](crate::Config) that the proxy runs with. This module reads no command line; the binary maps its flags.
//!
//! ```
//! use std::path::Path;
//!
//! let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n";
//! let (configuration, warnings) = proxy::configuration::parse(Path::new("config.conf"), text)?;
//! assert!(warnings.is_empty());
//! let (mode, config) = proxy::configuration::validate(&configuration, "Node-A")?;
//! assert_eq!(mode, proxy::configuration::Mode::Nftables);
//! assert_eq!(config.node_name, "node-a");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cidr;
mod feature_gates;
mod file;
mod go_duration;
mod mode;
mod reload;
mod v1alpha1;
mod validation;

pub use cidr::{CidrError, parse_cidr, require_one_per_family};
pub use feature_gates::{COMPONENT_FLAGZ, COMPONENT_STATUSZ, FeatureGates, ParseFeatureGateError};
pub use file::{FileError, load, parse, render};
pub use go_duration::{GoDuration, ParseDurationError};
pub use mode::Mode;
pub use reload::{ReloadError, watch_file};
pub use v1alpha1::{
    ClientConnection, Conntrack, DetectLocal, HEALTHZ_ADDRESS, Iptables, Ipvs, KubeProxyConfiguration,
    METRICS_ADDRESS, METRICS_ADDRESS_IPV6, Nftables, set_default_port,
};
pub use validation::{
    InvalidConfiguration, ListenAddressError, node_name, parse_listen_address, validate, warnings,
};
