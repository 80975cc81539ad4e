//! Connections and flows that the proxy ends, and their conntrack entries.
//!
//! - [`stale_flows`], [`conntrack`]: stale entries of UDP and SCTP; deletion of conntrack entries
//! - [`drain`]: TCP connections to endpoints that have left
//! - [`lost_nodes`]: TCP connections to endpoints whose node has failed
//! - [`age`]: TCP connections that are too old
//! - [`rebalance`]: distribution of TCP connections after a scale-out
//! - [`resets`]: resets of the peers of TCP connections

pub(crate) mod age;
pub(crate) mod conntrack;
pub(crate) mod drain;
pub(crate) mod lost_nodes;
pub(crate) mod rebalance;
pub(crate) mod resets;
pub(crate) mod stale_flows;
