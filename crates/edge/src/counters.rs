//! Counters of a port: connections, handshakes, bytes and refusals.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::http::request_metrics::RequestMetrics;
use crate::refusal::ConnectionRefusal;

/// Counters of a port since the edge first served it.
#[derive(Debug, Default)]
pub(crate) struct PortCounters {
    connections: AtomicU64,
    closed_connections: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    handshakes: AtomicU64,
    resumed_handshakes: AtomicU64,
    refused: [AtomicU64; ConnectionRefusal::ALL.len()],
    /// Counters of HTTP requests.
    pub requests: RequestMetrics,
}

impl PortCounters {
    /// Counts a connection or flow that opens.
    pub(crate) fn connection_opened(&self) {
        add(&self.connections, 1);
    }

    /// Counts a connection or flow that closes.
    pub(crate) fn connection_closed(&self) {
        add(&self.closed_connections, 1);
    }

    /// Counts a TLS handshake with a client.
    pub(crate) fn handshake(&self, is_resumed: bool) {
        add(&self.handshakes, 1);
        if is_resumed {
            add(&self.resumed_handshakes, 1);
        }
    }

    /// Counts bytes from a client.
    pub(crate) fn received(&self, bytes: u64) {
        add(&self.received_bytes, bytes);
    }

    /// Counts bytes to a client.
    pub(crate) fn sent(&self, bytes: u64) {
        add(&self.sent_bytes, bytes);
    }

    /// Counts a refused connection, flow or datagram.
    pub(crate) fn refused(&self, refusal: ConnectionRefusal) {
        if let Some(count) = self.refused.get(refusal as usize) {
            add(count, 1);
        }
    }

    /// Returns the number of accepted connections and flows, including those that were refused afterwards.
    pub(crate) fn connections(&self) -> u64 {
        get(&self.connections)
    }

    /// Returns the number of open connections and flows.
    pub(crate) fn open(&self) -> u64 {
        let closed = get(&self.closed_connections);
        self.connections().saturating_sub(closed)
    }

    /// Returns the numbers of bytes from clients and to clients.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (get(&self.received_bytes), get(&self.sent_bytes))
    }

    /// Returns the numbers of TLS handshakes with clients, and of those that resumed a session.
    pub(crate) fn handshakes(&self) -> (u64, u64) {
        (get(&self.handshakes), get(&self.resumed_handshakes))
    }

    /// Returns the number of connections, flows and datagrams that were refused for a reason.
    pub(crate) fn refusals(&self, refusal: ConnectionRefusal) -> u64 {
        self.refused.get(refusal as usize).map_or(0, get)
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
