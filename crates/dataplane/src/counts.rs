//! Counters of data planes, for metrics.

use plan::Family;

/// Counters since the data plane was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Failed deletions of stale nftables objects (MET-21).
    pub cleanup_failures: u64,
    /// TCP connections of this process that were reset because their endpoint was lost.
    pub reset_connections: u64,
    /// TCP connections of this process that were reset because the drain period of their endpoint was over.
    pub drained_connections: u64,
    /// TCP connections of this process that were reset at their maximum age.
    pub aged_connections: u64,
    /// TCP connections of this process that were reset because endpoints were added.
    pub rebalanced_connections: u64,
    /// Counters of iptables mode, by IP family.
    pub iptables: Vec<IptablesCounts>,
    /// State of eBPF mode; `None` in other modes.
    pub connect: Option<ConnectCounts>,
    /// Refused permits of userspace mode; `None` in other modes.
    pub permit_refusals: Option<PermitRefusals>,
}

/// Refused permits of userspace mode, by the limit that was reached. A connection that waits is refused again at each
/// attempt to accept it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PermitRefusals {
    /// The limit of the process.
    pub process: u64,
    /// The share of a Service.
    pub service: u64,
    /// The share of a client address.
    pub client: u64,
}

/// State of eBPF mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectCounts {
    /// True if the programs are attached.
    pub is_attached: bool,
    /// Frontends whose endpoints are chosen when a client connects.
    pub frontends: u64,
    /// True if the sockets of clients can be destroyed. Otherwise nftables serves Services with `drain-seconds`.
    pub destroys_sockets: bool,
    /// Events of connections for which the ring had no room; `None` if the programs report none.
    pub lost_events: Option<u64>,
}

/// Accepted and refused connections of a Service, as eBPF mode counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCount {
    /// Connections that got an endpoint.
    pub accepted: u64,
    /// Connections that were refused, because the Service has no endpoint.
    pub refused: u64,
}

/// Counters of iptables mode for one IP family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IptablesCounts {
    /// IP family.
    pub family: Family,
    /// Failed full syncs (MET-14).
    pub failures: u64,
    /// Failed partial syncs (MET-15).
    pub partial_failures: u64,
    /// Counters by table.
    pub tables: Vec<TableCounts>,
}

/// Counters of one iptables table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// Name of the table.
    pub table: &'static str,
    /// Own rules in the table (MET-16).
    pub rules: u64,
    /// Rules that the last sync wrote (MET-17).
    pub rules_last: u64,
}
