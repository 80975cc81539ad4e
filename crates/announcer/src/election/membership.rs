//! The list of members as this node knows it, and what it proposes to the API about it.
//!
//! Every change is made by one write on the version that was read. Who joins becomes a member when a majority of
//! the members says that it lends no votes to nodes that know an older list, and what was lent before is over: from then
//! on nobody can have a majority by the older list alone.
//!
//! The casting vote is in the record too. Who has it uses it until [`WITNESS_LASTS`] after it sent the write that
//! confirmed it. Another node takes it after it saw it unconfirmed for longer than that, and changes of the
//! list leave it where it is. So an API server that is slow or away costs the casting vote and never lends it twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::announcers::{Member, Record, Witness};

use super::{Core, EPOCH_PATIENCE};
use crate::election::peer::Peer;
use crate::{MEMBERS_MAX, NodeName, Time};

/// How long the casting vote is used after a write that confirmed it was sent.
pub const WITNESS_LASTS: Duration = Duration::from_secs(3);
/// How long it is left with a node that does not confirm it. Longer, by more than clocks may run apart.
const WITNESS_RESPECTED: Duration = Duration::from_secs(4);
/// How often it is confirmed.
const WITNESS_PERIOD: Duration = Duration::from_secs(1);
/// How long all has been settled before who joins becomes a member: what votes and the casting vote last.
const JOINING_LASTS: Duration = WITNESS_RESPECTED;
/// How long a Node object is missing before its node is taken out: agents create theirs anew at once.
const GONE_AFTER: Duration = Duration::from_secs(10);
/// How long a member is silent before the casting vote is taken: early enough that this node's own addresses, which
/// it has the silent one's votes for, need not wait for the answer.
const WITNESS_AFTER: Duration = Duration::from_millis(300);
/// The pause after a write that failed.
const WRITE_PAUSE: Duration = Duration::from_millis(300);
/// The pause between a write and the next one of the own entry.
const ENTRY_PAUSE: Duration = Duration::from_secs(1);
/// Most nodes whose last messages are remembered when they are taken out. Each stands for a Node that was deleted.
const FORMER_PEERS_MAX: usize = 4 * MEMBERS_MAX;

/// A write to the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The version that it is based on; `None` creates the object.
    pub version: Option<String>,
    /// What it says.
    pub record: Record,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The server took it, and sent it was at that moment.
    Accepted(Time),
    /// It was refused, or nobody knows. The record is read again before the next one.
    Failed,
}

/// What is known of the list of members.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// The record and its version, none if there is none, or nothing if that is not known.
    known: Option<Option<(String, Record)>>,
    /// When the list of members changed last.
    epoch_since: Time,
    refuses_below: u64,
    /// When the casting vote was seen to change last.
    witness_since: Time,
    /// Until when it may be used.
    witness_until: Time,
    /// What is being written.
    pending: Option<Record>,
    not_before: Time,
    /// When the own entry may be written again: if two machines have one name, they write by turns, and not without rest.
    entry_not_before: Time,
    settled_since: Option<Time>,
    /// The Node objects, if they are known.
    nodes: Option<BTreeSet<NodeName>>,
    missing_since: BTreeMap<NodeName, Time>,
}

impl Membership {
    pub(crate) fn record(&self) -> Option<&Record> {
        let known = self.known.as_ref()?.as_ref();
        known.map(|(_, record)| record)
    }

    pub(crate) fn refuses_below(&self) -> u64 {
        self.refuses_below
    }

    /// The list that is known, and the oldest one whose users are lent votes.
    pub(crate) fn epochs(&self) -> (u64, u64) {
        (self.record().map_or(0, |record| record.epoch), self.refuses_below)
    }

    pub(crate) fn has_witness(&self, now: Time) -> bool {
        self.witness_until > now
    }
}

impl Core {
    /// What the record is, by a read or a watch; `None` if it is not there. Older news than what is known is dropped.
    pub fn tell_record(&mut self, now: Time, news: Option<(String, Record)>) {
        let before = self.membership.record();
        if let (Some(before), Some((_, after))) = (before, &news)
            && after.cluster == before.cluster
            && after.sequence < before.sequence
        {
            return;
        }
        let after = news.as_ref().map(|(_, record)| record);
        let is_new_cluster = before.map(|record| &record.cluster) != after.map(|record| &record.cluster);
        let is_new_list = before.map(|record| record.epoch) != after.map(|record| record.epoch);
        let is_new_witness = before.map(|record| &record.witness) != after.map(|record| &record.witness);
        let epoch = after.map_or(0, |record| record.epoch);
        let witness = after.and_then(|record| record.witness.as_ref());
        let is_mine = witness.is_some_and(|witness| witness.holder == self.holder());
        let known = &mut self.membership;
        if is_new_cluster {
            // A process that has just started may have refused already before, so it does at once.
            known.refuses_below = epoch;
        }
        if is_new_list || is_new_cluster {
            known.epoch_since = now;
            known.settled_since = None;
        }
        if is_new_witness {
            known.witness_since = now;
        }
        if !is_mine || is_new_cluster {
            known.witness_until = Time::ZERO;
        }
        self.membership.known = Some(news);
        self.follow_record(now);
        self.claims.are_votes_stale = true;
        self.settle(now);
    }

