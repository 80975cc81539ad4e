//! An attacker on the path between nodes. It reads all datagrams; it stores, repeats, changes, withholds and forges
//! them. It can read the member list, and can have the keys of a member that it has taken over.

use super::*;
use crate::protocol::message::{Echo, Timestamp, VoteEntry};

/// Maximum number of stored datagrams; above it, a random one is replaced.
const KEPT_MAX: usize = 2_000;

/// A datagram in transit.
#[derive(Clone)]
pub(crate) struct Datagram {
    pub(crate) to: usize,
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Arc<Vec<u8>>,
}

/// State and knowledge of an attacker.
#[derive(Default)]
pub(crate) struct Attacker {
    pub(crate) recorded: Vec<Datagram>,
    /// Datagrams that have not arrived.
    held_up: Vec<Datagram>,
    /// Share of withheld datagrams.
    pub(crate) holding: f64,
    /// Member whose keys the attacker has.
    pub(crate) member: Option<usize>,
}

impl Cluster {
    /// Reads a datagram. Returns true if the attacker withholds it.
    pub(crate) fn is_held_up(&mut self, datagram: &Datagram) -> bool {
        let Some(attacker) = &mut self.attacker else {
            return false;
        };
        let kept = &mut attacker.recorded;
        if kept.len() < KEPT_MAX {
            kept.push(datagram.clone());
        } else {
            kept[self.random.usize(..KEPT_MAX)] = datagram.clone();
        }
        let is_held_up = self.random.f64() < attacker.holding;
        if is_held_up && attacker.held_up.len() < KEPT_MAX {
            attacker.held_up.push(datagram.clone());
        }
        is_held_up
    }

    /// Performs one random attack.
    pub(crate) fn attack(&mut self) {
        let Some(mut attacker) = self.attacker.take() else {
            return;
        };
        let delay = Duration::from_micros(self.random.u64(50..50_000));
        let kept = self.random.usize(..attacker.recorded.len().max(1));
        let some_node = self.random.usize(..self.size());
        let other_node = self.random.usize(..self.size());
        let datagram = attacker.recorded.get(kept).cloned();
        let changed = datagram.map(|datagram| match self.random.u32(0..5) {
            0 => datagram,
            1 => Datagram {
                to: some_node,
                ..datagram
            },
            2 => Datagram {
                from: self.hosts[some_node].address,
                ..datagram
            },
            3 => Datagram {
                from: ([203, 0, 113, 1], 1).into(),
                ..datagram
            },
            _ => {
                let mut bytes = datagram.bytes.to_vec();
                let place = self.random.usize(..bytes.len());
                bytes[place] ^= self.random.u8(1..);
                Datagram {
                    bytes: Arc::new(bytes),
                    ..datagram
                }
            }
        });
        let forged = (some_node != other_node).then(|| self.forge(&attacker, some_node, other_node));
        for datagram in changed.into_iter().chain(forged.flatten()) {
            self.deliver(delay, datagram);
        }
        if self.random.u32(0..10) == 0 {
            self.random.shuffle(&mut attacker.held_up);
            let released = self.random.usize(..=attacker.held_up.len());
            for datagram in attacker.held_up.split_off(attacker.held_up.len() - released) {
                let delay = Duration::from_micros(self.random.u64(50..500_000));
                self.deliver(delay, datagram);
            }
        }
        self.attacker = Some(attacker);
    }

    /// Forges a message in the name of a node, with keys of the member that was taken over, or with new ones.
    fn forge(&mut self, attacker: &Attacker, victim: usize, to: usize) -> Option<Datagram> {
        let entry = |node: usize| self.record()?.member(&self.hosts[node].name);
        let incarnation = |node: usize| Some(entry(node)?.process.as_ref()?.incarnation);
        let (of_victim, of_receiver) = (incarnation(victim)?, incarnation(to)?);
        let timestamp = |node: usize| {
            let nanoseconds = u64::try_from(self.clock(node).as_nanos());
            Timestamp(nanoseconds.expect("a short time"))
        };
        let addresses = self.candidates.keys().copied();
        let lies: Vec<VoteEntry> = addresses
            .flat_map(|address| {
                [
                    VoteEntry::GrantVote(address),
                    VoteEntry::ReleaseAddress(address),
                    VoteEntry::ConfirmRelease(address),
                ]
            })
            .collect();
        let message = Message {
            from: self.name(victim),
            to: self.name(to),
            incarnation: of_victim,
            timestamp: Timestamp(timestamp(victim).0 + 1_000_000_000),
            epoch: u64::MAX,
            min_epoch: 0,
            is_quorate: true,
            is_leaving: true,
            echo: Some(Echo {
                incarnation: of_receiver,
                timestamp: timestamp(to),
            }),
            lease_generation: Some(1),
            entries: lies,
            capabilities: NodeCapabilities::default(),
            link_addresses: Vec::new(),
        };
        let member = attacker
            .member
            .filter(|member| *member != victim && *member != to);
        let (bytes, from) = match member {
            Some(member) => (self.hosts[member].keyring.seal(&message)?, member),
            None => {
                let secret = SecretKey::new([9; 32]);
                let mut keyring = Keyring::new(self.name(victim), of_victim, secret);
                keyring.update(self.record());
                (keyring.seal(&message)?, victim)
            }
        };
        let from = if self.random.bool() {
            self.hosts[victim].address
        } else {
            self.hosts[from].address
        };
        Some(Datagram {
            to,
            from,
            bytes: Arc::new(bytes),
        })
    }
}
