//! Cluster IPs and node ports, compared with the Services that say they have them (CIDR-15 to CIDR-19, NP-11).
//!
//! A Service and what it was given are one transaction, so nothing is wrong here until somebody edits an IPAddress,
//! changes the ranges, or brings back half of a backup. [`Books`] is one revision of the store; [`addresses`] and
//! [`ports`] say what is wrong in it and what mends it.

pub(crate) mod addresses;
mod books;
pub(crate) mod ports;
mod write;

#[cfg(test)]
pub(crate) use books::PortRecord;
pub(crate) use books::{AddressRecord, Books, ServiceRecord};
pub(crate) use write::transactions;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use store::Revision;

use super::pools::Repairs;

/// Where Services are.
pub(crate) const SERVICES_PREFIX: &str = "/services/";

/// What is wrong; the names are the values of the label `type` of the repair metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A Service has what is not recorded as its own.
    NotRecorded,
    /// Two Services have the same.
    Duplicate,
    /// It lies in no range.
    OutOfRange,
    /// It is recorded, and no Service has it.
    Leaked,
    /// It is no address at all.
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
pub(crate) struct Regarding {
    pub(crate) kind: &'static str,
    pub(crate) api_version: &'static str,
    /// "" for kinds without namespaces.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) fault: Fault,
    /// Upstream's word for the Event.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Who is told; `None` where nobody is left.
    pub(crate) regarding: Option<Regarding>,
}

/// Who has an address or a port: a Service, as it was at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) at: Revision,
}

/// What mends it, under the condition that nothing has changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mend {
    /// The IPAddress is made for its Service; one that is there, of that revision, goes first.
    RecordAddress {
        address: IpAddr,
        holder: Claim,
        instead_of: Option<Revision>,
    },
    /// The IPAddress goes, and with it the address is free.
    FreeAddress { address: IpAddr, at: Revision },
    /// The port is recorded for its Service, whatever was recorded before.
    RecordPort {
        port: u16,
        holder: Claim,
        instead_of: Option<Revision>,
    },
    /// The port's record goes, and with it the port is free.
    FreePort { port: u16, at: Revision },
}

/// What an audit comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) findings: Vec<Finding>,
    pub(crate) mends: Vec<Mend>,
}

/// How often each fault was found, since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    by_fault: [AtomicU64; Fault::ALL.len()],
    /// Passes that failed.
    pub(crate) failed_passes: AtomicU64,
}

impl Counts {
    pub(crate) fn add(&self, fault: Fault) {
        let counts = Fault::ALL.iter().zip(&self.by_fault);
        for (_, count) in counts.filter(|(counted, _)| **counted == fault) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As they are now, for metrics.
    pub(crate) fn read(&self) -> Repairs {
        let counts = Fault::ALL.iter().zip(&self.by_fault);
        Repairs {
            faults: counts
                .map(|(fault, count)| (fault.name(), count.load(Ordering::Relaxed)))
                .collect(),
            failures: self.failed_passes.load(Ordering::Relaxed),
        }
    }
}
