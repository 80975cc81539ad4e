//! L2 announcement of load balancer IPs: at most one node, the owner of an address, answers ARP and NDP for it.
//!
//! Nodes elect the owner of each address with time-bounded votes. Each member has one vote per address and leases it
//! to one candidate at a time. The lease ends when the member has not received a probe of the candidate for the
//! fencing interval. A node announces an address only while it holds leases from a majority of the members, measured
//! on its own clock (`CLOCK_BOOTTIME`). Two majorities share a member, so two nodes do not announce the same address,
//! even across a network partition. A frozen process finds its leases expired when it resumes.
//!
//! Two cases are not covered. A hypervisor suspends a host and stops its clock. Or a process starts after somebody
//! deleted the list of members or restored an older copy of it, while members use a list that the process cannot read.
//! Members that run keep their list after a deletion.
//!
//! The election needs the API server only for the list of members ([`api::announcers`]) and for the tie-breaker.
//! Clusters with an even number of members have this additional vote.
//!
//! | Module | Contents |
//! |---|---|
//! | `desired_announcements` | addresses and their candidate nodes, from Services, EndpointSlices, Nodes and AddressPools |
//! | `election` | state machine of a node: members, vote leases, claims; no clock, no I/O |
//! | [`protocol`] | messages between nodes and their authentication |
//! | [`l2`] | ARP and NDP frames, links, packet sockets |
//! | `handoff` | connections that stay open when an address moves: forwarding, ownership history, conntrack flush |
//! | `egress` | Pods that leave the cluster with a load balancer IP: policy routes to the owner, address translation |
//! | `caches` | watches of the API |
//! | [`run()`] | event loop around the state machine, with sockets and the API |
//! | [`status`] | report for operators and for `portolan balancer status` |
//!
//! The tests simulate whole clusters of state machines with packet loss, partitions, freezes and restarts.
//!
//! # Example
//!
//! ```no_run
//! # async fn announce() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use announcer::{LinkSelection, Metrics, Settings};
//! use client::{Client, Config};
//!
//! let client = Client::new(Config::from_kubeconfig("/etc/kubernetes/announcer.conf".as_ref())?)?;
//! let settings = Settings {
//!     node_name: "node-1".to_owned(),
//!     node_ip: None,
//!     port: 7947,
//!     waits_for_port: false,
//!     links: LinkSelection::default(),
//!     metallb_namespace: None,
//!     ignores_exclude_label: false,
//!     served: None,
//! };
//! let shutdown = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! announcer::run(client, settings, Arc::<Metrics>::default(), shutdown).await?;
//! # Ok(())
//! # }
//! ```

mod caches;
mod desired_announcements;
mod egress;
mod election;
mod handoff;
pub mod l2;
mod metrics;
pub mod protocol;
mod run;
#[cfg(test)]
mod simulation;
pub mod status;

use std::time::Duration;

pub use api::announcers::{MEMBERS_MAX, NodeName};
pub use egress::kernel::{EgressError, remove_egress};
pub use election::capabilities::NodeCapabilities;
pub use election::rendezvous;
pub use l2::links::LinkSelection;
pub use metrics::Metrics;
pub use run::{AnnouncerError, Settings, run};
pub use status::Status;

/// Point in time on the monotonic clock of this node, since an arbitrary start that is fixed while the process runs.
pub type Time = Duration;

/// Time between two probes to the same node; each one varies by up to a fifth.
pub const PROBE_PERIOD: Duration = Duration::from_millis(100);
/// Time without a probe of a node after which other nodes claim its addresses.
pub(crate) const SUSPECT_AFTER: Duration = Duration::from_millis(400);
/// Time for which a candidate uses a vote, from the moment it sent the probe that last confirmed the vote.
pub(crate) const VOTE_LEASE: Duration = Duration::from_millis(600);
/// Fencing interval: time without a probe for which a member reserves its vote for a node. It exceeds [`VOTE_LEASE`]
/// by more than two clocks can drift apart.
pub(crate) const FENCING_INTERVAL: Duration = Duration::from_millis(700);
/// Delays of the announcements after an address is acquired. There are several because neighbours can miss some.
pub(crate) const ANNOUNCEMENT_DELAYS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// Maximum number of addresses with votes; it bounds the memory that a member can occupy on other members.
pub(crate) const ADDRESSES_MAX: usize = 65_536;
