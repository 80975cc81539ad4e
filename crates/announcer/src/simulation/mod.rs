//! Simulation of clusters in virtual time. A seed determines all faults:
//!
//! - The network loses and delays packets, and links fail. An [`attacker`] is on the path between nodes.
//! - Processes freeze and exit.
//! - The API server is slow or absent.
//! - Clocks run at different rates.
//!
//! After each event the simulation checks that no address has two owners. It also checks that no two nodes forward the
//! connections of an address to each other.

mod attacker;
mod attacks;
mod deletions;
mod handoffs;
mod scenarios;
mod seeds;
mod stored_record;
mod succession;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::announcers::Record;

use self::seeds::seeds;
use self::stored_record::StoredRecord;
use crate::election::capabilities::{NodeCapabilities, Requirements};
use crate::election::membership::{MembershipWrite, WriteResult};
use crate::election::rendezvous;
use crate::election::{Candidates, Effect, Election, Identity};
use crate::handoff::ownership_history::ConntrackFlush;
use crate::protocol::keys::{Keyring, SecretKey};
use crate::protocol::message::Message;
use crate::{NodeName, Time};

/// Timeout of a request to an absent API server.
const API_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Event of the simulation.
enum Event {
    Datagram {
        to: usize,
        from: SocketAddr,
        bytes: Arc<Vec<u8>>,
    },
    Wake {
        node: usize,
        number: u64,
    },
    /// A watch delivers the record to the node.
    RecordDelivered {
        node: usize,
    },
    /// A write arrives at the server.
    WriteArrived {
        node: usize,
        process: u64,
        write: MembershipWrite,
        sent: Time,
    },
    /// Its response arrives at the node.
    ResponseArrived {
        node: usize,
        process: u64,
        outcome: WriteResult,
    },
    Unfreeze {
        node: usize,
    },
    Candidates {
        node: usize,
        address: IpAddr,
    },
}

/// A node.
struct Host {
    name: NodeName,
    address: SocketAddr,
    election: Option<Election>,
    keyring: Keyring,
    /// Number of the process.
    process: u64,
    /// Rate of its clock; 1 is exact.
    rate: f64,
    wake: u64,
    is_frozen: bool,
    /// Events that arrived while the node was frozen.
    backlog: Vec<Event>,
    has_api: bool,
    capabilities: NodeCapabilities,
    /// True if its processes are of the version without keys.
    is_unkeyed: bool,
    /// True if its process is shutting down.
    is_shutting_down: bool,
    /// Addresses that its last process owned when it was killed.
    owned_at_kill: Vec<IpAddr>,
    /// Report of its last process: its time, and the time until which votes may be in use.
    report: Option<(Time, Time)>,
    /// Validity of the standing report to a process that waits for the end of this one; `None` without such a process.
    standing_report: Option<bool>,
}

/// A cluster.
pub(crate) struct Cluster {
    /// Seed of all random decisions.
    seed: u64,
    /// True if new nodes run the version without keys.
    is_unkeyed: bool,
    pub(crate) random: fastrand::Rng,
    pub(crate) now: Time,
    hosts: Vec<Host>,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    events: BTreeMap<(Time, u64), Event>,
    event_count: u64,
    /// Directions in which no datagram arrives.
    disconnected: BTreeSet<(usize, usize)>,
    pub(crate) loss: f64,
    /// Share of lost API responses. The write counts, but its writer gets no response.
    pub(crate) response_loss: f64,
    record: Option<StoredRecord>,
    /// Number of changes of the record, by processes and by others.
    record_changes: u64,
    pub(crate) nodes: BTreeSet<NodeName>,
    candidates: BTreeMap<IpAddr, Arc<Candidates>>,
    /// Requests that the API server has received.
    pub(crate) writes: usize,
    /// Number of gained addresses.
    pub(crate) gains: usize,
    attacker: Option<attacker::Attacker>,
    /// Requested conntrack flushes.
    pub(crate) flushes: Vec<(usize, IpAddr, ConntrackFlush)>,
}

impl Cluster {
    /// Starts a cluster of that many nodes at once, with clocks that are up to a percent fast or slow.
    pub(crate) fn start(seed: u64, nodes: usize) -> Self {
        Self::of_version(seed, nodes, false)
    }

