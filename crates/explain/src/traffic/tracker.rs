//! Differences between samples of connection tracking, with the events in between.
//!
//! One interval is: [`Tracker::begin_interval`], events as they arrive, [`Tracker::begin_sample`], [`Tracker::observe`]
//! for each entry, the events that are queued by then, and [`Tracker::end_sample`]. The kernel queues the event of the
//! end of an entry before it removes the entry. An entry that is missing from the sample and has no queued event
//! therefore ended without an event.
//!
//! The tracker counts connections that begin and end between two samples by their events. Without events, these
//! connections are missing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use api::object::Protocol;

use super::attribution::{AttributedEntry, Attribution};
use super::entry::{Direction, Entry, Phase, State};
use super::statistics::TrafficStatistics;

/// Maximum number of flows of Services that a tracker keeps: the default size of the kernel's table on nodes with 16
/// GiB or more (`nf_conntrack_max`). Further flows are not counted, and the report is marked as truncated.
pub const FLOWS_MAX: usize = 262_144;
/// Time without a reply after which a connection counts as unanswered: that of the first retransmission (RFC 6298, 2.1).
pub const UNANSWERED_AFTER: Duration = Duration::from_secs(1);
/// Maximum difference between the clocks of samples and of the kernel's timers.
const EXPIRY_TOLERANCE: Duration = Duration::from_secs(2);

/// Identity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    protocol: Protocol,
    original: Direction,
    zone: u16,
    id: u32,
}

impl Key {
    fn of(entry: &Entry) -> Self {
        Self {
            protocol: entry.protocol,
            original: entry.original,
            zone: entry.zone,
            id: entry.id,
        }
    }
}

/// Reason why an entry no longer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The connection had replies.
    Complete,
    /// A reset answered the SYN.
    Refused,
    /// There was no reply until the entry expired.
    Expired,
}

/// A flow of a Service.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) protocol: Protocol,
    pub(super) attributed: AttributedEntry,
    pub(super) client: SocketAddr,
    /// Source that the endpoint sees.
    pub(super) source: SocketAddr,
    pub(super) state: State,
    is_replied: bool,
    /// Bytes of both directions, if the kernel counts them.
    pub(super) bytes: Option<[u64; 2]>,
    /// Bytes at the start of the interval.
    bytes_before: [u64; 2],
    /// Time of the first sample or event with the flow.
    seen_at: Duration,
    /// Time of the first packet, if it is known.
    began_at: Option<Duration>,
    /// Time of expiry without further packets.
    expires_at: Duration,
    /// True if the flow began in the interval.
    is_new: bool,
    pub(super) end: Option<End>,
    /// Number of the last sample that contains the flow.
    sample: u64,
}

impl Flow {
    fn new(entry: &Entry, attributed: AttributedEntry, at: Duration) -> Self {
        let mut flow = Self {
            protocol: entry.protocol,
            attributed,
            client: entry.original.source,
            source: entry.reply.destination,
            state: entry.state,
            is_replied: entry.is_replied,
            bytes: None,
            bytes_before: [0; 2],
            seen_at: at,
            began_at: entry.age.map(|age| at.saturating_sub(age)),
            expires_at: at,
            is_new: false,
            end: None,
            sample: 0,
        };
        flow.update(entry, at);
        flow
    }

    fn update(&mut self, entry: &Entry, at: Duration) {
        self.state = entry.state;
        self.is_replied |= entry.is_replied;
        self.bytes = entry.bytes.or(self.bytes);
        self.expires_at = at + entry.expires_in;
    }

    /// Returns the age at a time, and true if the flow may be older.
    pub(super) fn age(&self, at: Duration) -> (Duration, bool) {
        match self.began_at {
            Some(began_at) => (at.saturating_sub(began_at), false),
            None => (at.saturating_sub(self.seen_at), true),
        }
    }

    /// Returns the time until the entry expires.
    pub(super) fn expires_in(&self, at: Duration) -> Duration {
        self.expires_at.saturating_sub(at)
    }

    /// Returns true if the client has waited for a reply since [`UNANSWERED_AFTER`].
    pub(super) fn is_unanswered(&self, at: Duration) -> bool {
        let is_waiting = self.end.is_none() && self.state.phase() == Phase::Waiting;
        is_waiting && self.age(at).0 >= UNANSWERED_AFTER
    }

    /// Returns the numbers of the flow in the interval that ends at a time.
    pub(super) fn statistics(&self, at: Duration) -> TrafficStatistics {
        let [to_endpoints, to_clients] = self.bytes.unwrap_or_default();
        let [to_endpoints_before, to_clients_before] = self.bytes_before;
        let is_open = self.end.is_none() && self.state.phase() == Phase::Open;
        TrafficStatistics {
            open: u64::from(is_open),
            opened: u64::from(self.is_new),
            unanswered: u64::from(self.is_unanswered(at)),
            expired: u64::from(self.end == Some(End::Expired)),
            refused: u64::from(self.end == Some(End::Refused)),
            bytes_to_endpoints: to_endpoints.saturating_sub(to_endpoints_before),
            bytes_to_clients: to_clients.saturating_sub(to_clients_before),
        }
    }

