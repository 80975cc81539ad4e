//! Connections to backends.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::backends::Chosen;
use crate::peer::Peer;
use crate::port::Port;

/// A connection to a backend. It implements `AsyncRead` and `AsyncWrite`.
#[derive(Debug)]
pub enum Outbound {
    /// Bytes.
    Plain(TcpStream),
    /// Bytes inside of TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Outbound {
    /// The protocol that the handshake agreed on, if there was one.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
        }
    }
}

/// No connection to a backend. Another backend, or a later attempt, may take it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No connection.
    #[error("connecting to backend {to}: {source}")]
    Connect {
        /// Whom.
        to: std::net::SocketAddr,
        /// What failed.
        source: std::io::Error,
    },
    /// The handshake failed.
    #[error("TLS handshake with backend {to}: {source}")]
    Tls {
        /// Whom.
        to: std::net::SocketAddr,
        /// What failed.
        source: std::io::Error,
    },
}

/// Connects to a backend that was chosen, within `connect_timeout`: sends the PROXY header if the Service asks for one, and
/// completes the TLS handshake if the backend protocol has it. What comes of it counts for the backend's ejection.
pub async fn connect(port: &Arc<Port>, chosen: &Chosen, peer: &Peer) -> Result<Outbound, ConnectError>;

/// The same with another backend where one fails, as often as that makes sense, each chosen by [`Port::choose`].
pub async fn connect_any(port: &Arc<Port>, peer: &Peer) -> Result<(Chosen, Outbound), ConnectError>;