    /// Starts a cluster, of the version without keys if `is_unkeyed`.
    pub(crate) fn of_version(seed: u64, nodes: usize, is_unkeyed: bool) -> Self {
        let mut this = Self {
            seed,
            is_unkeyed,
            random: fastrand::Rng::with_seed(seed),
            now: Duration::from_secs(1_000),
            hosts: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            event_count: 0,
            disconnected: BTreeSet::new(),
            loss: 0.0,
            response_loss: 0.0,
            record: None,
            record_changes: 0,
            nodes: BTreeSet::new(),
            candidates: BTreeMap::new(),
            writes: 0,
            gains: 0,
            attacker: None,
            flushes: Vec::new(),
        };
        for _ in 0..nodes {
            this.add_node();
        }
        this
    }

    /// Starts another node.
    pub(crate) fn add_node(&mut self) {
        let number = self.hosts.len();
        let name: NodeName = format!("node-{number}").into();
        self.nodes.insert(NodeName::clone(&name));
        self.hosts.push(Host {
            name,
            address: ([192, 0, 2, number as u8], 1).into(),
            keyring: Keyring::new("".into(), 0, SecretKey::new([1; 32])),
            election: None,
            process: 0,
            rate: 0.99 + 0.02 * self.random.f64(),
            wake: 0,
            is_frozen: false,
            backlog: Vec::new(),
            has_api: true,
            capabilities: NodeCapabilities::default(),
            is_unkeyed: self.is_unkeyed,
            is_shutting_down: false,
            owned_at_kill: Vec::new(),
            report: None,
            standing_report: None,
        });
        self.set_nodes();
        self.start_process(number);
    }

    pub(crate) fn size(&self) -> usize {
        self.hosts.len()
    }

    pub(crate) fn is_up(&self, node: usize) -> bool {
        self.hosts[node].election.is_some()
    }

    /// Deletes the Node object and powers the node off.
    pub(crate) fn remove_node(&mut self, node: usize) {
        self.kill(node);
        self.nodes.remove(&self.hosts[node].name);
        self.set_nodes();
    }

    /// Starts a process on a node that runs none.
    pub(crate) fn start_process(&mut self, node: usize) {
        if self.is_up(node) || !self.nodes.contains(&self.hosts[node].name) {
            return;
        }
        let host = &mut self.hosts[node];
        host.process = self.random.u64(..);
        let secret = SecretKey::new(std::array::from_fn(|_| self.random.u8(..)));
        let identity = Identity {
            name: NodeName::clone(&host.name),
            incarnation: host.process,
            address: host.address,
            public_key: secret.public(),
            new_cluster: format!("cluster of {}/{}", host.name, host.process),
            seed: self.random.u64(..),
        };
        host.keyring = Keyring::new(NodeName::clone(&host.name), host.process, secret);
        let now = self.clock(node);
        let mut election = Election::new(identity, now);
        self.pass_report(node, &mut election);
        election.set_nodes(now, self.nodes.clone());
        let host = &mut self.hosts[node];
        host.is_shutting_down = false;
        election.restore_after_crash(std::mem::take(&mut host.owned_at_kill));
        election.set_capabilities(now, host.capabilities.clone());
        let candidates = self.candidates.iter();
        election.set_candidates(
            now,
            candidates.map(|(address, candidates)| (*address, Some(Arc::clone(candidates)))),
        );
        self.hosts[node].election = Some(election);
        self.schedule(milliseconds(1), Event::RecordDelivered { node });
        self.follow_up(node);
    }

    /// Freezes a process for a time.
    pub(crate) fn freeze(&mut self, node: usize, duration: Duration) {
        if !self.hosts[node].is_frozen && self.is_up(node) {
            self.hosts[node].is_frozen = true;
            self.schedule(duration, Event::Unfreeze { node });
        }
    }

    /// Drops all packets from one node to another, in this direction only.
    pub(crate) fn disconnect(&mut self, from: usize, to: usize) {
        self.disconnected.insert((from, to));
    }

    /// Reconnects all nodes.
    pub(crate) fn reconnect_all(&mut self) {
        self.disconnected.clear();
    }

    /// Cuts the network between the nodes of one side and all others.
    pub(crate) fn split(&mut self, is_of_one_side: impl Fn(usize) -> bool) {
        for (a, b) in pairs(self.size()) {
            if is_of_one_side(a) != is_of_one_side(b) {
                self.disconnect(a, b);
            }
        }
    }

