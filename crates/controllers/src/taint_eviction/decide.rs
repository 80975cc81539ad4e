//! The time that a Pod may stay on a tainted Node: a pure function.

use std::time::Duration;

use api::object::Taint;
use jiff::{SignedDuration, Timestamp};

use super::cached_pod::CachedPod;

/// A NoExecute taint of a Node, with the time at which it was first seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenTaint {
    pub(super) taint: Taint,
    pub(super) since: Timestamp,
}

/// Time that a Pod may stay on its Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingTime {
    /// The taints do not concern the Pod.
    Forever,
    /// The Pod is evicted after this time.
    For(Duration),
    /// The Pod is evicted now.
    Over,
}

/// Returns the NoExecute taints of a Node; those that were `seen` before keep their time.
pub(super) fn no_execute_taints(taints: &[Taint], seen: &[SeenTaint], now: Timestamp) -> Vec<SeenTaint> {
    let taints = taints.iter().filter(|taint| taint.effect == "NoExecute");
    let with_time = |taint: &Taint| {
        let is_same = |seen: &&SeenTaint| seen.taint.key == taint.key && seen.taint.value == taint.value;
        let added = taint.time_added.as_deref().and_then(|time| time.parse().ok());
        let since = seen
            .iter()
            .find(is_same)
            .map(|seen| seen.since)
            .or(added)
            .unwrap_or(now);
        SeenTaint {
            taint: taint.clone(),
            since,
        }
    };
    taints.map(with_time).collect()
}

/// Returns the time that a Pod may stay on a Node with these taints.
pub(super) fn time_remaining(pod: &CachedPod, taints: &[SeenTaint], now: Timestamp) -> RemainingTime {
    if !pod.is_evictable {
        return RemainingTime::Forever;
    }
    let mut shortest: Option<SignedDuration> = None;
    for SeenTaint { taint, since } in taints {
        let tolerations = pod.tolerations.iter();
        let mut tolerations = tolerations
            .filter(|toleration| toleration.tolerates(taint))
            .peekable();
        if tolerations.peek().is_none() {
            return RemainingTime::Over;
        }
        let Some(seconds) = tolerations
            .filter_map(|toleration| toleration.toleration_seconds)
            .min()
        else {
            continue;
        };
        let since = pod
            .created
            .map_or(*since, |created| created.timestamp().max(*since));
        let left = SignedDuration::from_secs(seconds.max(0)).saturating_sub(now.duration_since(since));
        shortest = Some(shortest.map_or(left, |shortest| shortest.min(left)));
    }
    match shortest {
        None => RemainingTime::Forever,
        Some(left) => match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => RemainingTime::For(left),
            _ => RemainingTime::Over,
        },
    }
}

#[cfg(test)]
mod tests;
