//! How many Pods there may be and must be available while old ones are replaced.

use api::apps::IntOrPercent;
use api::object::{Deployment, ReplicaSet};

/// The bounds of a roll-out, in Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pods that there should be.
    pub wanted: i64,
    /// Pods that there may be beyond those.
    pub surge: i64,
    /// Pods of those wanted that may not be available.
    pub unavailable: i64,
}

impl Bounds {
    /// The bounds of a Deployment. With `Recreate` there are none: all old Pods go first.
    pub fn of(deployment: &Deployment) -> Self {
        let wanted = deployment.spec.replicas.max(0);
        let strategy = &deployment.spec.strategy;
        let rolling = strategy
            .rolling_update
            .as_ref()
            .filter(|_| is_rolling(deployment));
        let Some(rolling) = rolling else {
            return Self {
                wanted,
                surge: 0,
                unavailable: 0,
            };
        };
        let read = |value| IntOrPercent::read(value).unwrap_or(IntOrPercent::Int(0));
        let surge = read(&rolling.max_surge).of_rounded_up(wanted).max(0);
        let mut unavailable = read(&rolling.max_unavailable).of_rounded_down(wanted).max(0);
        if surge == 0 && unavailable == 0 {
            // Both came to nothing by rounding; something has to move.
            unavailable = 1;
        }
        Self {
            wanted,
            surge,
            unavailable: unavailable.min(wanted),
        }
    }

    /// The most Pods that there may be.
    pub fn total_max(self) -> i64 {
        self.wanted.saturating_add(self.surge)
    }

    /// The fewest Pods that must be available.
    pub fn available_min(self) -> i64 {
        self.wanted - self.unavailable
    }
}

/// Whether old Pods are replaced little by little.
pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    deployment.spec.strategy.kind == "RollingUpdate"
}

/// The Pods that a ReplicaSet may have at this moment: `None` if nobody can say, since its controller has not seen yet
/// how many it is to have.
pub(super) fn pods_max(set: &ReplicaSet) -> Option<i64> {
    is_seen(set).then(|| set.spec.replicas.max(set.status.replicas))
}

/// The available Pods that a ReplicaSet is sure to keep: none that anybody could count on as long as its controller has
/// not seen how many it is to have. It may have lost those that it speaks of, and be about to make others.
pub(super) fn available_min(set: &ReplicaSet) -> i64 {
    match is_seen(set) {
        true => set.status.available_replicas.min(set.spec.replicas),
        false => 0,
    }
}

/// Whether the controller of a ReplicaSet has seen how many Pods it is to have.
pub(super) fn is_seen(set: &ReplicaSet) -> bool {
    set.status.observed_generation >= set.metadata.generation
}

#[cfg(test)]
mod tests;
