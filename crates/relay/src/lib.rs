//! Building blocks of TCP relays: pipes for bulk streams, and the reuse of outbound sockets.
//!
//! The edge drives its connections with tokio, the userspace data plane with epoll. This crate holds the parts that do
//! not depend on the driver. They work on file descriptors.

pub mod pipe;
pub mod socket_reuse;

pub use pipe::Pipe;
