//! Member list of this node, and its pending write.
//!
//! The list is in a Lease of the API, which each node reads on its own. An outdated list never replaces a newer one of
//! the same cluster. A member keeps its last list while the Lease is missing, because the other members may still use
//! that list. The times of changes are kept here: the rules of the election wait for them, since nodes learn of a
//! change at different times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::announcers::Record;

use crate::{NodeName, Time};

/// Time for which the tie-breaker vote is used after the write that confirmed it was sent.
pub(super) const TIE_BREAKER_LEASE: Duration = Duration::from_secs(3);
/// Time for which nodes with an older member list still receive votes: the delay that changes of the API may have.
pub(super) const EPOCH_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Separates the UID of the Lease from its resourceVersion in a version.
pub(crate) const VERSION_SEPARATOR: char = '/';

/// Write of the member list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MembershipWrite {
    /// The version that the write is based on; `None` creates the object.
    pub(crate) version: Option<String>,
    /// The new member list.
    pub(crate) record: Record,
}

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteResult {
    /// The server accepted the write, which was sent at this time.
    Accepted(Time),
    /// The server rejected the write, or the result is unknown. The list is read again before the next write.
    Failed,
}

/// Member list, its age, and the pending write.
#[derive(Debug, Default)]
pub(super) struct Membership {
    /// The list and its version; `Some(None)` if there is none, `None` before the first read. A member keeps its last
    /// list while the Lease is missing.
    pub(super) known: Option<Option<(String, Record)>>,
    /// Time since which the Lease is missing; `None` if it exists.
    pub(super) absent_since: Option<Time>,
    /// Time of the last change of the epoch.
    pub(super) epoch_since: Time,
    /// Lowest epoch of candidates that this node grants votes to.
    pub(super) min_epoch: u64,
    /// Time since which the list is in the present Lease; zero if it was in that Lease at the start of this process.
    pub(super) object_since: Time,
    /// Time of the last observed change of the tie-breaker vote.
    pub(super) tie_breaker_since: Time,
    /// End of the use of the tie-breaker vote by this node.
    pub(super) tie_breaker_until: Time,
    /// The write in flight.
    pub(super) pending: Option<Record>,
    /// Earliest time of the next write.
    pub(super) not_before: Time,
    /// Earliest time of the next write of this node's entry. It limits the writes of two hosts with the same name,
    /// which overwrite each other's entry.
    pub(super) entry_not_before: Time,
    /// Time since which all members refuse candidates with an older list.
    pub(super) settled_since: Option<Time>,
    /// The Node objects, if they are known.
    pub(super) nodes: Option<BTreeSet<NodeName>>,
    /// Members without a Node object, and the time since which it is missing.
    pub(super) missing_since: BTreeMap<NodeName, Time>,
}

impl Membership {
    /// Returns the known member list, if it exists.
    pub(super) fn record(&self) -> Option<&Record> {
        let known = self.known.as_ref()?.as_ref();
        known.map(|(_, record)| record)
    }

    /// Returns true if a list is in another Lease than the known one, which was deleted.
    fn is_of_new_object(&self, list: Option<&(String, Record)>) -> bool {
        let object = |list: Option<&(String, Record)>| {
            let uid = list.and_then(|(version, _)| version.split_once(VERSION_SEPARATOR));
            uid.map(|(uid, _)| uid.to_owned())
        };
        let known = self.known.as_ref();
        known.is_some_and(|known| object(known.as_ref()) != object(list))
    }

    /// Returns the epoch of the known list, and the lowest epoch of candidates that receive votes.
    pub(super) fn epochs(&self) -> (u64, u64) {
        (self.record().map_or(0, |record| record.epoch), self.min_epoch)
    }

    /// Returns true if this process holds the tie-breaker vote.
    pub(super) fn has_tie_breaker(&self, now: Time) -> bool {
        self.tie_breaker_until > now
    }

    /// Returns true if a list is older than the known one of the same cluster.
    fn is_outdated(&self, record: &Record) -> bool {
        let age = |record: &Record| (record.epoch, record.sequence);
        self.record()
            .is_some_and(|known| known.cluster == record.cluster && age(record) < age(known))
    }

    /// Adopts a list; `own` is this node, and `holder` this process as a holder of the tie-breaker vote. Returns false if
    /// the known list remains: the list is outdated, or the Lease of a member is missing.
    pub(super) fn adopt(
        &mut self,
        now: Time,
        list: Option<(String, Record)>,
        own: &NodeName,
        holder: &str,
    ) -> bool {
        let after = list.as_ref().map(|(_, record)| record);
        self.absent_since = match after {
            Some(_) => None,
            None => self.absent_since.or(Some(now)),
        };
        let remains = match after {
            Some(after) => self.is_outdated(after),
            // Other members may use the list: this node must not take part in another one.
            None => self.record().is_some_and(|known| known.member(own).is_some()),
        };
        if remains {
            return false;
        }
        let before = self.record();
        let is_new_object = self.is_of_new_object(list.as_ref());
        let is_new_cluster = before.map(|record| &record.cluster) != after.map(|record| &record.cluster);
        let is_new_epoch = before.map(|record| record.epoch) != after.map(|record| record.epoch);
        let is_new_tie_breaker =
            before.map(|record| &record.tie_breaker) != after.map(|record| &record.tie_breaker);
        let tie_breaker = after.and_then(|record| record.tie_breaker.as_ref());
        let is_holder = tie_breaker.is_some_and(|vote| vote.holder == holder);
        if is_new_cluster {
            // An earlier process of this node may have refused older lists already.
            self.min_epoch = after.map_or(0, |record| record.epoch);
        }
        if is_new_epoch || is_new_cluster {
            self.epoch_since = now;
            self.settled_since = None;
        }
        if is_new_tie_breaker {
            self.tie_breaker_since = now;
        }
        if is_new_object {
            self.object_since = now;
        }
        if !is_holder || is_new_cluster {
            self.tie_breaker_until = Time::ZERO;
        }
        self.known = Some(list);
        true
    }

    /// Updates the members without a Node object.
    pub(super) fn update_missing(&mut self, now: Time) {
        let (Some(record), Some(nodes)) = (self.record(), &self.nodes) else {
            self.missing_since.clear();
            return;
        };
        let missing = record
            .members_and_joining()
            .map(|(name, _)| name)
            .filter(|name| !nodes.contains(*name));
        let missing_since = missing.map(|name| {
            let since = self.missing_since.get(name).copied();
            (NodeName::clone(name), since.unwrap_or(now))
        });
        self.missing_since = missing_since.collect();
    }
}