    /// All Node objects that there are.
    pub fn tell_nodes(&mut self, now: Time, nodes: BTreeSet<NodeName>) {
        self.membership.nodes = Some(nodes);
        self.settle(now);
    }

    /// What is to be written now, if anything. [`Core::written`] must follow, and before it, whatever the server
    /// answered, [`Core::tell_record`].
    pub fn write(&mut self, now: Time) -> Option<Write> {
        if self.membership.pending.is_some() || now < self.membership.not_before {
            return None;
        }
        let write = self.proposal(now)?;
        let holder = self.holder();
        let keeps = write
            .record
            .witness
            .as_ref()
            .is_some_and(|witness| witness.holder == holder);
        if !keeps {
            // Once the server has this, another node may have the casting vote before the answer is here.
            self.membership.witness_until = Time::ZERO;
            self.claims.are_votes_stale = true;
        }
        self.membership.pending = Some(write.record.clone());
        Some(write)
    }

    /// What came of the write.
    pub fn written(&mut self, now: Time, outcome: Written) {
        let Some(record) = self.membership.pending.take() else {
            return;
        };
        match outcome {
            Written::Failed => self.membership.not_before = now + WRITE_PAUSE,
            Written::Accepted(sent) => {
                self.membership.entry_not_before = now + ENTRY_PAUSE;
                let is_mine = |witness: &Witness| witness.holder == self.holder();
                if record.witness.as_ref().is_some_and(is_mine) && self.confirms_witness(&record) {
                    self.membership.witness_until = sent + WITNESS_LASTS;
                    self.claims.are_votes_stale = true;
                }
            }
        }
        self.settle(now);
    }

    /// How long the members have been as they are, and what follows.
    pub(crate) fn settle_membership(&mut self, now: Time) {
        if now >= self.membership.epoch_since + EPOCH_PATIENCE {
            self.membership.refuses_below = self.membership.epochs().0;
        }
        let Some(record) = self.membership.record() else {
            return;
        };
        let epoch = record.epoch;
        let refuses_below = self.membership.refuses_below;
        let is_settled = !record.joining.is_empty()
            && record.is_settled(|name| {
                if *name == self.identity.name {
                    return refuses_below >= epoch;
                }
                let peer = self.peers.get(name);
                peer.is_some_and(|peer| peer.is_heard(now) && peer.refuses_below >= epoch)
            });
        let settled_since = is_settled.then(|| self.membership.settled_since.unwrap_or(now));
        let is_missing = |name: &NodeName| {
            self.membership
                .nodes
                .as_ref()
                .is_some_and(|nodes| !nodes.contains(name))
        };
        let missing = record
            .everybody()
            .map(|(name, _)| name)
            .filter(|name| is_missing(name));
        let missing_since = missing.map(|name| {
            let since = self.membership.missing_since.get(name).copied();
            (NodeName::clone(name), since.unwrap_or(now))
        });
        let missing_since = missing_since.collect();
        self.membership.settled_since = settled_since;
        self.membership.missing_since = missing_since;
    }

    /// Peers are who is on the list.
    fn follow_record(&mut self, now: Time) {
        let listed: BTreeMap<NodeName, Member> = match self.membership.record() {
            Some(record) => record
                .everybody()
                .filter(|(name, _)| **name != self.identity.name)
                .map(|(name, member)| (NodeName::clone(name), member.clone()))
                .collect(),
            None => BTreeMap::new(),
        };
        let former_peers = &mut self.former_peers;
        self.peers.retain(|name, peer| {
            let is_listed = listed.contains_key(name);
            if let Some(last) = peer.last().filter(|_| !is_listed) {
                former_peers.insert(NodeName::clone(name), last);
            }
            is_listed
        });
        while self.former_peers.len() > FORMER_PEERS_MAX {
            self.former_peers.pop_first();
        }
        for (name, member) in listed {
            let claimed = self.claims.claimed();
            let last = self.former_peers.remove(&name);
            let peer = self.peers.entry(name).or_insert_with(|| {
                let mut peer = Peer::new(&member, last, now);
                for claimed in claimed {
                    peer.ask(now, claimed);
                }
                peer
            });
            peer.follow(&member);
        }
    }

