//! Who is at the other end of a client's connection.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Who is at the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The client: as a PROXY header tells it, else [`Peer::transport`].
    pub client: SocketAddr,
    /// Where the client connected to: as a PROXY header tells it, else the listener's address.
    pub destination: SocketAddr,
    /// The other end of the connection itself.
    pub transport: SocketAddr,
    /// What its TLS handshake agreed on; nothing without TLS.
    pub tls: Option<Arc<TlsPeer>>,
}

impl Peer {
    /// A client that is the other end itself.
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

/// What a TLS handshake agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPeer {
    /// The name that the client asked for (SNI).
    pub server_name: Option<String>,
    /// The protocol (ALPN).
    pub alpn: Option<Vec<u8>>,
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The suite, as `TLS13_AES_128_GCM_SHA256`.
    pub cipher_suite: String,
}