    /// Returns the reason of the end. A reset that answers a SYN ends the entry at once (`nf_conntrack_tcp_packet`), before
    /// the kernel marks it as replied.
    fn end(&self, reply_packets: Option<u64>, at: Duration) -> End {
        if self.is_replied || self.state.phase() != Phase::Waiting {
            return End::Complete;
        }
        let is_early = at + EXPIRY_TOLERANCE < self.expires_at;
        if self.protocol == Protocol::Tcp && reply_packets.map_or(is_early, |packets| packets > 0) {
            End::Refused
        } else {
            End::Expired
        }
    }
}

/// Flows of Services, with their changes in the current interval. Times are those of one monotonic clock.
#[derive(Debug, Default)]
pub struct Tracker {
    flows: HashMap<Key, Flow>,
    /// Flows that ended in the interval.
    ended: Vec<Flow>,
    /// Number of the current sample; 0 before the first one.
    sample: u64,
    at: Duration,
    began_at: Duration,
    entries: u64,
    is_truncated: bool,
}

impl Tracker {
    /// Starts an interval: the numbers of the previous one are dropped.
    pub fn begin_interval(&mut self) {
        self.ended.clear();
        self.began_at = self.at;
        for flow in self.flows.values_mut() {
            flow.is_new = false;
            flow.bytes_before = flow.bytes.unwrap_or_default();
        }
    }

    /// Starts a sample.
    pub fn begin_sample(&mut self, at: Duration) {
        self.sample += 1;
        self.at = at;
        self.entries = 0;
        self.is_truncated = false;
    }

    /// Adds an entry of the sample. An entry that is added repeatedly counts once.
    pub fn observe(&mut self, entry: &Entry, attribution: &Attribution) {
        self.entries += 1;
        let (sample, at) = (self.sample, self.at);
        match self.flows.get_mut(&Key::of(entry)) {
            Some(flow) => {
                flow.update(entry, at);
                flow.sample = sample;
            }
            // Entries of the first sample began earlier.
            None => self.add(entry, attribution, at, sample > 1),
        }
    }

    /// Records the event of a begin.
    pub fn started(&mut self, entry: &Entry, attribution: &Attribution, at: Duration) {
        if self.flows.contains_key(&Key::of(entry)) {
            return; // the sample already contains the entry
        }
        self.add(entry, attribution, at, true);
        if let Some(flow) = self.flows.get_mut(&Key::of(entry)) {
            flow.began_at = flow.began_at.or(Some(at));
        }
    }

    /// Records the event of an end.
    pub fn ended(&mut self, entry: &Entry, at: Duration) {
        let Some(mut flow) = self.flows.remove(&Key::of(entry)) else {
            return;
        };
        flow.is_replied |= entry.is_replied;
        flow.bytes = entry.bytes.or(flow.bytes);
        flow.end = Some(flow.end(entry.reply_packets, at));
        self.ended.push(flow);
    }

    /// Ends a sample. Flows that are not in it have ended.
    pub fn end_sample(&mut self) {
        let (sample, at) = (self.sample, self.at);
        let gone = self.flows.extract_if(|_, flow| flow.sample != sample);
        self.ended.extend(gone.map(|(_, mut flow)| {
            flow.end = Some(flow.end(None, at));
            flow
        }));
        if sample == 1 {
            self.begin_interval();
        }
    }

    /// Returns the time of the current sample.
    pub fn at(&self) -> Duration {
        self.at
    }

    /// Returns the length of the interval.
    pub fn interval(&self) -> Duration {
        self.at.saturating_sub(self.began_at)
    }

    /// Returns the number of entries in the last sample, with those of no Service.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns true if there are more than [`FLOWS_MAX`] flows.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns the flows, with those that ended in the interval.
    pub(super) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values().chain(&self.ended)
    }

    fn add(&mut self, entry: &Entry, attribution: &Attribution, at: Duration, is_new: bool) {
        let Some(attributed) = attribution.attribute(entry) else {
            return;
        };
        if self.flows.len() + self.ended.len() >= FLOWS_MAX {
            self.is_truncated = true;
            return;
        }
        let mut flow = Flow::new(entry, attributed, at);
        flow.is_new = is_new;
        flow.sample = self.sample;
        if !is_new {
            flow.bytes_before = flow.bytes.unwrap_or_default();
        }
        self.flows.insert(Key::of(entry), flow);
    }
}
