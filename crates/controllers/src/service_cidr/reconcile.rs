//! The next step of a ServiceCIDR: a pure function of all ServiceCIDRs and the addresses in use.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api::object::ServiceCidr;
use ipnet::IpNet;

use super::FINALIZER;

/// Delay between the deletion of an unused ServiceCIDR and the removal of its finalizer. In this time every allocator
/// observes the deletion (CIDR-11). This process measures the delay by its monotonic clock, from its observation of
/// the deletion. A change of the time of day does not affect the delay.
const DELETION_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Inputs of [`reconcile()`].
pub(crate) struct Inputs<'a> {
    /// ServiceCIDR from the cache.
    pub cidr: &'a ServiceCidr,
    /// All ServiceCIDRs, with or without this one.
    pub all: &'a [&'a ServiceCidr],
    /// Addresses in use by Services.
    pub addresses: &'a BTreeSet<IpAddr>,
    /// Time since this process observed the deletion.
    pub deleted_for: Duration,
}

/// The next write. The ServiceCIDR is reconciled again after each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Add the finalizer.
    AddFinalizer,
    /// Remove the finalizer.
    RemoveFinalizer,
    /// Set the condition Ready to True.
    SetReady,
    /// Set the condition Ready to False: the deletion waits for addresses in use (CIDR-10).
    SetTerminating,
}

/// The result of a reconciliation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The next write; `None` if observed and desired state agree.
    pub step: Option<Step>,
    /// Delay of the next reconciliation without a change.
    pub requeue_after: Option<Duration>,
}

/// Computes the next step of a ServiceCIDR.
pub(crate) fn reconcile(inputs: &Inputs<'_>) -> Decision {
    let metadata = &inputs.cidr.metadata;
    let is_held = metadata.finalizers.iter().any(|name| name == FINALIZER);
    let step = |step| Decision {
        step: Some(step),
        requeue_after: None,
    };
    if metadata.deletion_timestamp.is_none() {
        return if !is_held {
            step(Step::AddFinalizer)
        } else if has_ready_status(inputs.cidr, "True") {
            Decision::default()
        } else {
            step(Step::SetReady)
        };
    }
    if !is_held {
        return Decision::default();
    }
    if would_orphan(inputs) {
        return if has_ready_status(inputs.cidr, "False") {
            Decision::default()
        } else {
            step(Step::SetTerminating)
        };
    }
    let left = DELETION_GRACE_PERIOD.saturating_sub(inputs.deleted_for);
    if left.is_zero() {
        return step(Step::RemoveFinalizer);
    }
    Decision {
        step: None,
        requeue_after: Some(left),
    }
}

fn has_ready_status(cidr: &ServiceCidr, status: &str) -> bool {
    cidr.condition("Ready")
        .is_some_and(|ready| ready.status == status)
}

/// Returns true if an address in use would be in no range without this one. Ranges that are being deleted do
/// not count.
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
        // A range within another one holds no further addresses.
        if others.iter().any(|other| other.contains(&range)) {
            return false;
        }
        let mut within = inputs.addresses.range(range.network()..=range.broadcast());
        within.any(|address| !others.iter().any(|other| other.contains(address)))
    })
}

/// Returns the ranges of a ServiceCIDR; validation rejects invalid ones.
fn ranges(cidr: &ServiceCidr) -> impl Iterator<Item = IpNet> {
    cidr.spec.cidrs.iter().filter_map(|range| range.parse().ok())
}

#[cfg(test)]
mod tests;
