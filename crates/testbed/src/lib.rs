//! Test clusters for tests, benchmarks and `portolan playground`. Network namespaces serve as nodes, control plane
//! and outside client. Of the crates of the product, only `portolan` uses it.
//!
//! Two layers:
//! - an **enclosure** ([`enclose`], [`in_namespace`]): a process in new user (unless root), network, mount and PID
//!   namespaces. It does not affect the host. All of its processes exit with the process that started it, even after
//!   `kill -9`.
//! - a **topology** inside ([`Topology`] → [`Cluster`]): further network namespaces on one bridge. Descriptors hold
//!   them.
//!
//! [`ImageLayout`] writes a container image of a static shell.
//!
//! On the members, [`arp_client`] observes announcements, [`Backend`] serves connections, and [`request_tcp`] and
//! [`exchange_udp`] send requests. The crate needs no external program: it sets links and routes by rtnetlink, and
//! settings by `/proc/sys`.
//!
//! ```no_run
//! #[test]
//! fn cluster_starts() {
//!     testbed::in_namespace(|| {
//!         let topology = testbed::Topology::with_nodes(2).expect("a topology");
//!         let cluster = testbed::Cluster::start(topology).expect("a cluster");
//!         assert_eq!(cluster.nodes().count(), 2);
//!     });
//! }
//! ```

pub mod arp_client;
mod backend;
mod cluster;
mod control_group;
mod enclosure;
mod etcd;
mod image_layout;
mod namespaced_test;
mod probe;
mod running_enclosure;
mod sysctl;
mod topology;
mod wait_until;

pub use backend::Backend;
pub use cluster::{Cluster, ClusterError, Member, NETNS_DIRECTORY};
pub use control_group::ControlGroup;
pub use enclosure::{
    EnclosureError, EnclosureSetup, RUN_DIRECTORY, cover_file, enclose, host_listener, set_up_enclosure,
};
pub use etcd::EtcdServer;
pub use image_layout::{ImageLayout, static_shell};
pub use namespaced_test::{in_namespace, skip_inside};
pub use probe::{ProbeError, exchange_udp, forward, request_tcp};
pub use running_enclosure::{EnclosureEntryError, RunningEnclosure, enter_enclosure};
pub use sysctl::write_sysctl;
pub use topology::{DualAddress, DualNet, MemberPlan, NODES_MAX, NodePlan, Topology, TopologyError};
pub use wait_until::wait_until;
