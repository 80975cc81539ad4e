//! Repair of allocation records: compares cluster IPs and node ports with the Services that use them (CIDR-15 to
//! CIDR-19, NP-11).
//!
//! A Service and its allocations are written in one transaction. They are therefore consistent unless a user edits an
//! IPAddress, changes the ranges, or restores a part of a backup. [`AllocationRecords`] is one revision of the store;
//! [`addresses`] and [`ports`] find inconsistencies in it and decide on repairs.

pub(crate) mod addresses;
mod allocation_records;
pub(crate) mod ports;
mod transactions;

#[cfg(test)]
pub(crate) use allocation_records::PortRecord;
pub(crate) use allocation_records::{AddressRecord, AllocationRecords, ServiceRecord};
pub(crate) use transactions::transactions;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use store::Revision;

use super::pools::RepairCounts;

/// Key prefix of Services.
pub(crate) const SERVICES_PREFIX: &str = "/services/";

/// A kind of inconsistency. The names are the values of the label `type` of the repair metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A Service uses an item without a record of its own.
    NotRecorded,
    /// Two Services use the same item.
    Duplicate,
    /// The item is outside of all ranges.
    OutOfRange,
    /// The item is recorded, but no Service uses it.
    Leaked,
    /// The value is not an IP address.
    NotValid,
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::NotRecorded,
        Self::Duplicate,
        Self::OutOfRange,
        Self::Leaked,
        Self::NotValid,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::NotRecorded => "repair",
            Self::Duplicate => "duplicate",
            Self::OutOfRange => "outOfRange",
            Self::Leaked => "leak",
            Self::NotValid => "invalid",
        }
    }
}

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RegardingObject {
    pub(crate) kind: &'static str,
    pub(crate) api_version: &'static str,
    /// "" for cluster-scoped kinds.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// One inconsistency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) fault: Fault,
    /// Reason of the Event, as upstream's.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// The object of the Event; `None` if no object is left.
    pub(crate) regarding: Option<RegardingObject>,
}

/// The Service that holds an address or port, at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) at: Revision,
}

/// A repair, which is applied only if nothing has changed since the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RepairAction {
    /// Creates the IPAddress for its Service. An existing one of revision `replaces` is deleted first.
    RecordAddress {
        address: IpAddr,
        holder: ServiceReference,
        replaces: Option<Revision>,
    },
    /// Deletes the IPAddress, which frees the address.
    FreeAddress { address: IpAddr, at: Revision },
    /// Records the port for its Service, and replaces an existing record of revision `replaces`.
    RecordPort {
        port: u16,
        holder: ServiceReference,
        replaces: Option<Revision>,
    },
    /// Deletes the record of the port, which frees the port.
    FreePort { port: u16, at: Revision },
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) findings: Vec<Finding>,
    pub(crate) repairs: Vec<RepairAction>,
}

/// Number of findings by fault since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    by_fault: [AtomicU64; Fault::ALL.len()],
    /// Number of failed passes.
    pub(crate) failed_passes: AtomicU64,
}

impl Counts {
    pub(crate) fn add(&self, fault: Fault) {
        let counts = Fault::ALL.iter().zip(&self.by_fault);
        for (_, count) in counts.filter(|(counted, _)| **counted == fault) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the current counts, for metrics.
    pub(crate) fn read(&self) -> RepairCounts {
        let counts = Fault::ALL.iter().zip(&self.by_fault);
        RepairCounts {
            faults: counts
                .map(|(fault, count)| (fault.name(), count.load(Ordering::Relaxed)))
                .collect(),
            failures: self.failed_passes.load(Ordering::Relaxed),
        }
    }
}
