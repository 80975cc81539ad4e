//! Virtual servers, their destinations, and timeouts.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Identity of a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId {
    /// Address that clients use.
    pub address: IpAddr,
    /// Number of the transport protocol.
    pub protocol: u8,
    /// Port that clients use.
    pub port: u16,
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = SocketAddr::new(self.address, self.port);
        match i32::from(self.protocol) {
            libc::IPPROTO_TCP => write!(f, "{address}/tcp"),
            libc::IPPROTO_UDP => write!(f, "{address}/udp"),
            libc::IPPROTO_SCTP => write!(f, "{address}/sctp"),
            other => write!(f, "{address}/{other}"),
        }
    }
}

/// A virtual server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualServer {
    /// Identity.
    pub id: ServerId,
    /// Name of the scheduler, such as `rr`.
    pub scheduler: String,
    /// Flags of the scheduler (`IP_VS_SVC_F_SCHED…`), from [`VirtualServer::SCHEDULER_FLAGS`].
    pub scheduler_flags: u32,
    /// Seconds for which a client keeps its destination (persistence); `None` for no persistence.
    pub persistence_seconds: Option<u32>,
}

impl VirtualServer {
    /// `IP_VS_SVC_F_SCHED1`: `mh` and `sh` use another destination if the chosen one has weight 0.
    pub const FALLBACK: u32 = 0x08;
    /// `IP_VS_SVC_F_SCHED2`: `mh` and `sh` hash the port of the client, too.
    pub const HASH_PORT: u32 = 0x10;
    /// All flags of schedulers.
    pub const SCHEDULER_FLAGS: u32 = 0x38;
}

/// A destination of a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Address and port.
    pub address: SocketAddr,
    /// Weight; no new connections with 0.
    pub weight: u32,
    /// True if the address of packets is translated (`IP_VS_CONN_F_MASQ`).
    pub is_translated: bool,
    /// Number of open connections.
    pub active_connections: u32,
    /// Number of connections that are closing or idle, and of datagram flows.
    pub inactive_connections: u32,
}

/// Timeouts of connections in seconds; 0 leaves a timeout unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Idle TCP connections.
    pub tcp_seconds: u32,
    /// TCP connections after a FIN.
    pub tcp_fin_seconds: u32,
    /// UDP flows.
    pub udp_seconds: u32,
}
