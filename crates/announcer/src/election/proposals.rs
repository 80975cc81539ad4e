//! Changes of the member list that this node proposes to the API.
//!
//! Each change is one conditional write on the version that was read. A joining node becomes a member in two steps.
//! First, a majority of the members reports that it grants no votes to candidates with an older list. Then all votes
//! that were granted before expire. From then on no candidate can reach a majority by the older list alone.
//!
//! The list also holds the tie-breaker vote. Successful writes of its holder confirm it. The holder uses it until
//! [`TIE_BREAKER_LEASE`] after it *sent* such a write. Another node takes it after it observed no confirmation for a
//! longer time; other changes of the list preserve it. If the API server is slow or unavailable, no node has the
//! tie-breaker vote; two nodes never have it.
//!
//! A missing Lease is created in one of two ways:
//!
//! - A member creates it again with its last list ([`Record::created_again`]), if half of the members report no later list
//!   ([`Record::is_last_of_half`]). Otherwise it keeps its list and writes nothing.
//! - A node that is in no list founds a new one. If the cluster has several Nodes, it first waits until members have had
//!   the time to create the Lease, and until no node uses the tie-breaker vote of the deleted Lease.
//!
//! Two cases are not covered, because a process that has just started knows no list. Members that cannot reach the API
//! server use a deleted list, and the process founds another one. Or somebody restores an older copy of the list, and the
//! process uses it beside the members.

use std::collections::BTreeSet;
use std::time::Duration;

use api::announcers::{Record, TieBreaker};

use super::membership::{EPOCH_GRACE_PERIOD, MembershipWrite, TIE_BREAKER_LEASE, WriteResult};
use super::peer::Peer;
use super::state::Election;
use crate::{NodeName, Time};

/// Time without confirmation after which another node takes the tie-breaker vote. It exceeds
/// [`TIE_BREAKER_LEASE`] by more than two clocks can drift apart.
const TIE_BREAKER_RESERVED: Duration = Duration::from_secs(4);
/// Period of confirmations of the tie-breaker vote.
const TIE_BREAKER_PERIOD: Duration = Duration::from_secs(1);
/// Time without the Lease after which a node founds a new list, if the cluster has other Nodes.
const FOUNDING_DELAY: Duration = TIE_BREAKER_RESERVED;
/// Time for which all members have to refuse older lists before joining nodes become members. It is the lifetime of
/// votes and of the tie-breaker vote.
const JOIN_DELAY: Duration = TIE_BREAKER_RESERVED;
/// Time without a Node object after which a member is removed: agents create theirs again at once.
const REMOVAL_DELAY: Duration = Duration::from_secs(10);
/// Time without a probe of a member after which the tie-breaker is taken. It is shorter than [`crate::SUSPECT_AFTER`].
/// Addresses that this node owns with the vote of that member therefore do not wait for the API.
const TIE_BREAKER_AFTER: Duration = Duration::from_millis(300);
/// Delay after a failed write.
const WRITE_RETRY_DELAY: Duration = Duration::from_millis(300);
/// Minimum delay between two writes of this node's entry.
const ENTRY_WRITE_DELAY: Duration = Duration::from_secs(1);

impl Election {
    /// Adopts the member list of a read or a watch; `None` if the object does not exist. Outdated lists are ignored, and
    /// a member keeps its list if the object disappears.
    pub(crate) fn set_record(&mut self, now: Time, list: Option<(String, Record)>) {
        let holder = self.node.tie_breaker_holder();
        if !self.membership.adopt(now, list, self.node.name(), &holder) {
            return;
        }
        self.shorten_fencing();
        let claims = &self.claims;
        self.peers
            .update(now, self.membership.record(), self.node.name(), |peer| {
                for address in claims.claimed() {
                    peer.request_vote(now, address);
                }
            });
        self.claims.are_votes_stale = true;
        self.update(now);
    }

    /// Sets the existing Node objects.
    pub(crate) fn set_nodes(&mut self, now: Time, nodes: BTreeSet<NodeName>) {
        self.membership.nodes = Some(nodes);
        self.update(now);
    }

