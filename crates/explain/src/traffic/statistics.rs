//! Numbers of an interval: connections, bytes, failures and their rates.

use serde::{Deserialize, Serialize};

/// Numbers of one interval on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrafficStatistics {
    /// Connections and UDP flows that are open at the end of the interval: both sides have sent packets.
    pub open: u64,
    /// Connections that began in the interval, whether they ended in it or not.
    pub opened: u64,
    /// Connections without a reply at the end of the interval, for one second or more.
    pub unanswered: u64,
    /// Connections that ended in the interval without a reply, because the entry expired or was deleted.
    pub expired: u64,
    /// TCP connections that ended in the interval because a reset answered the SYN.
    pub refused: u64,
    /// Bytes from clients in the interval.
    pub bytes_to_endpoints: u64,
    /// Bytes of replies in the interval.
    pub bytes_to_clients: u64,
}

impl TrafficStatistics {
    /// Returns the failed connections: unanswered, expired without an answer, or refused.
    pub fn failed(&self) -> u64 {
        self.unanswered
            .saturating_add(self.expired)
            .saturating_add(self.refused)
    }

    /// Adds other numbers of the same interval. Numbers of a report from another host may be arbitrarily large.
    pub fn add(&mut self, other: &Self) {
        for (sum, number) in [
            (&mut self.open, other.open),
            (&mut self.opened, other.opened),
            (&mut self.unanswered, other.unanswered),
            (&mut self.expired, other.expired),
            (&mut self.refused, other.refused),
            (&mut self.bytes_to_endpoints, other.bytes_to_endpoints),
            (&mut self.bytes_to_clients, other.bytes_to_clients),
        ] {
            *sum = sum.saturating_add(number);
        }
    }

    /// Returns the numbers per second. Bytes are unknown if the kernel does not count them.
    pub fn rates(&self, interval_seconds: f64, counts_bytes: bool) -> Rates {
        let seconds = interval_seconds.max(INTERVAL_SECONDS_MIN);
        let bytes = |bytes: u64| counts_bytes.then(|| bytes as f64 / seconds);
        Rates {
            connections: self.open,
            connections_per_second: self.opened as f64 / seconds,
            bytes_to_endpoints_per_second: bytes(self.bytes_to_endpoints),
            bytes_to_clients_per_second: bytes(self.bytes_to_clients),
            unanswered: self.unanswered.saturating_add(self.expired),
            refused: self.refused,
            failed: self.failed(),
        }
    }
}

/// Shortest interval in a division: reports of other hosts may state 0.
const INTERVAL_SECONDS_MIN: f64 = 0.001;

/// Numbers of an interval on all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rates {
    /// Open connections and UDP flows.
    pub connections: u64,
    /// New connections per second.
    pub connections_per_second: f64,
    /// Bytes per second from clients; `None` if no node counts them.
    pub bytes_to_endpoints_per_second: Option<f64>,
    /// Bytes per second of replies; `None` if no node counts them.
    pub bytes_to_clients_per_second: Option<f64>,
    /// Connections without an answer: open ones, and those that ended in the interval.
    pub unanswered: u64,
    /// Connections that were refused in the interval.
    pub refused: u64,
    /// Unanswered and refused connections.
    pub failed: u64,
}

impl Rates {
    /// Adds the numbers of another node.
    pub fn add(&mut self, other: &Self) {
        self.connections = self.connections.saturating_add(other.connections);
        self.connections_per_second += other.connections_per_second;
        for (sum, bytes) in [
            (
                &mut self.bytes_to_endpoints_per_second,
                other.bytes_to_endpoints_per_second,
            ),
            (
                &mut self.bytes_to_clients_per_second,
                other.bytes_to_clients_per_second,
            ),
        ] {
            if let Some(bytes) = bytes {
                *sum = Some(sum.unwrap_or_default() + bytes);
            }
        }
        self.unanswered = self.unanswered.saturating_add(other.unanswered);
        self.refused = self.refused.saturating_add(other.refused);
        self.failed = self.failed.saturating_add(other.failed);
    }

    /// Returns the bytes per second in both directions; `None` if no node counts them.
    pub fn bytes_per_second(&self) -> Option<f64> {
        match (
            self.bytes_to_endpoints_per_second,
            self.bytes_to_clients_per_second,
        ) {
            (None, None) => None,
            (to_endpoints, to_clients) => {
                Some(to_endpoints.unwrap_or_default() + to_clients.unwrap_or_default())
            }
        }
    }
}
