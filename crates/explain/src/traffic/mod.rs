//! Traffic of Services: connections, rates, bytes and failures by Service, frontend, endpoint and client, from entries of
//! connection tracking.
//!
//! The reader of a node passes samples and events to a [`Tracker`], and gets a [`NodeFlows`] for each interval. An
//! [`Attribution`] assigns entries to frontends as the plan of the node does. [`ClusterTraffic`] merges the reports of
//! nodes, and [`Names`] resolves their addresses to Pods and Nodes.
//!
//! - `entry`: an entry of connection tracking
//! - `attribution`: frontend and endpoint of an entry
//! - `tracker`: differences between samples, with events in between
//! - `statistics`: numbers of an interval
//! - `node_flows`: report of one node
//! - `sums`: the sums of a report
//! - `cluster`: the reports of all nodes together
//! - `names`: Pods and Nodes of addresses

mod attribution;
mod cluster;
mod entry;
mod names;
mod node_flows;
mod statistics;
mod sums;
mod tracker;

pub use attribution::{AttributedEntry, Attribution, FrontendKind, FrontendName, Selection};
pub use cluster::{ClientRow, ClusterTraffic, EndpointRow, FrontendRow, NodeFlow, NodeState, ServiceRow};
pub use entry::{Direction, Entry, Phase, State, TcpState};
pub use names::{Names, Peer, PeerKind};
pub use node_flows::{
    API_VERSION, ClientTraffic, EndpointConnections, EndpointTraffic, Events, FlowRow, FrontendTraffic, KIND,
    NodeFlows, ServiceTraffic,
};
pub use statistics::{Rates, TrafficStatistics};
pub use sums::{Limits, RowSelection};
pub use tracker::{FLOWS_MAX, Tracker, UNANSWERED_AFTER};

#[cfg(test)]
mod tests;
