//! Remote end of a client's connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Remote end of a client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Client: from the PROXY header, or else [`Peer::transport`].
    pub client: SocketAddr,
    /// Address that the client connected to: from the PROXY header, or else the listener's.
    pub destination: SocketAddr,
    /// Remote address of the TCP connection.
    pub transport: SocketAddr,
    /// Result of the TLS handshake; `None` without TLS.
    pub tls: Option<Arc<TlsPeer>>,
}

impl Peer {
    /// Returns a client that connects without a proxy in between.
    pub fn direct(client: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            client,
            destination,
            transport: client,
            tls: None,
        }
    }

    /// Returns the client's address.
    pub fn ip(&self) -> IpAddr {
        self.client.ip()
    }
}

/// Result of a TLS handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPeer {
    /// Requested server name (SNI).
    pub server_name: Option<String>,
    /// Selected protocol (ALPN).
    pub alpn: Option<Vec<u8>>,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// Cipher suite, for example `TLS13_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
}
