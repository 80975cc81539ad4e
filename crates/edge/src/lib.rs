//! The edge: a proxy of connections for Services that ask for more than packets, with TLS, HTTP, PROXY protocol, health
//! checks and draining. It knows no Kubernetes: what to do comes as [`settings`], as a whole, and the edge finds
//! the differences.
//!
//! - [`settings`]: what a Service asks of the edge

pub mod settings;
