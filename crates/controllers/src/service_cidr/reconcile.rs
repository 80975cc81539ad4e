//! What is to be done about a ServiceCIDR: a pure function from all of them and the addresses in use.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api::object::ServiceCidr;
use ipnet::IpNet;

use super::FINALIZER;

/// How long a ServiceCIDR that may go is kept, so that every allocator has heard by then that it goes, and
/// nobody takes an address from it any more (CIDR-11). It is counted by the steady clock of this process, from when it
/// learned of the deletion: a clock that is wrong or jumps neither shortens it nor makes it last.
const DELETION_GRACE: Duration = Duration::from_secs(10);

/// Everything that decides about a ServiceCIDR.
pub struct Inputs<'a> {
    /// It.
    pub cidr: &'a ServiceCidr,
    /// All ServiceCIDRs; whether it is among them makes no difference.
    pub all: &'a [&'a ServiceCidr],
    /// The addresses that Services hold.
    pub addresses: &'a BTreeSet<IpAddr>,
    /// For how long its deletion has been known here.
    pub deleted_for: Duration,
}

/// The next write. After each the ServiceCIDR is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The finalizer is added.
    Hold,
    /// The finalizer is removed.
    Release,
    /// Condition Ready is true.
    SayReady,
    /// Condition Ready is false: it is being deleted, and waits for addresses in use (CIDR-10).
    SayWaiting,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The next write, if any is due.
    pub step: Option<Step>,
    /// When to look again though nothing has changed.
    pub again_after: Option<Duration>,
}

/// Decides about a ServiceCIDR.
pub fn reconcile(inputs: &Inputs<'_>) -> Outcome {
    let metadata = &inputs.cidr.metadata;
    let is_held = metadata.finalizers.iter().any(|name| name == FINALIZER);
    let step = |step| Outcome {
        step: Some(step),
        again_after: None,
    };
    if metadata.deletion_timestamp.is_none() {
        return match says(inputs.cidr, "True") {
            _ if !is_held => step(Step::Hold),
            true => Outcome::default(),
            false => step(Step::SayReady),
        };
    }
    if !is_held {
        return Outcome::default();
    }
    if would_orphan(inputs) {
        return match says(inputs.cidr, "False") {
            true => Outcome::default(),
            false => step(Step::SayWaiting),
        };
    }
    let left = DELETION_GRACE.saturating_sub(inputs.deleted_for);
    if left.is_zero() {
        return step(Step::Release);
    }
    Outcome {
        step: None,
        again_after: Some(left),
    }
}

fn says(cidr: &ServiceCidr, status: &str) -> bool {
    cidr.condition("Ready")
        .is_some_and(|ready| ready.status == status)
}

/// Whether an address in use would be in no range any more without this one. Ranges that are being deleted
/// themselves hold nothing.
pub(super) fn would_orphan(inputs: &Inputs<'_>) -> bool {
    let is_other = |other: &&&ServiceCidr| {
        other.metadata.uid != inputs.cidr.metadata.uid && other.metadata.deletion_timestamp.is_none()
    };
    let others: Vec<IpNet> = inputs
        .all
        .iter()
        .filter(is_other)
        .flat_map(|other| ranges(other))
        .collect();
    ranges(inputs.cidr).any(|range| {
        // A range within another one holds nothing that the other does not.
        if others.iter().any(|other| other.contains(&range)) {
            return false;
        }
        let mut within = inputs.addresses.range(range.network()..=range.broadcast());
        within.any(|address| !others.iter().any(|other| other.contains(address)))
    })
}

/// The ranges of a ServiceCIDR; the server lets none in that cannot be read.
fn ranges(cidr: &ServiceCidr) -> impl Iterator<Item = IpNet> {
    cidr.spec.cidrs.iter().filter_map(|range| range.parse().ok())
}

#[cfg(test)]
mod tests;
