//! Observation of this node: processes, the kernel, the network, and responses to probes.
//!
//! [`observe`] calls the readers. Each one has a module: its parser is pure, and its input and output are bounded. [`gap`]
//! records the parts that cannot be read. `portolan doctor node` prints the findings of an observation, and the agent's
//! endpoint serves it.

mod bgp;
mod certificates;
mod clock;
mod cluster;
mod cluster_domain;
mod conntrack;
mod drift;
mod firewalls;
mod gap;
mod host;
mod iptables;
mod listeners;
mod local_servers;
mod network;
mod observe;
mod pods;
mod probes;
mod processes;
mod proxies;
mod sockets;
mod sysctls;
mod tables;
mod variables;

use explain::Kind;

pub(crate) use clock::offset as clock_offset;
pub(crate) use cluster::Cluster;
pub(crate) use gap::ReadFailure;
pub(crate) use host::{own_addresses, pod_namespace, proxy_mode};
pub(crate) use observe::{Request, observe};
pub(crate) use probes::run_outside as probe_outside;
pub(crate) use proxies::{Program, RunningProxy, running_proxies};

/// Kinds that the proxy's plan depends on.
pub(crate) const PLAN_KINDS: [Kind; 4] = [Kind::Service, Kind::EndpointSlice, Kind::Node, Kind::ServiceCidr];
