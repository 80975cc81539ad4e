//! A cluster in a box: network namespaces as nodes, control plane and outside client, for tests,
//! benches and `portolan playground`. No product crate uses it.
//!
//! Two layers:
//! - an **enclosure** ([`enclose`], [`in_namespace`]): a process of its own in fresh user (when not root),
//!   network, mount and pid namespaces. Whatever happens inside is not seen on the host, and all of it ends
//!   with the process that asked for it, even by `kill -9`;
//! - a **topology** inside ([`Topology`] → [`Cluster`]): further network namespaces on one bridge, held by
//!   descriptors.
//!
//! No program is needed for any of it: links and routes go by rtnetlink, settings by `/proc/sys`.

pub mod asker;
mod backend;
mod cluster;
mod enclosure;
mod etcd;
mod namespaced_test;
mod probe;
mod running;
mod sysctl;
mod topology;
mod until;

pub use backend::Backend;
pub use cluster::{Cluster, ClusterError, Member, NETNS_DIRECTORY};
pub use enclosure::{EnclosureError, Inside, RUN_DIRECTORY, cover_file, enclose, host_listener, settle};
pub use etcd::EtcdServer;
pub use namespaced_test::{in_namespace, skip_inside};
pub use probe::{ProbeError, exchange_udp, forward, request_tcp};
pub use running::{EnterError, Running, enter};
pub use sysctl::write_sysctl;
pub use topology::{DualAddress, DualNet, MemberPlan, NODES_MAX, NodePlan, Topology, TopologyError};
pub use until::until;
