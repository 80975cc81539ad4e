//! Data planes: implementations of a [`Plan`] by rules and programs of the kernel, or by listeners of this process.
//! Each data plane writes differences only.
//!
//! - [`nftables`]: one table, by netlink
//! - [`iptables`]: kube-proxy's chains, by `iptables-restore`
//! - [`ipvs`]: virtual servers that choose endpoints, over the rules of nftables
//! - [`ebpf`]: programs that choose endpoints at `connect()`, over the rules of nftables
//! - [`userspace`]: relays in this process, with redirects by nftables
//!
//! [`two_tier`] forwards packets to the nodes of endpoints, before a data plane translates them.
//!
//! ```no_run
//! use dataplane::Dataplane;
//! use dataplane::nftables::{NftablesDataplane, Options};
//! use plan::{Plan, Settings};
//!
//! let mut plan = Plan::new(Settings::default());
//! let mut dataplane = NftablesDataplane::open(Options::default())?;
//! let changes = plan.take_changes();
//! let applied = dataplane.apply(&plan, &changes)?;
//! assert!(applied.skipped.is_empty());
//! # Ok::<(), dataplane::DataplaneError>(())
//! ```

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use api::object::ObjectKey;
use netlink::nftables::{CommitError, ExternalChange, Monitor, ReadError};
use plan::{Changes, Plan, PortKey, Scheduler};

mod client_sockets;
mod counts;
pub mod ebpf;
pub mod iptables;
pub mod ipvs;
pub mod nftables;
pub mod rebalance;
#[cfg(test)]
mod tests;
pub mod two_tier;
pub mod userspace;

pub use client_sockets::{ClientSocket, ClientSocketError, Destroyed};
pub use counts::{ConnectCounts, ConnectionCount, Counts, IptablesCounts, PermitRefusals, TableCounts};

/// Addresses of endpoints, each with its Service. A Service ends only its own connections, although any namespace may
/// name the address of a Pod in a slice.
pub type ServiceEndpoints = HashSet<(ObjectKey, IpAddr)>;

/// Addresses and ports of endpoints, each with its Service.
pub type ServiceSockets = HashSet<(ObjectKey, SocketAddr)>;

/// Implementation of a plan on this node.
///
/// A change is one transaction, so the applied state always corresponds to some plan.
pub trait Dataplane {
    /// Applies the changed Services of `plan`. The first call takes over the state of an earlier process by
    /// differences, so that flows and affinities continue.
    ///
    /// # Errors
    ///
    /// An error leaves the previous state applied, except during a first load, which applies groups of Services. The
    /// caller may retry.
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError>;

    /// Compares the kernel's state with `plan` and repairs it. Returns the number of elements that differed (drift).
    ///
    /// # Errors
    ///
    /// An error if the state cannot be read or written. The caller may retry.
    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError>;