    /// Returns the write that is due. The driver reports its result by [`Election::written`], after it passed
    /// the list that the server returned to [`Election::set_record`].
    pub(crate) fn write(&mut self, now: Time) -> Option<MembershipWrite> {
        if self.membership.pending.is_some() || now < self.membership.not_before {
            return None;
        }
        let write = self.proposal(now)?;
        let holder = self.node.tie_breaker_holder();
        let tie_breaker = write.record.tie_breaker.as_ref();
        if tie_breaker.is_none_or(|vote| vote.holder != holder) {
            // Once the server accepts this write, another node may take the vote before the response arrives.
            self.membership.tie_breaker_until = Time::ZERO;
            self.claims.are_votes_stale = true;
        }
        self.membership.pending = Some(write.record.clone());
        Some(write)
    }

    /// Takes in the result of a write.
    pub(crate) fn written(&mut self, now: Time, result: WriteResult) {
        let Some(record) = self.membership.pending.take() else {
            return;
        };
        match result {
            WriteResult::Failed => self.membership.not_before = now + WRITE_RETRY_DELAY,
            WriteResult::Accepted(sent) => {
                self.membership.entry_not_before = now + ENTRY_WRITE_DELAY;
                let holder = self.node.tie_breaker_holder();
                // A write that preserves an earlier confirmation does not extend it.
                let confirms = |vote: &TieBreaker| vote.holder == holder && vote.renewal == record.sequence;
                if record.tie_breaker.as_ref().is_some_and(confirms) {
                    self.membership.tie_breaker_until = sent + TIE_BREAKER_LEASE;
                    self.claims.are_votes_stale = true;
                }
            }
        }
        self.update(now);
    }

    /// Updates the ages of the conditions that changes of the list depend on.
    pub(super) fn update_membership(&mut self, now: Time) {
        if now >= self.membership.epoch_since + EPOCH_GRACE_PERIOD {
            self.membership.min_epoch = self.membership.epochs().0;
        }
        let Some(record) = self.membership.record() else {
            return;
        };
        let epoch = record.epoch;
        let min_epoch = self.membership.min_epoch;
        let is_settled = !record.joining.is_empty()
            && record.is_settled(|name| {
                if name == self.node.name() {
                    return min_epoch >= epoch;
                }
                self.peers
                    .is(name, |peer| peer.is_reachable(now) && peer.min_epoch >= epoch)
            });
        self.membership.settled_since = is_settled.then(|| self.membership.settled_since.unwrap_or(now));
        self.membership.update_missing(now);
    }

    fn proposal(&self, now: Time) -> Option<MembershipWrite> {
        let own = self.node.name();
        let nodes = self.membership.nodes.as_ref()?;
        // A joining node counts for majorities at once, so it joins when it can vote.
        let may_join = nodes.contains(own) && !self.node.is_leaving && now >= self.node.grants_votes_from;
        let Some((version, record)) = self.membership.known.as_ref()? else {
            // The successors of the founder rely on the end of its votes: see `Election::shorten_fencing`.
            let may_found = may_join && self.votes_until() <= now && self.has_awaited_members(now, nodes);
            return may_found.then(|| MembershipWrite {
                version: None,
                record: self.founded(),
            });
        };
        if self.membership.absent_since.is_some() {
            return self.recreation(now, record).filter(|_| nodes.contains(own));
        }
        // A listed node counts for majorities already: other nodes need its new process at once.
        let next = match record.member(own) {
            Some(member) if *member == self.node.member() => None,
            Some(_) if self.node.is_leaving || now < self.membership.entry_not_before => None,
            None if !may_join => None,
            _ => record.with(own, self.node.member()),
        };
        let next = next
            .or_else(|| self.tie_breaker_proposal(now, record))
            .or_else(|| self.list_proposal(now, record));
        next.map(|record| MembershipWrite {
            version: Some(version.clone()),
            record,
        })
    }

    /// Returns a new list with this node as its only member.
    fn founded(&self) -> Record {
        let new_cluster = self.node.identity.new_cluster.clone();
        Record::founded_by(NodeName::clone(self.node.name()), self.node.member(), new_cluster)
    }

    /// Returns true if members of a deleted list have had the time to create it again.
    fn has_awaited_members(&self, now: Time, nodes: &BTreeSet<NodeName>) -> bool {
        let is_only_node = nodes.iter().all(|name| name == self.node.name());
        let absent_since = self.membership.absent_since;
        is_only_node || absent_since.is_some_and(|since| now.saturating_sub(since) >= FOUNDING_DELAY)
    }

