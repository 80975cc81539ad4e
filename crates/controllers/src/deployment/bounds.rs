//! Bounds on the number of Pods during a rollout.

use api::apps::IntOrPercent;
use api::object::{Deployment, ReplicaSet};

/// The bounds of a rollout, in Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Desired Pods.
    pub desired: i64,
    /// Pods allowed beyond the desired ones (`maxSurge`).
    pub surge: i64,
    /// Desired Pods that may be unavailable (`maxUnavailable`).
    pub unavailable: i64,
}

impl Bounds {
    /// Returns the bounds of a Deployment. With `Recreate` both are zero: all old Pods stop first.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let desired = deployment.spec.replicas.max(0);
        let strategy = &deployment.spec.strategy;
        let rolling = strategy
            .rolling_update
            .as_ref()
            .filter(|_| is_rolling(deployment));
        let Some(rolling) = rolling else {
            return Self {
                desired,
                surge: 0,
                unavailable: 0,
            };
        };
        let read = |value| IntOrPercent::read(value).unwrap_or(IntOrPercent::Int(0));
        let surge = read(&rolling.max_surge).of_rounded_up(desired).max(0);
        let mut unavailable = read(&rolling.max_unavailable).of_rounded_down(desired).max(0);
        if surge == 0 && unavailable == 0 {
            // Both values round to zero; allow one unavailable Pod, so that the rollout can progress.
            unavailable = 1;
        }
        Self {
            desired,
            surge,
            unavailable: unavailable.min(desired),
        }
    }

    /// Returns the upper bound of all Pods.
    pub(crate) fn total_max(self) -> i64 {
        self.desired.saturating_add(self.surge)
    }

    /// Returns the lower bound of available Pods.
    pub(crate) fn available_min(self) -> i64 {
        self.desired - self.unavailable
    }
}

/// Returns true if the strategy is `RollingUpdate`.
pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    deployment.spec.strategy.kind == "RollingUpdate"
}

/// Returns the upper bound of a ReplicaSet's current Pods; `None` while its controller has not observed its
/// size.
pub(super) fn pods_max(set: &ReplicaSet) -> Option<i64> {
    is_observed(set).then(|| set.spec.replicas.max(set.status.replicas))
}

/// Returns the available Pods that a ReplicaSet is certain to keep. The number is zero while its controller has not
/// observed its size: the reported Pods can have ended, and others can start.
pub(super) fn available_min(set: &ReplicaSet) -> i64 {
    if is_observed(set) {
        set.status.available_replicas.min(set.spec.replicas)
    } else {
        0
    }
}

/// Returns true if the ReplicaSet controller has observed the current spec.
pub(super) fn is_observed(set: &ReplicaSet) -> bool {
    set.status.observed_generation >= set.metadata.generation
}

#[cfg(test)]
mod tests;
