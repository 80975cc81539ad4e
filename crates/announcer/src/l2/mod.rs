//! Layer 2: ARP and NDP frames, the links of this node, and packet sockets on them.

pub mod frame;
pub(crate) mod links;
pub(crate) mod sockets;