    /// Opens a monitor of external changes, if the implementation has one.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        Ok(None)
    }

    /// Repairs external changes that a monitor reported. Returns the number of elements and chains that were checked.
    ///
    /// # Errors
    ///
    /// An error if the state cannot be read or written. The caller may retry.
    fn repair_external(&mut self, plan: &Plan, changes: &[ExternalChange]) -> Result<usize, DataplaneError> {
        match changes {
            [] => Ok(0),
            _ => self.repair(plan),
        }
    }

    /// Resets the open TCP connections to these endpoints that pass through this process. Connection tracking has the
    /// endpoints of all others.
    fn end_connections(&mut self, _endpoints: &ServiceEndpoints) {}

    /// Passes to `each` the connected TCP sockets of clients on this node whose endpoints were chosen when they connected.
    /// Connection tracking has no record of the Services of these connections. There are none if
    /// [`Dataplane::destroy_client_sockets`] cannot destroy them.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError`] if the sockets cannot be read.
    fn client_sockets(&self, _each: &mut dyn FnMut(&ClientSocket)) -> Result<(), ClientSocketError> {
        Ok(())
    }

    /// Destroys those of the sockets that `is_selected` accepts, and passes their number to `done`, from another
    /// thread. `done` is not called if no socket is selected.
    ///
    /// # Errors
    ///
    /// [`ClientSocketError`] if the sockets cannot be read. Failures of the destruction are logged.
    fn destroy_client_sockets(
        &mut self,
        _is_selected: &mut dyn FnMut(&ClientSocket) -> bool,
        _done: Destroyed,
    ) -> Result<(), ClientSocketError> {
        Ok(())
    }

    /// Resets the open TCP connections to endpoints whose drain period is over. Returns false if connections do not pass
    /// through this process.
    fn end_drained(&mut self, _endpoints: &ServiceSockets) -> bool {
        false
    }

    /// Distributes the TCP connections of Service ports with `rebalance-percent` again, after endpoints were added. Returns
    /// false if connections do not pass through this process.
    fn rebalance(&mut self, _ports: &BTreeSet<PortKey>) -> bool {
        false
    }

    /// Returns counters for metrics.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Returns the reason why a part of the implementation is not in use. Another part serves its connections then.
    fn fault(&self) -> Option<&str> {
        None
    }

    /// Returns the connections of each Service that the implementation counts itself.
    fn connections_of_services(&self) -> HashMap<ObjectKey, ConnectionCount> {
        HashMap::new()
    }

    /// Returns true if the implementation answers echo requests ([`Plan::pings_of`]).
    fn answers_ping(&self) -> bool {
        false
    }

    /// Returns true if the implementation serves connections that other nodes forward ([`two_tier`]).
    fn supports_two_tier(&self) -> bool {
        false
    }

    /// Returns true if the implementation supports a scheduler. Otherwise it selects endpoints at random.
    fn supports(&self, scheduler: Scheduler) -> bool {
        scheduler == Scheduler::Random
    }
}

/// Result of applying changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Number of elements that were added or deleted.
    pub elements: usize,
    /// Services that the kernel refused. Their previous state stays applied.
    pub skipped: Vec<SkippedService>,
}

/// A Service whose planned state is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedService {
    /// Namespace and name.
    pub service: ObjectKey,
    /// Reason from the kernel.
    pub reason: String,
}

/// Reasons why a plan is not applied.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// CAP_NET_ADMIN is missing. A retry does not help.
    #[error("not permitted: the capability CAP_NET_ADMIN is missing (run as root, or grant it)")]
    NotPermitted,
    /// The kernel lacks netfilter netlink, or no file descriptor is left.
    #[error("no connection to the kernel's netfilter: {source}")]
    Connect {
        /// Error of the system call.
        source: std::io::Error,
    },
    /// Worker threads could not be started. A retry helps if memory was short.
    #[error("cannot start threads: {source}")]
    Threads {
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The applied state could not be read. A retry helps, unless the kernel lacks nftables.
    #[error(transparent)]
    Read {
        /// Error of the read.
        source: ReadError,
    },
    /// The kernel refused a transaction. A retry helps if memory was short. If the kernel lacks an expression
    /// (`ENOENT`, `EOPNOTSUPP`), it does not.
    #[error(transparent)]
    Commit {
        /// Error of the transaction.
        source: CommitError,
    },
    /// A program of iptables failed. A retry helps if another program held the lock.
    #[error(transparent)]
    Program {
        /// Error of the program.
        source: iptables::ProgramError,
    },
}

impl From<iptables::ProgramError> for DataplaneError {
    fn from(source: iptables::ProgramError) -> Self {
        match source {
            iptables::ProgramError::NotPermitted { .. } => Self::NotPermitted,
            source => Self::Program { source },
        }
    }
}

impl From<ReadError> for DataplaneError {
    fn from(source: ReadError) -> Self {
        match source {
            ReadError::NotPermitted => Self::NotPermitted,
            source => Self::Read { source },
        }
    }
}

impl From<CommitError> for DataplaneError {
    fn from(source: CommitError) -> Self {
        match source {
            CommitError::NotPermitted => Self::NotPermitted,
            source => Self::Commit { source },
        }
    }
}
