//! Reasons why connections and datagrams are refused.

/// Reason why a connection, a flow or a datagram is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The Service has reached its own limit of connections.
    ServiceConnections,
    /// The Service, or its namespace, has used up its share of the process's connections.
    ServiceShare,
    /// The client has reached its limit of connections.
    ClientConnections,
    /// The process has reached its limit of connections.
    ProcessConnections,
    /// The client opens connections faster than allowed.
    Rate,
    /// The client's address is in none of the source ranges.
    SourceRange,
    /// The connection must begin with a PROXY header. The header is absent or malformed.
    ProxyHeader,
    /// The TLS handshake failed or timed out.
    Handshake,
    /// No certificate is valid.
    NoCertificate,
    /// No backend takes the connection.
    NoBackend,
    /// A datagram, of either direction, exceeds the bandwidth of the Service.
    Bandwidth,
}

impl ConnectionRefusal {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 11] = [
        Self::ServiceConnections,
        Self::ServiceShare,
        Self::ClientConnections,
        Self::ProcessConnections,
        Self::Rate,
        Self::SourceRange,
        Self::ProxyHeader,
        Self::Handshake,
        Self::NoCertificate,
        Self::NoBackend,
        Self::Bandwidth,
    ];

    /// Returns the label value in metrics, logs and status pages.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ServiceConnections => "service_connections",
            Self::ServiceShare => "service_share",
            Self::ClientConnections => "client_connections",
            Self::ProcessConnections => "process_connections",
            Self::Rate => "rate",
            Self::SourceRange => "source_range",
            Self::ProxyHeader => "proxy_header",
            Self::Handshake => "handshake",
            Self::NoCertificate => "no_certificate",
            Self::NoBackend => "no_backend",
            Self::Bandwidth => "bandwidth",
        }
    }
}