    /// Sets if a node reaches the API server.
    pub(crate) fn set_api(&mut self, node: usize, has_api: bool) {
        if std::mem::replace(&mut self.hosts[node].has_api, has_api) == has_api || !has_api {
            return;
        }
        self.schedule(milliseconds(5), Event::RecordDelivered { node });
        let addresses: Vec<IpAddr> = self.candidates.keys().copied().collect();
        for address in addresses {
            self.schedule(milliseconds(5), Event::Candidates { node, address });
        }
    }

    /// Changes the capabilities of a node.
    pub(crate) fn set_capabilities(&mut self, node: usize, capabilities: NodeCapabilities) {
        self.hosts[node].capabilities = capabilities.clone();
        let now = self.clock(node);
        let host = &mut self.hosts[node];
        let is_frozen = host.is_frozen;
        if let Some(election) = host.election.as_mut().filter(|_| !is_frozen) {
            election.set_capabilities(now, capabilities);
            self.follow_up(node);
        }
    }

    /// Stops a node, which runs the current version from its next start on.
    pub(crate) fn upgrade(&mut self, node: usize) {
        self.kill(node);
        self.hosts[node].is_unkeyed = false;
    }

    /// Makes these nodes candidates for an address; all nodes receive the change, sooner or later.
    pub(crate) fn set_candidates(&mut self, address: IpAddr, preferred: &[usize]) {
        let requirements = self
            .candidates
            .get(&address)
            .map(|candidates| candidates.requirements);
        self.set_candidates_with(address, preferred, requirements.unwrap_or_default());
    }

    /// Makes these nodes candidates for an address with requirements.
    pub(crate) fn set_candidates_with(
        &mut self,
        address: IpAddr,
        preferred: &[usize],
        requirements: Requirements,
    ) {
        let names = preferred
            .iter()
            .map(|node| NodeName::clone(&self.hosts[*node].name));
        let candidates = Candidates {
            preferred: names.collect(),
            fallback: BTreeSet::new(),
            requirements,
        };
        self.candidates.insert(address, Arc::new(candidates));
        for node in 0..self.size() {
            let delay = milliseconds(self.random.u64(1..400));
            self.schedule(delay, Event::Candidates { node, address });
        }
    }

    /// Removes an address; all nodes receive the change, sooner or later.
    pub(crate) fn remove_address(&mut self, address: IpAddr) {
        self.candidates.remove(&address);
        for node in 0..self.size() {
            let delay = milliseconds(self.random.u64(1..400));
            self.schedule(delay, Event::Candidates { node, address });
        }
    }

    /// Owners of an address.
    pub(crate) fn owners(&self, address: IpAddr) -> Vec<usize> {
        let answers = |node: &usize| {
            let host = &self.hosts[*node];
            let election = host.election.as_ref().filter(|_| !host.is_frozen);
            election.is_some_and(|election| election.may_answer(self.clock(*node), address))
        };
        (0..self.size()).filter(answers).collect()
    }

    /// Owner of an address and reachability of the members, from the view of a running node.
    pub(crate) fn seen_by(&self, node: usize, address: IpAddr) -> (Option<NodeName>, Vec<bool>) {
        let election = self.hosts[node].election.as_ref().expect("a process");
        let now = self.clock(node);
        let members = election.members(now).into_iter();
        let reachable = members.map(|member| member.is_reachable).collect();
        (election.owner(now, address).cloned(), reachable)
    }

    /// Name of a node.
    pub(crate) fn name(&self, node: usize) -> NodeName {
        NodeName::clone(&self.hosts[node].name)
    }

