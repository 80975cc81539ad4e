//! The simulated network, and the routes that each side has received.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use ipnet::IpNet;

use crate::community::{AnyCommunity, Community};
use crate::message::{Context, HEADER_BYTES, MESSAGE_BYTES_MAX, Message, frame_length};
use crate::routes::{RouteAttributes, Routes};
use crate::session::{Action, ConnectionId, LocalAddresses, Peer, PeerSettings, PeerSystem, State};
use crate::{Family, Time};

/// Prefixes, each with its community.
pub(super) type Communities = BTreeMap<IpNet, Vec<Community>>;

/// Settings that differ between runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variation {
    pub(super) peer_as: PeerSystem,
    is_passive: bool,
    has_hold_time: bool,
    has_graceful_restart: bool,
}

impl Variation {
    pub(super) fn of(seed: u64) -> Self {
        let has = |bit: u32| seed >> bit & 1 == 1;
        Self {
            peer_as: if has(0) {
                PeerSystem::External
            } else {
                PeerSystem::Internal
            },
            is_passive: has(1),
            has_hold_time: !has(2),
            has_graceful_restart: has(3),
        }
    }

    fn settings(self, side: u8) -> PeerSettings {
        let is_internal = self.peer_as == PeerSystem::Internal;
        PeerSettings {
            local_as: if is_internal {
                64_512
            } else {
                4_200_000_000 + u32::from(side)
            },
            peer_as: self.peer_as,
            router_id: Ipv4Addr::new(10, 0, 0, side + 1),
            hold_seconds: if self.has_hold_time { 9 } else { 0 },
            keepalive: None,
            connect_retry: Duration::from_secs(30),
            is_passive: self.is_passive && side == 1,
            families: Family::ALL.to_vec(),
            restart_seconds: self.has_graceful_restart.then_some(120),
            is_after_boot: false,
        }
    }
}

/// Arrival at an end of a connection.
#[derive(Clone, Debug)]
enum Delivery {
    Bytes(Vec<u8>),
    Closed,
}

/// A connection: the number at each side, and the bytes in transit to each side.
#[derive(Debug, Default)]
struct Link {
    ends: [Option<ConnectionId>; 2],
    wires: [VecDeque<(Time, Delivery)>; 2],
    /// Received bytes of the observer without a complete message.
    unread: [Vec<u8>; 2],
    /// Nothing arrives any more.
    is_cut: bool,
}

/// An attempt to connect that is in transit.
#[derive(Debug)]
struct Dial {
    at: Time,
    side: usize,
    id: ConnectionId,
    is_refused: bool,
}

/// Two speakers and the network.
#[derive(Debug)]
pub(super) struct World {
    now: Time,
    random: Rng,
    variation: Variation,
    peers: [Peer; 2],
    desired: [Routes; 2],
    links: Vec<Link>,
    dials: Vec<Dial>,
    /// Routes that each side has received in its session.
    received: [Communities; 2],
    sessions: [u64; 2],
    has_faults: bool,
    garbage: usize,
}

impl World {
    pub(super) fn new(seed: u64, variation: Variation) -> Self {
        let peers =
            [0, 1].map(|side| Peer::new(variation.settings(side), seed * 2 + u64::from(side), Time::ZERO));
        let mut world = Self {
            now: Time::ZERO,
            random: Rng::with_seed(seed),
            variation,
            peers,
            desired: Default::default(),
            links: Vec::new(),
            dials: Vec::new(),
            received: Default::default(),
            sessions: [0; 2],
            has_faults: false,
            garbage: 0,
        };
        for side in 0..2 {
            world.peers[side].start(Time::ZERO);
            world.change_routes(side);
        }
        world
    }

    pub(super) fn states(&self) -> [State; 2] {
        self.peers.each_ref().map(Peer::state)
    }

    pub(super) fn garbage(&self) -> usize {
        self.garbage
    }

    pub(super) fn routes_at(&self, side: usize) -> &Communities {
        &self.received[side]
    }

    pub(super) fn routes_of(&self, side: usize) -> Communities {
        let routes = self.desired[side].iter();
        routes
            .map(|(prefix, route)| (*prefix, route.communities().collect()))
            .collect()
    }

