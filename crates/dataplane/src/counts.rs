//! What dataplanes count besides, for the metrics.

use plan::Family;

/// Counts since a dataplane was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often something stale in nftables could not be taken away (MET-21).
    pub cleanup_failures: u64,
    /// What iptables has, by family.
    pub iptables: Vec<IptablesCounts>,
}

/// One family's iptables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IptablesCounts {
    /// The family.
    pub family: Family,
    /// How often writing everything failed (MET-14).
    pub failures: u64,
    /// How often writing a change failed (MET-15).
    pub partial_failures: u64,
    /// The tables.
    pub tables: Vec<TableCounts>,
}

/// One table of iptables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// Its name.
    pub table: &'static str,
    /// Rules of ours in it (MET-16).
    pub rules: u64,
    /// Rules that the last sync wrote (MET-17).
    pub rules_last: u64,
}
