//! Another member: liveness, the vote lease that it grants to this node, and its votes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::announcers::Member;

use crate::election::capabilities::NodeCapabilities;
use crate::handoff::next_hop::LinkAddress;
use crate::protocol::message::{ENTRIES_SENT_MAX, Echo, Message, Timestamp, VoteEntry};
use crate::{SUSPECT_AFTER, Time, VOTE_LEASE};

/// Maximum age of the echoed message. An older echo means a delayed message, or a sender that receives
/// nothing. It exceeds the lifetime of votes.
const ECHO_AGE_MAX: Duration = Duration::from_secs(1);
/// Maximum number of queued replies. Peers repeat requests without a reply.
const REPLIES_MAX: usize = 4_096;

/// State of a peer's vote for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VoteState {
    /// Requested; the peer may have granted it.
    Requested,
    /// Granted to this node.
    Granted,
    /// Released without confirmation. Until the confirmation it is not requested again: a reply to an older
    /// request may be in flight.
    Releasing {
        /// True if this node owned the address until then.
        was_owner: bool,
    },
}

/// Last accepted probe of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastProbe {
    pub(crate) incarnation: u64,
    pub(crate) at: Time,
}

/// Vote lease that a peer grants to this node.
#[derive(Clone, Copy, Debug)]
struct GrantedLease {
    /// Incarnation of the peer.
    voter: u64,
    generation: u64,
    until: Time,
    /// True if its expiry was processed.
    is_over: bool,
}

/// Another member.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Incarnation in the member list; `None` for versions without keys.
    pub(crate) incarnation: Option<u64>,
    /// Last accepted message; messages with lower timestamps are replays or late.
    last_message: Option<Echo>,
    pub(crate) last_probe: Option<LastProbe>,
    pub(crate) is_quorate: bool,
    pub(crate) is_leaving: bool,
    /// Epoch of its member list.
    pub(crate) epoch: u64,
    pub(crate) min_epoch: u64,
    /// Capabilities of the peer.
    pub(crate) capabilities: NodeCapabilities,
    /// Addresses at which the peer receives forwarded packets.
    pub(crate) link_addresses: Vec<LinkAddress>,
    /// True if this node grants votes to the sender of the last message.
    pub(crate) receives_votes: bool,
    /// Time of the next probe.
    pub(crate) next_probe: Time,
    lease: Option<GrantedLease>,
    votes: BTreeMap<IpAddr, VoteState>,
    replies: Vec<VoteEntry>,
}

impl Peer {
    /// Creates a peer; `last` is its last message from an earlier membership.
    pub(crate) fn new(member: &Member, last: Option<Echo>, now: Time) -> Self {
        Self {
            address: member.address,
            incarnation: member.process.as_ref().map(|process| process.incarnation),
            last_message: last,
            last_probe: None,
            is_quorate: false,
            is_leaving: false,
            epoch: 0,
            min_epoch: 0,
            capabilities: NodeCapabilities::default(),
            link_addresses: Vec::new(),
            receives_votes: false,
            next_probe: now,
            lease: None,
            votes: BTreeMap::new(),
            replies: Vec::new(),
        }
    }

    /// Adopts the entry of the member list.
    pub(crate) fn update(&mut self, member: &Member) {
        self.address = member.address;
        self.incarnation = member.process.as_ref().map(|process| process.incarnation);
    }

