//! The load balancer for clusters without a cloud: addresses for Services of type LoadBalancer.
//!
//! - [`annotations`]: one table of what annotations mean, and what those of a Service ask for
//! - [`wish`]: which addresses a Service asks for, by its fields and annotations
//! - [`pools`]: AddressPools, and which Services may use them
//! - [`core`]: what is to be done about each Service; a state machine without clock and I/O
//! - [`run()`]: the loop around it, which watches and writes
//! - [`cookie_secret`]: what cookies of sticky sessions are made of
//! - [`edge_report`]: what the edge of a node reports of its ports
//! - [`serving`]: what the edge proxy of a node is to serve, out of Services, slices and Secrets
//! - [`crd`]: the definition of AddressPools for clusters that do not have the kind built in
//!
//! The book of addresses itself is [`ipam::pools`].

pub mod annotations;
pub mod cookie_secret;
pub mod core;
pub mod crd;
pub mod edge_report;
mod event_recorder;
mod metrics;
pub mod pools;
mod run;
pub mod serving;
pub mod wish;
mod write;

pub use self::core::Options;
pub use event_recorder::{EventRecorder, ServiceEvent};
pub use metrics::Metrics;
pub use run::run;
