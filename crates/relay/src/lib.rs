//! Building blocks of relays: pipes for bulk streams, the reuse of outbound sockets, and the ports to which no relay
//! sends.
//!
//! The edge drives its connections with tokio, the userspace data plane with epoll. This crate holds the parts that do
//! not depend on the driver. They work on file descriptors.

mod encapsulation;
pub mod pipe;
pub mod socket_reuse;

pub use encapsulation::{EncapsulationPorts, TWO_TIER_PORT};
pub use pipe::Pipe;
