//! What is counted of a port.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a client was sent away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The Service has as many connections as it may have.
    ServiceConnections,
    /// The Service has its share of the connections that this process can bear.
    ServiceShare,
    /// The client has as many connections as one may have.
    ClientConnections,
    /// This process has as many connections as it can bear.
    ProcessConnections,
    /// The client connects more often than it may.
    Rate,
    /// It is in none of the source ranges.
    SourceRange,
    /// It was to send a PROXY header, and sent none or a malformed one.
    ProxyHeader,
    /// The TLS handshake failed, or took too long.
    Handshake,
    /// There is no certificate.
    NoCertificate,
    /// No backend takes it.
    NoBackend,
    /// A datagram, of either side, is beyond the bandwidth of the Service.
    Bandwidth,
}

impl Refusal {
    /// All of them, in the order of their counters.
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

    /// In one or two words, for metrics and logs.
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

/// Counts of a port, since it has been served.
#[derive(Debug, Default)]
pub struct Counters {
    connections: AtomicU64,
    ended: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    handshakes: AtomicU64,
    resumed_handshakes: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
}

impl Counters {
    pub(crate) fn connection_begins(&self) {
        add(&self.connections, 1);
    }

    pub(crate) fn connection_ends(&self) {
        add(&self.ended, 1);
    }

    pub(crate) fn handshake(&self, is_resumed: bool) {
        add(&self.handshakes, 1);
        if is_resumed {
            add(&self.resumed_handshakes, 1);
        }
    }

    /// Counts what came from a client.
    pub fn received(&self, bytes: u64) {
        add(&self.received_bytes, bytes);
    }

    /// Counts what a client was sent.
    pub fn sent(&self, bytes: u64) {
        add(&self.sent_bytes, bytes);
    }

    /// Counts a client that was sent away.
    pub fn refused(&self, why: Refusal) {
        if let Some(count) = self.refused.get(why as usize) {
            add(count, 1);
        }
    }

    /// Connections and flows that were taken, those that were then refused among them.
    pub fn connections(&self) -> u64 {
        get(&self.connections)
    }

    /// Connections and flows that are open.
    pub fn open(&self) -> u64 {
        let ended = get(&self.ended);
        self.connections().saturating_sub(ended)
    }

    /// Bytes from clients, and bytes to clients.
    pub fn bytes(&self) -> (u64, u64) {
        (get(&self.received_bytes), get(&self.sent_bytes))
    }

    /// TLS handshakes with clients, and how many of them resumed a session.
    pub fn handshakes(&self) -> (u64, u64) {
        (get(&self.handshakes), get(&self.resumed_handshakes))
    }

    /// Clients that were sent away for a reason.
    pub fn refusals(&self, why: Refusal) -> u64 {
        self.refused.get(why as usize).map_or(0, get)
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