    /// Runs until `end`.
    pub(super) fn run(&mut self, end: Time, has_faults: bool) {
        self.has_faults = has_faults;
        let mut next_fault = self.now;
        loop {
            let wakes = self.peers.iter().filter_map(Peer::next_wake);
            let deliveries = self.links.iter().flat_map(|link| link.wires.iter());
            let deliveries = deliveries.filter_map(|wire| wire.front().map(|(at, _)| *at));
            let dials = self.dials.iter().map(|dial| dial.at);
            let fault = has_faults.then_some(next_fault);
            let next = wakes
                .chain(deliveries)
                .chain(dials)
                .chain(fault)
                .min()
                .unwrap_or(end);
            // Timers run late at times.
            let late = if has_faults { self.random.u64(0..200) } else { 0 };
            self.now = self.now.max(next) + Duration::from_millis(late);
            if self.now >= end {
                self.now = end;
                return;
            }
            if has_faults && next_fault <= self.now {
                next_fault = self.now + Duration::from_millis(self.random.u64(100..8_000));
                self.inject_fault();
            }
            for side in 0..2 {
                self.peers[side].tick(self.now);
                self.perform_actions(side);
            }
            self.dial_due();
            self.deliver_due();
        }
    }

    fn change_routes(&mut self, side: usize) {
        let mut routes = self.desired[side].clone();
        for _ in 0..self.random.usize(1..40) {
            let number = self.random.u32(0..60);
            let prefix: IpNet = if self.random.bool() {
                format!("10.0.{side}.{number}/32").parse().expect("a prefix")
            } else {
                format!("fd00::{side}:{number}/128").parse().expect("a prefix")
            };
            if self.random.bool() {
                routes.remove(&prefix);
            } else {
                let mut route = RouteAttributes::default();
                assert!(route.add(AnyCommunity::Standard(Community(self.random.u32(0..3)))));
                routes.insert(prefix, Arc::new(route));
            }
        }
        self.desired[side] = routes.clone();
        self.peers[side].set_routes(routes);
        self.perform_actions(side);
    }

    fn inject_fault(&mut self) {
        let side = self.random.usize(0..2);
        let link = (!self.links.is_empty()).then(|| self.random.usize(0..self.links.len()));
        match (self.random.u8(0..6), link) {
            (0 | 1, _) => self.change_routes(side),
            (2, Some(link)) => {
                // A reset ends both sides.
                for side in 0..2 {
                    self.links[link].wires[side].push_back((self.now, Delivery::Closed));
                }
            }
            (3, Some(link)) if self.variation.has_hold_time => self.links[link].is_cut = true,
            (4, Some(link)) => {
                let garbage: Vec<u8> = (0..self.random.usize(1..80))
                    .map(|_| self.random.u8(..))
                    .collect();
                self.garbage += garbage.len();
                self.links[link].wires[side].push_back((self.now, Delivery::Bytes(garbage)));
            }
            (5, Some(link)) => {
                // An unexpected message in a valid frame.
                let kind = self.random.u8(1..6);
                let mut message = vec![0xff; 16];
                message.extend([0, 23, kind, 0, 0, 0, 0]);
                self.links[link].wires[side].push_back((self.now, Delivery::Bytes(message)));
            }
            _ => {}
        }
    }

    /// Performs the actions of a side.
    fn perform_actions(&mut self, side: usize) {
        let established = self.peers[side].counters().established;
        let is_established = self.peers[side].state() == State::Established;
        if established != self.sessions[side] || !is_established {
            self.sessions[side] = established;
            self.received[side].clear();
        }
        for action in self.peers[side].take_actions() {
            self.perform(side, action);
        }
        while let Some((id, bytes)) = self.peers[side].next_update(self.now) {
            self.perform(side, Action::Send(id, bytes));
        }
    }

    fn perform(&mut self, side: usize, action: Action) {
        match action {
            Action::Connect(id) => {
                let is_refused = self.has_faults && self.random.u8(0..4) == 0;
                let at = self.now + Duration::from_millis(self.random.u64(0..500));
                self.dials.push(Dial {
                    at,
                    side,
                    id,
                    is_refused,
                });
            }
            Action::Send(id, bytes) => {
                let Some(link) = self.link(side, id) else { return };
                assert!((HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes.len()));
                let middle = self.random.usize(0..bytes.len());
                let (first, second) = bytes.split_at(middle);
                self.send(link, 1 - side, Delivery::Bytes(first.to_vec()));
                self.send(link, 1 - side, Delivery::Bytes(second.to_vec()));
            }
            Action::Close(id) => {
                self.dials.retain(|dial| (dial.side, dial.id) != (side, id));
                if let Some(link) = self.link(side, id) {
                    self.links[link].ends[side] = None;
                    self.send(link, 1 - side, Delivery::Closed);
                }
            }
        }
    }

