//! Protocols of streams to containers, without I/O. [`spdy`] holds SPDY/3.1, and [`channels`] the channels of
//! WebSocket connections. [`protocol`] holds the protocols of each operation, and [`status`] the Status of a command.
//!
//! All input is untrusted: each buffer, list and decompressed block has a bound.

pub mod channels;
pub mod protocol;
pub mod spdy;
pub mod status;
