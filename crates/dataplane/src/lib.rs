//! Dataplanes: each writes the plan into the kernel in its own language, by differences.

use api::object::ObjectKey;
use netlink::nftables::{CommitError, Monitor, ReadError, Touched};
use plan::{Changes, Plan, Scheduler};

mod counts;
pub mod iptables;
pub mod nftables;
#[cfg(test)]
mod test_plans;
pub mod userspace;

pub use counts::{Counts, IptablesCounts, TableCounts};

/// A way to put a plan into force on this node.
///
/// An implementation is always in a state that some plan describes: a change is one transaction.
pub trait Dataplane {
    /// Brings the changed Services of `plan` into force. The first call takes over what an earlier
    /// process left, by differences, so that flows and affinities go on. After an error nothing of this
    /// call is in force, but for a first load, which goes Service by Service; the caller may retry.
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError>;

    /// Reads back what is in force and mends what differs from `plan`; returns how many elements
    /// differed (drift).
    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError>;

    /// Begins to watch what others do to what this dataplane writes, where that can be watched.
    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        Ok(None)
    }

    /// Mends what others did, as a watch told; returns how many elements and chains were looked at.
    fn mend(&mut self, plan: &Plan, touched: &[Touched]) -> Result<usize, DataplaneError> {
        match touched {
            [] => Ok(0),
            _ => self.repair(plan),
        }
    }

    /// What it counts besides.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Whether endpoints can be chosen like this. Where they cannot, they are chosen at random.
    fn supports(&self, scheduler: Scheduler) -> bool {
        scheduler == Scheduler::Random
    }
}

/// What came of a plan's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// How many elements were added or deleted.
    pub elements: usize,
    /// Services that the kernel refused. What was in force for them before still is.
    pub skipped: Vec<Skipped>,
}

/// A Service that is not in force as the plan has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Which.
    pub service: ObjectKey,
    /// What the kernel said.
    pub reason: String,
}

/// Why a plan is not in force.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// CAP_NET_ADMIN is missing. No retry mends it.
    #[error("not permitted: the capability CAP_NET_ADMIN is missing (run as root, or grant it)")]
    NotPermitted,
    /// The kernel has no netfilter netlink, or no more descriptors are to be had.
    #[error("no connection to the kernel's netfilter: {source}")]
    Connect {
        /// What failed.
        source: std::io::Error,
    },
    /// The threads that pass on connections could not be started. Retrying helps if the machine lacked memory.
    #[error("cannot start threads: {source}")]
    Threads {
        /// What failed.
        source: std::io::Error,
    },
    /// What is in force could not be read. Retrying helps, unless the kernel lacks nftables.
    #[error(transparent)]
    Read {
        /// What failed.
        source: ReadError,
    },
    /// The kernel refused a transaction, or could not take it. Retrying helps if it lacked memory; if it
    /// lacks an expression (`ENOENT`, `EOPNOTSUPP`), nothing but another kernel does.
    #[error(transparent)]
    Commit {
        /// What failed.
        source: CommitError,
    },
    /// A program of iptables failed. Retrying helps if another one had the tables.
    #[error(transparent)]
    Program {
        /// What failed.
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
