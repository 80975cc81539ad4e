//! Protocols of streams to containers, without I/O. The modules are SPDY/3.1 ([`spdy`]), the channels of WebSocket
//! connections ([`channels`]), the protocols of each operation ([`protocol`]), and the Status of a command
//! ([`status`]).
//!
//! All input is untrusted: each buffer, list and decompressed block has a bound.

pub mod channels;
pub mod protocol;
pub mod spdy;
pub mod status;
