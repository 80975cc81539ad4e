//! The edge: a proxy of connections for Services that ask for more than packets, with TLS, HTTP, PROXY protocol, health
//! checks and draining. It knows no Kubernetes: what to do comes as [`settings`], as a whole, and the edge finds
//! the differences.
//!
//! A connection goes one way:
//!
//! 1. a thread of `workers` takes it from a listening socket; most stay with the thread that took them;
//! 2. `inbound` asks who it is: limits, the PROXY header ([`proxy_protocol`]), source ranges, the TLS handshake (`tls`);
//! 3. [`backends`] choose where it goes on, [`outbound`] connects there, and elsewhere if that fails;
//! 4. `relay` passes bytes on, or [`http`] requests, or `udp` datagrams; [`log`] writes down what was.
//!
//! What all of them share of a Service's port is its [`Port`]. `serving` finds the differences between settings and opens
//! and closes listening sockets; what is to be told of ports is in [`faults`], [`status`], [`counters`] and [`Edge::metrics`].
//!
//! What always holds:
//!
//! - A listener that stays is never closed: changed certificates, backends and limits are in force for its next connection.
//! - Connections outlive changes of settings; only draining, silence and the edge's own end close them.
//! - A connection that says nothing holds no buffer and no pipe.
//! - Every table of clients is bounded; who comes from many addresses is served, but not remembered.
//! - A flood at one Service leaves places for the others: each has a share of the connections that the process can bear.

pub mod backends;
mod bandwidth;
pub mod counters;
mod edge;
pub mod faults;
mod handover;
pub mod http;
mod inbound;
mod limits;
mod load;
pub mod log;
mod metrics;
pub mod outbound;
pub mod peer;
pub mod port;
pub mod proxy_protocol;
mod relay;
mod serving;
pub mod settings;
mod shares;
mod sockets;
pub mod status;
mod tls;
mod udp;
mod workers;

pub use crate::http::cookie::StickySecrets;
pub use edge::{Edge, Options, StartError};
pub use faults::{Fault, Faults};
pub use handover::HandoverError;
pub use peer::{Peer, TlsPeer};
pub use port::{Port, PortKey, Transport};
pub use shares::Shares;
