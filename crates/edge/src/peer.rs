//! The remote end of a client's connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The remote end of a client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The client: from the PROXY header, or else [`Peer::transport`].
    pub client: SocketAddr,
    /// The address that the client connected to: from the PROXY header, or else the listener's.
    pub destination: SocketAddr,
    /// The remote address of the TCP connection.
    pub transport: SocketAddr,
    /// The result of the TLS handshake; `None` without TLS.
    pub tls: Option<Arc<TlsPeer>>,
}

impl Peer {
    /// A client that connects without a proxy in between.
    pub fn direct(client: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            client,
            destination,
            transport: client,
            tls: None,
        }
    }

    /// The client's address.
    pub fn ip(&self) -> IpAddr {
        self.client.ip()
    }
}

/// The result of a TLS handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPeer {
    /// The requested server name (SNI).
    pub server_name: Option<String>,
    /// The selected protocol (ALPN).
    pub alpn: Option<Vec<u8>>,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, for example `TLS13_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
}