    fn link(&self, side: usize, id: ConnectionId) -> Option<usize> {
        self.links.iter().position(|link| link.ends[side] == Some(id))
    }

    fn send(&mut self, link: usize, to: usize, delivery: Delivery) {
        let delay = Duration::from_millis(self.random.u64(0..50));
        let wire = &mut self.links[link].wires[to];
        let earliest = wire.back().map_or(self.now, |(at, _)| *at);
        wire.push_back((earliest.max(self.now + delay), delivery));
    }

    fn dial_due(&mut self) {
        let now = self.now;
        let due: Vec<Dial> = self.dials.extract_if(.., |dial| dial.at <= now).collect();
        for dial in due {
            let (side, id) = (dial.side, dial.id);
            if dial.is_refused {
                self.peers[side].closed(now, id, "refused");
                self.perform_actions(side);
                continue;
            }
            let [ours, theirs] = [side, 1 - side].map(addresses);
            let accepted = self.peers[1 - side].accepted(now, theirs);
            let mut link = Link::default();
            link.ends[side] = Some(id);
            link.ends[1 - side] = accepted;
            if accepted.is_none() {
                link.wires[side].push_back((now, Delivery::Closed));
            }
            self.links.push(link);
            self.perform_actions(1 - side);
            self.peers[side].connected(now, id, ours);
            self.perform_actions(side);
        }
    }

    fn deliver_due(&mut self) {
        for link in 0..self.links.len() {
            for side in 0..2 {
                while self.links[link].wires[side]
                    .front()
                    .is_some_and(|(at, _)| *at <= self.now)
                {
                    if let Some((_, delivery)) = self.links[link].wires[side].pop_front() {
                        self.deliver(link, side, delivery);
                    }
                }
            }
        }
        let is_over = |link: &Link| link.ends == [None; 2] && link.wires.iter().all(VecDeque::is_empty);
        self.links.retain(|link| !is_over(link));
    }

    fn deliver(&mut self, link: usize, side: usize, delivery: Delivery) {
        let state = &mut self.links[link];
        let Some(id) = state.ends[side].filter(|_| !state.is_cut) else {
            return;
        };
        match delivery {
            Delivery::Closed => {
                state.ends[side] = None;
                self.peers[side].closed(self.now, id, "closed");
                self.perform_actions(side);
            }
            Delivery::Bytes(bytes) => {
                self.peers[side].received(self.now, id, &bytes);
                self.perform_actions(side);
                self.observe(link, side, &bytes);
            }
        }
    }

    /// Records the routes in messages that a side has received.
    fn observe(&mut self, link: usize, side: usize, bytes: &[u8]) {
        let context = Context {
            has_four_octet_as: true,
            is_internal: self.variation.peer_as == PeerSystem::Internal,
            local_as: 64_512,
        };
        let state = &mut self.links[link];
        let is_established = self.peers[side].state() == State::Established;
        state.unread[side].extend_from_slice(bytes);
        while let Ok(Some(length)) = frame_length(&state.unread[side]) {
            if state.unread[side].len() < length {
                break;
            }
            let message: Vec<u8> = state.unread[side].drain(..length).collect();
            if let (Ok(Message::Update(update)), true) = (Message::decode(&message, &context), is_established)
            {
                for prefix in update.withdrawn {
                    self.received[side].remove(&prefix);
                }
                for prefix in update.announced {
                    self.received[side].insert(prefix, update.attributes.communities.clone());
                }
            }
        }
    }
}

fn addresses(side: usize) -> LocalAddresses {
    let number = u8::try_from(side).expect("a side") + 1;
    LocalAddresses {
        ipv4: Some(Ipv4Addr::new(192, 0, 2, number)),
        ipv6: Some(std::net::Ipv6Addr::from(0xfd00 << 112 | u128::from(number))),
        link_local: None,
    }
}