    /// Creates the missing Lease again with the known list, if half of the members report no later one.
    fn recreation(&self, now: Time, record: &Record) -> Option<MembershipWrite> {
        // A process that has just started has no list: its epoch is zero.
        let knows_no_later = |name: &NodeName| {
            let is_reported =
                |peer: &Peer| peer.is_reachable(now) && (1..=record.epoch).contains(&peer.epoch);
            name == self.node.name() || self.peers.is(name, is_reported)
        };
        let may_recreate = !self.node.is_leaving && record.is_last_of_half(knows_no_later);
        let known_epoch = self.peers.values().map(|peer| peer.epoch).max();
        // A vote of this process that has not ended is nobody else's.
        let holder = self
            .membership
            .has_tie_breaker(now)
            .then(|| self.node.tie_breaker_holder());
        may_recreate.then(|| MembershipWrite {
            version: None,
            record: record.created_again(
                known_epoch.unwrap_or_default(),
                holder.as_deref(),
                self.node.identity.incarnation,
            ),
        })
    }

    /// Takes, confirms or returns the tie-breaker vote.
    fn tie_breaker_proposal(&self, now: Time, record: &Record) -> Option<Record> {
        let holder = self.node.tie_breaker_holder();
        let is_mine = record
            .tie_breaker
            .as_ref()
            .is_some_and(|tie_breaker| tie_breaker.holder == holder);
        let since = now.saturating_sub(self.membership.tie_breaker_since);
        let has_tie_breaker = self.membership.has_tie_breaker(now);
        if self.needs_tie_breaker(now, record) {
            let is_free = record.tie_breaker.is_none() || since >= TIE_BREAKER_RESERVED;
            let is_due = is_mine && (since >= TIE_BREAKER_PERIOD || !has_tie_breaker);
            // The vote of a Lease that was replaced may be in use, whatever the new one states.
            let object_age = now.saturating_sub(self.membership.object_since);
            let is_replaced = object_age < TIE_BREAKER_RESERVED && !has_tie_breaker;
            let may_take = (is_free || is_due) && !is_replaced;
            return may_take.then(|| record.with_tie_breaker(Some(&holder)));
        }
        is_mine.then(|| record.with_tie_breaker(None))
    }

    /// Returns true if this node has no majority without the tie-breaker vote.
    fn needs_tie_breaker(&self, now: Time, record: &Record) -> bool {
        // A process that has just started has received no probes yet.
        let is_early = now < self.node.grants_votes_from;
        if is_early
            || self.node.is_leaving
            || self.candidates.is_empty()
            || record.member(self.node.name()).is_none()
        {
            return false;
        }
        let is_own = |name: &NodeName| name == self.node.name();
        let is_reachable = |name: &NodeName| {
            is_own(name)
                || self
                    .peers
                    .is(name, |peer| peer.is_reachable_within(now, TIE_BREAKER_AFTER))
        };
        if record.is_tie(is_reachable) {
            return true;
        }
        self.membership.has_tie_breaker(now)
            && self.claims.owned().any(|address| {
                let has_vote = |name: &NodeName| {
                    is_own(name) || self.peers.is(name, |peer| peer.votes_for(now, address))
                };
                !record.is_quorum(has_vote, false)
            })
    }

    /// Changes that any node can make; the first reachable member by name makes them.
    fn list_proposal(&self, now: Time, record: &Record) -> Option<Record> {
        let missing_since = &self.membership.missing_since;
        let is_gone = |name: &NodeName| {
            let since = missing_since.get(name);
            since.is_some_and(|since| now.saturating_sub(*since) >= REMOVAL_DELAY)
        };
        let is_reachable = |name: &&NodeName| {
            *name == self.node.name() || self.peers.is(name, |peer| peer.is_reachable(now))
        };
        let mut able = record
            .members_and_joining()
            .map(|(name, _)| name)
            .filter(is_reachable)
            .filter(|name| !is_gone(name));
        if able.next() != Some(self.node.name()) {
            return None;
        }
        if record.members_and_joining().any(|(name, _)| is_gone(name)) {
            return record.without(is_gone);
        }
        let settled_since = self.membership.settled_since?;
        (now.saturating_sub(settled_since) >= JOIN_DELAY).then(|| record.with_joined())
    }
}