    /// Expected owner among the running nodes.
    pub(crate) fn expected_owner(&self, address: IpAddr) -> Option<usize> {
        let candidates = &self.candidates[&address];
        let running = candidates.preferred.iter().filter(|name| {
            let host = self.hosts.iter().find(|host| host.name == **name);
            host.is_some_and(|host| {
                host.election.is_some() && host.capabilities.satisfy(&candidates.requirements)
            })
        });
        let winner = rendezvous::winner(address, running)?;
        self.hosts.iter().position(|host| host.name == *winner)
    }

    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.candidates.keys().copied().collect()
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        self.record.as_ref().map(|stored| &stored.record)
    }

    /// Advances the time.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run_until(end, |_| false);
    }

    /// Advances the time until a condition holds. Returns false if it did not hold in time.
    pub(crate) fn run_until(&mut self, end: Time, condition: impl Fn(&Self) -> bool) -> bool {
        loop {
            if condition(self) {
                return true;
            }
            let Some(Reverse(key)) = self.queue.peek().copied().filter(|Reverse(key)| key.0 <= end) else {
                self.now = end;
                return false;
            };
            self.queue.pop();
            self.now = key.0;
            let event = self.events.remove(&key).expect("an event that was queued");
            self.handle(event);
            for address in self.candidates.keys() {
                let owners = self.owners(*address);
                assert!(
                    owners.len() < 2,
                    "{address} is answered for by {owners:?} at {:?}, seed {}",
                    self.now,
                    self.seed
                );
                for (from, to) in self.forwardings(*address) {
                    assert_ne!(
                        self.forwarded_to(to, *address),
                        Some(from),
                        "{address} is forwarded in a circle by {from} and {to} at {:?}, seed {}",
                        self.now,
                        self.seed
                    );
                }
            }
        }
    }

    /// Node to which a node forwards connections of an address. A frozen node forwards too: its kernel keeps running.
    pub(crate) fn forwarded_to(&self, node: usize, address: IpAddr) -> Option<usize> {
        let name = self.hosts[node].election.as_ref()?.forwarded_to(address)?;
        self.hosts.iter().position(|host| host.name == *name)
    }

    /// Returns true if a node drops unattributed packets of an address.
    pub(crate) fn is_unsettled(&self, node: usize, address: IpAddr) -> bool {
        let election = self.hosts[node].election.as_ref();
        election.is_some_and(|election| election.pending().any(|pending| pending == address))
    }

    /// Pairs of nodes between which connections of an address are forwarded, from and to.
    pub(crate) fn forwardings(&self, address: IpAddr) -> impl Iterator<Item = (usize, usize)> {
        let forwarded = move |node: usize| Some((node, self.forwarded_to(node, address)?));
        (0..self.size()).filter_map(forwarded)
    }

    /// Nodes that announce an address without the capabilities that it requires.
    pub(crate) fn unqualified_owners(&self, address: IpAddr) -> Vec<usize> {
        let requirements = &self.candidates[&address].requirements;
        let mut owners = self.owners(address);
        owners.retain(|owner| !self.hosts[*owner].capabilities.satisfy(requirements));
        owners
    }

    fn clock(&self, node: usize) -> Time {
        self.now.mul_f64(self.hosts[node].rate)
    }

    fn schedule(&mut self, delay: Duration, event: Event) {
        self.event_count += 1;
        let key = (self.now + delay, self.event_count);
        self.queue.push(Reverse(key));
        self.events.insert(key, event);
    }

    fn set_nodes(&mut self) {
        for node in 0..self.size() {
            let now = self.clock(node);
            if let Some(election) = &mut self.hosts[node].election {
                election.set_nodes(now, self.nodes.clone());
                self.follow_up(node);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let node = match &event {
            Event::WriteArrived { .. } => return self.arrive_at_api(event),
            Event::Unfreeze { node } => return self.unfreeze(*node),
            Event::Datagram { to: node, .. }
            | Event::Wake { node, .. }
            | Event::RecordDelivered { node }
            | Event::Candidates { node, .. }
            | Event::ResponseArrived { node, .. } => *node,
        };
        if self.hosts[node].is_frozen {
            self.hosts[node].backlog.push(event);
            return;
        }
        let now = self.clock(node);
        let host = &mut self.hosts[node];
        // `None` if the record cannot be read.
        let delivered = match &self.record {
            Some(stored) => stored.read_by(host.is_unkeyed).map(Some),
            None => Some(None),
        };
        let Some(election) = &mut host.election else {
            return;
        };
        match event {
            Event::Datagram { from, bytes, .. } => {
                if let Ok(message) = host.keyring.open(from, &bytes) {
                    election.receive(now, from, &message);
                }
            }
            Event::Wake { number, .. } if number == host.wake => election.tick(now),
            Event::RecordDelivered { .. } if host.has_api => {
                if let Some(delivered) = delivered {
                    election.set_record(now, delivered);
                }
            }
            Event::Candidates { address, .. } if host.has_api => {
                let candidates = self.candidates.get(&address).map(Arc::clone);
                election.set_candidates(now, [(address, candidates)]);
            }
            Event::ResponseArrived { process, outcome, .. } if process == host.process => {
                if let Some(delivered) = delivered
                    && (outcome != WriteResult::Failed || host.has_api)
                {
                    election.set_record(now, delivered);
                }
                election.written(now, outcome);
            }
            _ => return,
        }
        host.keyring.update(election.record());
        self.follow_up(node);
    }

    fn unfreeze(&mut self, node: usize) {
        self.hosts[node].is_frozen = false;
        let capabilities = self.hosts[node].capabilities.clone();
        self.set_capabilities(node, capabilities);
        let backlog = std::mem::take(&mut self.hosts[node].backlog);
        for event in backlog {
            self.handle(event);
        }
    }

    /// Performs a compare-and-swap and delivers the result to all watches.
    fn arrive_at_api(&mut self, event: Event) {
        let Event::WriteArrived {
            node,
            process,
            write,
            sent,
        } = event
        else {
            return;
        };
        if !self.hosts[node].has_api {
            let outcome = WriteResult::Failed;
            return self.schedule(
                API_TIMEOUT,
                Event::ResponseArrived {
                    node,
                    process,
                    outcome,
                },
            );
        }
        self.writes += 1;
        let mut outcome = WriteResult::Failed;
        if self.record.as_ref().map(StoredRecord::version) == write.version {
            outcome = WriteResult::Accepted(sent);
            self.record_changes += 1;
            let object = self.record.as_ref().map(|stored| stored.object);
            self.record = Some(StoredRecord {
                object: object.unwrap_or(self.record_changes),
                version: self.record_changes,
                record: write.record,
                is_unkeyed: self.hosts[node].is_unkeyed,
                is_malformed: false,
            });
            self.deliver_record();
        }
        if self.random.f64() < self.response_loss {
            let outcome = WriteResult::Failed;
            return self.schedule(
                API_TIMEOUT,
                Event::ResponseArrived {
                    node,
                    process,
                    outcome,
                },
            );
        }
        let delay = milliseconds(self.random.u64(1..50));
        self.schedule(
            delay,
            Event::ResponseArrived {
                node,
                process,
                outcome,
            },
        );
    }

    /// Performs the effects of the election.
    fn follow_up(&mut self, node: usize) {
        let now = self.clock(node);
        let host = &mut self.hosts[node];
        let Some(election) = &mut host.election else {
            return;
        };
        let process = host.process;
        if let Some(is_valid) = &mut host.standing_report {
            // As in the driver, a withdrawal precedes the messages.
            *is_valid = election.is_free_of_votes(now);
        }
        let write = election.write(now);
        let effects = election.take_effects();
        host.wake += 1;
        let number = host.wake;
        let pause = election.next_wake(now).saturating_sub(now).div_f64(host.rate);
        self.schedule(pause + Duration::from_nanos(100), Event::Wake { node, number });
        if let Some(write) = write {
            let delay = milliseconds(self.random.u64(1..50));
            self.schedule(
                delay,
                Event::WriteArrived {
                    node,
                    process,
                    write,
                    sent: now,
                },
            );
        }
        for effect in effects {
            match effect {
                Effect::Send(address, message) => {
                    if let Some(bytes) = self.hosts[node].keyring.seal(&message) {
                        self.send(node, address, bytes);
                    }
                }
                Effect::Acquired(_) => self.gains += 1,
                Effect::FlushConntrack(address, flushes) => self.flushes.push((node, address, flushes)),
                _ => {}
            }
        }
    }

    fn send(&mut self, from: usize, address: SocketAddr, bytes: Vec<u8>) {
        let has_address = |host: &Host| host.address == address;
        let Some(to) = self.hosts.iter().position(has_address) else {
            return;
        };
        let source = self.hosts[from].address;
        // The versions do not understand each other.
        let is_understood = self.hosts[from].is_unkeyed == self.hosts[to].is_unkeyed;
        if !is_understood || self.disconnected.contains(&(from, to)) || self.random.f64() < self.loss {
            return;
        }
        let datagram = attacker::Datagram {
            to,
            from: source,
            bytes: Arc::new(bytes),
        };
        if self.is_held_up(&datagram) {
            return;
        }
        // Some come twice, and some so late that others overtake them.
        for chance in [1.0, 0.02] {
            if self.random.f64() < chance {
                let microseconds = if self.random.f64() < 0.02 { 300_000 } else { 2_000 };
                let delay = Duration::from_micros(self.random.u64(50..microseconds));
                self.deliver(delay, datagram.clone());
            }
        }
    }

    fn deliver(&mut self, delay: Duration, datagram: attacker::Datagram) {
        let attacker::Datagram { to, from, bytes } = datagram;
        self.schedule(delay, Event::Datagram { to, from, bytes });
    }
}

/// All directions between that many nodes.
pub(crate) fn pairs(nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nodes).flat_map(move |a| (0..nodes).filter(move |b| a != *b).map(move |b| (a, b)))
}
