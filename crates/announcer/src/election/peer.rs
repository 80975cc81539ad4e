//! What a node knows of another one: when it was heard, what it grants, and how its votes stand.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::announcers::Member;

use crate::election::capabilities::Means;
use crate::handoff::next_hop::Entrance;
use crate::protocol::message::{ENTRIES_SENT_MAX, Echo, Entry, Message, Stamp};
use crate::{SUSPECT_AFTER, Time, VOTE_LASTS};

/// How old what a message proves to have been heard may be. An older message was held up on its way, or its sender hears nothing.
/// Votes are not used for as long.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Answers that wait for the next datagram. Who gets none asks again.
const ANSWERS_MAX: usize = 4_096;

/// How the vote of a peer for an address stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It was asked for, and may have been lent.
    Asking,
    /// It is lent to this node.
    Voted,
    /// It was given back, and the peer has not said yet that it knows. Until then it is not asked for again: an answer
    /// to an older request could still be on its way.
    Releasing {
        /// Whether this node answered for the address until then.
        gives_up: bool,
    },
}

/// The process of a peer that was heard last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) incarnation: u64,
    pub(crate) at: Time,
}

/// A lease of votes that a peer granted.
#[derive(Clone, Copy, Debug)]
struct Granted {
    /// The peer's process.
    by: u64,
    generation: u64,
    until: Time,
    /// Whether it was seen to be over.
    is_over: bool,
}

/// Another node.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Its present process, as the record says; `None` if that is of a version before keys.
    pub(crate) incarnation: Option<u64>,
    /// The stamp of that process that came last; what has a lower one is a copy or late.
    last: Option<Echo>,
    pub(crate) heard: Option<Heard>,
    pub(crate) is_quorate: bool,
    pub(crate) is_leaving: bool,
    pub(crate) refuses_below: u64,
    /// What its process has.
    pub(crate) means: Means,
    /// Where it takes packets for addresses that it gave up.
    pub(crate) entrances: Vec<Entrance>,
    /// Whether the message of it that came last is granted votes.
    pub(crate) is_granted: bool,
    /// When the next datagram goes to it.
    pub(crate) due: Time,
    granted: Option<Granted>,
    standings: BTreeMap<IpAddr, Standing>,
    answers: Vec<Entry>,
}

impl Peer {
    /// A node of which `last` came last, in an earlier time on the list.
    pub(crate) fn new(member: &Member, last: Option<Echo>, now: Time) -> Self {
        Self {
            address: member.address,
            incarnation: member.process.as_ref().map(|process| process.incarnation),
            last,
            heard: None,
            is_quorate: false,
            is_leaving: false,
            refuses_below: 0,
            means: Means::default(),
            entrances: Vec::new(),
            is_granted: false,
            due: now,
            granted: None,
            standings: BTreeMap::new(),
            answers: Vec::new(),
        }
    }

    /// The record says this of it.
    pub(crate) fn follow(&mut self, member: &Member) {
        self.address = member.address;
        self.incarnation = member.process.as_ref().map(|process| process.incarnation);
    }

    /// Takes in a message that came from `source` to the process `receiver`; whether it is news and not a copy or late.
    pub(crate) fn hear(&mut self, now: Time, source: SocketAddr, message: &Message, receiver: u64) -> bool {
        let is_own = (source.ip(), source.port()) == (self.address.ip(), self.address.port())
            && self.incarnation == Some(message.incarnation);
        let is_late = self
            .last
            .is_some_and(|last| last.incarnation == message.incarnation && message.stamp <= last.stamp);
        if !is_own || is_late {
            return false;
        }
        self.last = Some(Echo {
            incarnation: message.incarnation,
            stamp: message.stamp,
        });
        // A lease begins with the message that is told to have been heard. One that is not taken for life begins none.
        self.is_granted = false;
        if !is_fresh(now, message, receiver) {
            return false;
        }
        if self
            .heard
            .is_some_and(|heard| heard.incarnation != message.incarnation)
        {
            self.answers.clear();
        }
        self.heard = Some(Heard {
            incarnation: message.incarnation,
            at: now,
        });
        self.is_quorate = message.is_quorate;
        self.is_leaving = message.is_leaving;
        self.refuses_below = message.refuses_below;
        self.means.clone_from(&message.means);
        self.entrances.clone_from(&message.entrances);
        true
    }

    /// What its present process is told to have been heard of it last.
    pub(crate) fn echo(&self) -> Option<Echo> {
        self.last
            .filter(|last| self.incarnation == Some(last.incarnation))
    }

    /// What came last, of whichever process.
    pub(crate) fn last(&self) -> Option<Echo> {
        self.last
    }

    /// Whether the process that was heard last is that one.
    pub(crate) fn is_process(&self, incarnation: u64) -> bool {
        self.heard.is_some_and(|heard| heard.incarnation == incarnation)
    }

    /// Whether it was heard lately.
    pub(crate) fn is_heard(&self, now: Time) -> bool {
        self.is_heard_within(now, SUSPECT_AFTER)
    }

    /// Whether it was heard in the last so long.
    pub(crate) fn is_heard_within(&self, now: Time, lasts: Duration) -> bool {
        self.heard
            .is_some_and(|heard| now.saturating_sub(heard.at) < lasts)
    }

    /// How long ago it was heard, if it ever was.
    pub(crate) fn silent_for(&self, now: Time) -> Duration {
        let heard = self.heard.map(|heard| now.saturating_sub(heard.at));
        heard.unwrap_or(Duration::MAX)
    }

    /// When it is suspected if it stays silent.
    pub(crate) fn suspected_at(&self) -> Option<Time> {
        self.heard.map(|heard| heard.at + SUSPECT_AFTER)
    }

