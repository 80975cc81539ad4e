//! Load balancing for clusters without a cloud: addresses for Services of type LoadBalancer, and the configuration of the edge.
//!
//! | Module | Contents |
//! |---|---|
//! | [`annotations`] | table of all supported annotations; the edge configuration that a Service selects |
//! | [`assigner`] | assignment of addresses from AddressPools, written to the status of Services |
//! | [`serving`] | edge server of a node, configured from Services, EndpointSlices and Secrets |
//! | [`edge_report`] | report of a node's edge about ports that it cannot serve |
//! | [`cookie_secret`] | Secret with the key of sticky-session cookies |
//! | [`crd`] | CustomResourceDefinition of AddressPools for other API servers |
//!
//! [`ipam::pools`] allocates the addresses.

pub mod annotations;
pub mod assigner;
pub mod cookie_secret;
pub mod crd;
pub mod edge_report;
mod event_recorder;
pub mod serving;

pub use assigner::{Metrics, Options, run};
pub use event_recorder::{EventRecorder, ServiceEvent};