    /// Processes the header of a message from `source` to the process `receiver`. Returns false for replays,
    /// late messages and wrong senders.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        source: SocketAddr,
        message: &Message,
        receiver: u64,
    ) -> bool {
        let is_authentic = (source.ip(), source.port()) == (self.address.ip(), self.address.port())
            && self.incarnation == Some(message.incarnation);
        let is_late = self.last_message.is_some_and(|last| {
            last.incarnation == message.incarnation && message.timestamp <= last.timestamp
        });
        if !is_authentic || is_late {
            return false;
        }
        self.last_message = Some(Echo {
            incarnation: message.incarnation,
            timestamp: message.timestamp,
        });
        // A lease starts with the echoed message. A message that does not prove liveness starts none.
        self.receives_votes = false;
        if !is_fresh(now, message, receiver) {
            return false;
        }
        if self
            .last_probe
            .is_some_and(|probe| probe.incarnation != message.incarnation)
        {
            self.replies.clear();
        }
        self.last_probe = Some(LastProbe {
            incarnation: message.incarnation,
            at: now,
        });
        self.is_quorate = message.is_quorate;
        self.is_leaving = message.is_leaving;
        self.epoch = message.epoch;
        self.min_epoch = message.min_epoch;
        self.capabilities.clone_from(&message.capabilities);
        self.link_addresses.clone_from(&message.link_addresses);
        true
    }

    /// Returns the echo for the next message to this peer.
    pub(crate) fn echo(&self) -> Option<Echo> {
        self.last_message
            .filter(|last| self.incarnation == Some(last.incarnation))
    }

    /// Returns the last accepted message, of any process of the peer.
    pub(crate) fn last_message(&self) -> Option<Echo> {
        self.last_message
    }

    /// Returns true if the last probe came from this process.
    pub(crate) fn is_process(&self, incarnation: u64) -> bool {
        self.last_probe
            .is_some_and(|probe| probe.incarnation == incarnation)
    }

    /// Returns true if the peer is not suspected.
    pub(crate) fn is_reachable(&self, now: Time) -> bool {
        self.is_reachable_within(now, SUSPECT_AFTER)
    }

    /// Returns true if the last probe is younger than `age`.
    pub(crate) fn is_reachable_within(&self, now: Time, age: Duration) -> bool {
        self.last_probe
            .is_some_and(|probe| now.saturating_sub(probe.at) < age)
    }

    /// Returns the time since the last probe; the maximum if there was none.
    pub(crate) fn time_since_probe(&self, now: Time) -> Duration {
        let elapsed = self.last_probe.map(|probe| now.saturating_sub(probe.at));
        elapsed.unwrap_or(Duration::MAX)
    }

    /// Returns the time at which the peer is suspected if it sends no further message.
    pub(crate) fn suspected_at(&self) -> Option<Time> {
        self.last_probe.map(|probe| probe.at + SUSPECT_AFTER)
    }

    /// Returns true if the peer can own addresses.
    pub(crate) fn is_available(&self, now: Time) -> bool {
        self.is_reachable(now) && self.is_quorate && !self.is_leaving
    }

    /// Renews the lease `generation` that the process `voter` grants to this process from `sent` on.
    pub(crate) fn renew_lease(&mut self, now: Time, voter: u64, sent: Timestamp, generation: u64) {
        let sent = Time::from_nanos(sent.0);
        let until = sent + VOTE_LEASE;
        if sent > now || until <= now {
            return;
        }
        let is_same =
            |lease: &GrantedLease| lease.voter == voter && lease.generation == generation && !lease.is_over;
        if let Some(lease) = self.lease.as_mut().filter(|lease| is_same(lease)) {
            lease.until = lease.until.max(until);
            return;
        }
        self.reset_votes();
        self.lease = Some(GrantedLease {
            voter,
            generation,
            until,
            is_over: false,
        });
    }

    /// Returns true if this node holds a valid lease of the peer.
    pub(crate) fn has_lease(&self, now: Time) -> bool {
        self.lease
            .is_some_and(|lease| lease.until > now && !lease.is_over)
    }

    /// Returns true if this node holds the peer's vote for an address under a valid lease.
    pub(crate) fn votes_for(&self, now: Time, address: IpAddr) -> bool {
        self.has_lease(now) && self.votes.get(&address) == Some(&VoteState::Granted)
    }

    /// Processes the expiry of the lease. Returns true if it expired since the last call.
    pub(crate) fn expire_lease(&mut self, now: Time) -> bool {
        let Some(lease) = self
            .lease
            .as_mut()
            .filter(|lease| !lease.is_over && lease.until <= now)
        else {
            return false;
        };
        lease.is_over = true;
        self.reset_votes();
        true
    }

    /// Returns the end of the lease.
    pub(crate) fn lease_expires_at(&self) -> Option<Time> {
        self.lease.filter(|lease| !lease.is_over).map(|lease| lease.until)
    }

    /// Requests granted votes again. Unconfirmed releases continue: the peer could have answered an older
    /// request under the new lease.
    fn reset_votes(&mut self) {
        for state in self.votes.values_mut() {
            if *state == VoteState::Granted {
                *state = VoteState::Requested;
            }
        }
    }

    /// Requests the peer's vote in all messages until it is granted.
    pub(crate) fn request_vote(&mut self, now: Time, address: IpAddr) {
        if let std::collections::btree_map::Entry::Vacant(entry) = self.votes.entry(address) {
            entry.insert(VoteState::Requested);
            self.next_probe = now;
        }
    }

    /// Releases the peer's vote; `was_owner` if this node owned the address until now.
    pub(crate) fn release_vote(&mut self, now: Time, address: IpAddr, was_owner: bool) {
        if let Some(state) = self.votes.get_mut(&address) {
            let is_unconfirmed = *state == VoteState::Releasing { was_owner: true };
            *state = VoteState::Releasing {
                was_owner: was_owner || is_unconfirmed,
            };
            self.next_probe = now;
        }
    }

    /// Returns true if the peer has not confirmed all releases.
    pub(crate) fn is_releasing(&self) -> bool {
        let mut states = self.votes.values();
        states.any(|state| matches!(state, VoteState::Releasing { .. }))
    }

    /// Processes a granted vote. Returns true if this node may use it.
    pub(crate) fn vote_granted(&mut self, now: Time, address: IpAddr, generation: Option<u64>) -> bool {
        let is_of_lease = self
            .lease
            .is_some_and(|lease| generation == Some(lease.generation));
        let state = self.votes.get_mut(&address);
        match state.filter(|state| **state == VoteState::Requested) {
            Some(state) if is_of_lease => *state = VoteState::Granted,
            _ => return false,
        }
        self.has_lease(now)
    }

    /// Processes the confirmation of a release.
    pub(crate) fn release_confirmed(&mut self, address: IpAddr) {
        if let Some(VoteState::Releasing { .. }) = self.votes.get(&address) {
            self.votes.remove(&address);
        }
    }

    /// Queues a reply and sends it at once.
    pub(crate) fn reply(&mut self, now: Time, entry: VoteEntry) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push(entry);
            self.next_probe = now;
        }
    }

    /// Returns the entries of the next datagrams, at least one datagram. Requests repeat until they are
    /// granted. Released addresses precede granted votes: a node that acquires an address by these votes has
    /// to know the previous owner.
    pub(crate) fn take_entries(&mut self) -> Vec<Vec<VoteEntry>> {
        let (mut entries, mut later) = (Vec::new(), Vec::new());
        for (address, state) in &self.votes {
            match state {
                VoteState::Requested => later.push(VoteEntry::RequestVote(*address)),
                VoteState::Releasing { was_owner: true } => entries.push(VoteEntry::ReleaseAddress(*address)),
                VoteState::Releasing { was_owner: false } => later.push(VoteEntry::ReleaseVote(*address)),
                VoteState::Granted => {}
            }
        }
        entries.append(&mut self.replies);
        entries.append(&mut later);
        if entries.is_empty() {
            return vec![entries];
        }
        entries
            .chunks(ENTRIES_SENT_MAX)
            .map(<[VoteEntry]>::to_vec)
            .collect()
    }
}

/// Returns true if a message to the process `receiver` echoes a recent message of that process. The echo proves that
/// its sender ran a short time ago.
fn is_fresh(now: Time, message: &Message, receiver: u64) -> bool {
    let echo = message.echo.filter(|echo| echo.incarnation == receiver);
    echo.is_some_and(|echo| {
        let sent = Time::from_nanos(echo.timestamp.0);
        sent <= now && now - sent < ECHO_AGE_MAX
    })
}