    /// Whether it can answer for addresses, as far as is known.
    pub(crate) fn is_available(&self, now: Time) -> bool {
        self.is_heard(now) && self.is_quorate && !self.is_leaving
    }

    /// Takes in the lease `generation` that the peer's process `by` grants to this process, from the time `sent` on.
    pub(crate) fn take_grant(&mut self, now: Time, by: u64, sent: Stamp, generation: u64) {
        let sent = Time::from_nanos(sent.0);
        let until = sent + VOTE_LASTS;
        if sent > now || until <= now {
            return;
        }
        let is_same =
            |granted: &Granted| granted.by == by && granted.generation == generation && !granted.is_over;
        if let Some(granted) = self.granted.as_mut().filter(|granted| is_same(granted)) {
            granted.until = granted.until.max(until);
            return;
        }
        self.forget_votes();
        self.granted = Some(Granted {
            by,
            generation,
            until,
            is_over: false,
        });
    }

    /// Whether votes that the peer has lent may be used.
    pub(crate) fn has_granted(&self, now: Time) -> bool {
        self.granted
            .is_some_and(|granted| granted.until > now && !granted.is_over)
    }

    /// Whether this node has the peer's vote and may use it.
    pub(crate) fn votes_for(&self, now: Time, address: IpAddr) -> bool {
        self.has_granted(now) && self.standings.get(&address) == Some(&Standing::Voted)
    }

    /// Looks whether what is granted is over; whether it is since now.
    pub(crate) fn lapse(&mut self, now: Time) -> bool {
        let Some(granted) = self
            .granted
            .as_mut()
            .filter(|granted| !granted.is_over && granted.until <= now)
        else {
            return false;
        };
        granted.is_over = true;
        self.forget_votes();
        true
    }

    /// When what is granted is over.
    pub(crate) fn lapses_at(&self) -> Option<Time> {
        self.granted
            .filter(|granted| !granted.is_over)
            .map(|granted| granted.until)
    }

    /// Votes are to be asked for again. What is being given back still is: an older request could have been answered
    /// under the new lease.
    fn forget_votes(&mut self) {
        for standing in self.standings.values_mut() {
            if *standing == Standing::Voted {
                *standing = Standing::Asking;
            }
        }
    }

    /// Asks for the peer's vote, from the next datagram on.
    pub(crate) fn ask(&mut self, now: Time, address: IpAddr) {
        if let std::collections::btree_map::Entry::Vacant(entry) = self.standings.entry(address) {
            entry.insert(Standing::Asking);
            self.due = now;
        }
    }

    /// Gives the peer's vote back; `gives_up` if this node answered for the address until now.
    pub(crate) fn release(&mut self, now: Time, address: IpAddr, gives_up: bool) {
        if let Some(standing) = self.standings.get_mut(&address) {
            let is_untold = *standing == Standing::Releasing { gives_up: true };
            *standing = Standing::Releasing {
                gives_up: gives_up || is_untold,
            };
            self.due = now;
        }
    }

    /// Whether the peer has not said yet of some vote that it knows that it was given back.
    pub(crate) fn is_releasing(&self) -> bool {
        let mut standings = self.standings.values();
        standings.any(|standing| matches!(standing, Standing::Releasing { .. }))
    }

    /// The peer says that this node has its vote; whether that is so.
    pub(crate) fn voted(&mut self, now: Time, address: IpAddr, generation: Option<u64>) -> bool {
        let is_of_lease = self
            .granted
            .is_some_and(|granted| generation == Some(granted.generation));
        let standing = self.standings.get_mut(&address);
        match standing.filter(|standing| **standing == Standing::Asking) {
            Some(standing) if is_of_lease => *standing = Standing::Voted,
            _ => return false,
        }
        self.has_granted(now)
    }

    /// The peer says that it knows that its vote was given back.
    pub(crate) fn released(&mut self, address: IpAddr) {
        if let Some(Standing::Releasing { .. }) = self.standings.get(&address) {
            self.standings.remove(&address);
        }
    }

    /// Answers with the next datagram, which goes at once.
    pub(crate) fn answer(&mut self, now: Time, entry: Entry) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push(entry);
            self.due = now;
        }
    }

    /// What the next datagrams say, in parts that fit into one each; there is one at least. Requests are in every
    /// one until they are answered. That an address was given up comes before the votes for it: who takes it by these is
    /// to know whom it had before.
    pub(crate) fn take_entries(&mut self) -> Vec<Vec<Entry>> {
        let (mut entries, mut behind) = (Vec::new(), Vec::new());
        for (address, standing) in &self.standings {
            match standing {
                Standing::Asking => behind.push(Entry::Ask(*address)),
                Standing::Releasing { gives_up: true } => entries.push(Entry::GaveUp(*address)),
                Standing::Releasing { gives_up: false } => behind.push(Entry::Release(*address)),
                Standing::Voted => {}
            }
        }
        entries.append(&mut self.answers);
        entries.append(&mut behind);
        if entries.is_empty() {
            return vec![entries];
        }
        entries.chunks(ENTRIES_SENT_MAX).map(<[Entry]>::to_vec).collect()
    }
}

/// Whether a message to the process `receiver` proves that its sender spoke a short time ago: it names a message of that process
/// that is not older.
fn is_fresh(now: Time, message: &Message, receiver: u64) -> bool {
    let heard = message.heard.filter(|heard| heard.incarnation == receiver);
    heard.is_some_and(|heard| {
        let sent = Time::from_nanos(heard.stamp.0);
        sent <= now && now - sent < FRESH_FOR
    })
}