    /// How this process is called as the holder of the casting vote.
    fn holder(&self) -> String {
        format!("{}/{:016x}", self.identity.name, self.identity.incarnation)
    }

    /// Whether a write took or confirmed the casting vote, and did not leave it as it was.
    fn confirms_witness(&self, written: &Record) -> bool {
        let witness = written.witness.as_ref();
        witness.is_some_and(|witness| witness.renewal == written.sequence)
    }

    fn proposal(&self, now: Time) -> Option<Write> {
        let identity = &self.identity;
        let nodes = self.membership.nodes.as_ref()?;
        // Whoever joins is needed for majorities at once, so it joins when it can vote.
        let may_join = nodes.contains(&identity.name) && !self.is_leaving && now >= self.quiet_until;
        let Some((version, record)) = self.membership.known.as_ref()? else {
            let founded = || {
                Record::founded_by(
                    identity.name.clone(),
                    identity.member(),
                    identity.new_cluster.clone(),
                )
            };
            return may_join.then(|| Write {
                version: None,
                record: founded(),
            });
        };
        // Who is on the list is needed for majorities already: others are to know its process at once.
        let next = match record.member(&identity.name) {
            Some(member) if *member == identity.member() => None,
            Some(_) if self.is_leaving || now < self.membership.entry_not_before => None,
            None if !may_join => None,
            _ => record.with(&identity.name, identity.member()),
        };
        let next = next
            .or_else(|| self.witness_proposal(now, record))
            .or_else(|| self.list_proposal(now, record));
        next.map(|record| Write {
            version: Some(version.clone()),
            record,
        })
    }

    /// Takes, confirms or gives back the casting vote.
    fn witness_proposal(&self, now: Time, record: &Record) -> Option<Record> {
        let holder = self.holder();
        let is_mine = record
            .witness
            .as_ref()
            .is_some_and(|witness| witness.holder == holder);
        let since = now.saturating_sub(self.membership.witness_since);
        if self.needs_witness(now, record) {
            let is_free = record.witness.is_none() || since >= WITNESS_RESPECTED;
            let is_due = is_mine && (since >= WITNESS_PERIOD || !self.membership.has_witness(now));
            return (is_free || is_due).then(|| record.with_witness(Some(&holder)));
        }
        is_mine.then(|| record.with_witness(None))
    }

    /// Whether the casting vote is what this node lacks, or what it would lack without it.
    fn needs_witness(&self, now: Time, record: &Record) -> bool {
        // Who has just started has heard nobody yet.
        let is_early = now < self.quiet_until;
        if is_early
            || self.is_leaving
            || self.demand.is_empty()
            || record.member(&self.identity.name).is_none()
        {
            return false;
        }
        let is_me = |name: &NodeName| *name == self.identity.name;
        let is_heard = |name: &NodeName| {
            is_me(name)
                || self
                    .peers
                    .get(name)
                    .is_some_and(|peer| peer.is_heard_within(now, WITNESS_AFTER))
        };
        if record.is_tie(is_heard) {
            return true;
        }
        self.membership.has_witness(now)
            && self.claims.held().any(|address| {
                let has_vote = |name: &NodeName| {
                    is_me(name)
                        || self
                            .peers
                            .get(name)
                            .is_some_and(|peer| peer.votes_for(now, address))
                };
                !record.is_quorum(has_vote, false)
            })
    }

    /// Changes of the list that any node could make. One of them does.
    fn list_proposal(&self, now: Time, record: &Record) -> Option<Record> {
        let missing_since = &self.membership.missing_since;
        let is_gone = |name: &NodeName| {
            let since = missing_since.get(name);
            since.is_some_and(|since| now.saturating_sub(*since) >= GONE_AFTER)
        };
        let is_heard = |name: &&NodeName| {
            **name == self.identity.name || self.peers.get(*name).is_some_and(|peer| peer.is_heard(now))
        };
        let mut able = record
            .everybody()
            .map(|(name, _)| name)
            .filter(is_heard)
            .filter(|name| !is_gone(name));
        if able.next() != Some(&self.identity.name) {
            return None;
        }
        if record.everybody().any(|(name, _)| is_gone(name)) {
            return record.without(is_gone);
        }
        let settled_since = self.membership.settled_since?;
        (now.saturating_sub(settled_since) >= JOINING_LASTS).then(|| record.with_joined())
    }
}
