//! Load balancing for clusters without a cloud: addresses for Services of type LoadBalancer, and the
//! configuration of the edge.
//!
//! | Module | Contents |
//! |---|---|
//! | [`annotations`] | table of all supported annotations; the edge configuration that a Service selects |
//! | [`assigner`] | assignment of addresses from AddressPools, written to the status of Services |
//! | [`serving`] | edge server of a node, configured from Services, EndpointSlices and Secrets |
//! | [`edge_report`] | report of a node's edge about ports that it cannot serve |
//! | [`cookie_secret`] | Secret with the key of sticky-session cookies |
//! | [`ingress`] | hosts and paths of Ingresses, the Service of a class, and the status of Ingresses |
//! | [`metallb`] | IPAddressPools and L2Advertisements of MetalLB |
//! | [`two_tier`] | request of two-tier forwarding, by a Service or by the pool of its addresses |
//! | [`crd`] | CustomResourceDefinition of AddressPools for other API servers |
//!
//! [`ipam::pools`] allocates the addresses.
//!
//! # Example
//!
//! The annotations of a Service select the configuration of the edge:
//!
//! ```
//! use balancer::annotations::{self, FrontendSpec};
//! use serde_json::json;
//!
//! let service = serde_json::from_value(json!({
//!     "metadata": {"name": "web", "annotations": {"portolan.dev/edge-certificates": "web-tls"}},
//!     "spec": {"ports": [{"name": "https", "port": 443, "protocol": "TCP"}]},
//! }))
//! .expect("valid Service");
//! let spec = annotations::read(&service).edge.expect("configuration of the edge");
//! assert_eq!(spec.listeners[0].frontend, FrontendSpec::Ssl);
//! ```

pub mod annotations;
pub mod assigner;
pub mod cookie_secret;
pub mod crd;
pub mod edge_report;
pub mod ingress;
pub mod metallb;
pub mod serving;
pub mod two_tier;

pub use assigner::{Metrics, Options, run};
