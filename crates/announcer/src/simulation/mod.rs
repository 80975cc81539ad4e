//! Simulation of clusters in virtual time: a network that loses, delays and cuts, an attacker on it ([`attacker`]),
//! processes that freeze and die, an API server that is slow or absent, and clocks that run apart. A seed determines
//! all of it.
//!
//! After each event the simulation checks that no address has two owners, and that no two nodes forward the
//! connections of an address to each other.

mod attacker;
mod attacks;
mod scenarios;
mod stored_record;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::announcers::Record;

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
    Thaw {
        node: usize,
    },
    Candidates {
        node: usize,
        address: IpAddr,
    },
}

/// A node.
struct Machine {
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
    is_former: bool,
    /// True if its process is shutting down.
    is_leaving: bool,
    /// Addresses that its last process owned when it was killed.
    left: Vec<IpAddr>,
}

/// A cluster.
pub(crate) struct Cluster {
    /// Seed of all random decisions.
    seed: u64,
    /// True if new nodes run the version without keys.
    is_former: bool,
    pub(crate) random: fastrand::Rng,
    pub(crate) now: Time,
    machines: Vec<Machine>,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    events: BTreeMap<(Time, u64), Event>,
    events_made: u64,
    /// Directions in which no datagram arrives.
    cuts: BTreeSet<(usize, usize)>,
    pub(crate) loss: f64,
    /// Share of lost API responses. The write counts, but its writer does not learn of it.
    pub(crate) answer_loss: f64,
    record: Option<StoredRecord>,
    pub(crate) nodes: BTreeSet<NodeName>,
    demand: BTreeMap<IpAddr, Arc<Candidates>>,
    /// Requests that the API server has received.
    pub(crate) writes: usize,
    /// Number of gained addresses.
    pub(crate) gains: usize,
    attacker: Option<attacker::Attacker>,
    /// Requested conntrack flushes.
    pub(crate) forgotten: Vec<(usize, IpAddr, ConntrackFlush)>,
}

impl Cluster {
    /// Starts a cluster of that many nodes at once, with clocks that are up to a percent fast or slow.
    pub(crate) fn start(seed: u64, nodes: usize) -> Self {
        Self::of_version(seed, nodes, false)
    }

    /// Starts a cluster, of the version without keys if `is_former`.
    pub(crate) fn of_version(seed: u64, nodes: usize, is_former: bool) -> Self {
        let mut this = Self {
            seed,
            is_former,
            random: fastrand::Rng::with_seed(seed),
            now: Duration::from_secs(1_000),
            machines: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            events_made: 0,
            cuts: BTreeSet::new(),
            loss: 0.0,
            answer_loss: 0.0,
            record: None,
            nodes: BTreeSet::new(),
            demand: BTreeMap::new(),
            writes: 0,
            gains: 0,
            attacker: None,
            forgotten: Vec::new(),
        };
        for _ in 0..nodes {
            this.add_node();
        }
        this
    }

    /// Starts another node.
    pub(crate) fn add_node(&mut self) {
        let number = self.machines.len();
        let name: NodeName = format!("node-{number}").into();
        self.nodes.insert(NodeName::clone(&name));
        self.machines.push(Machine {
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
            is_former: self.is_former,
            is_leaving: false,
            left: Vec::new(),
        });
        self.set_nodes();
        self.boot(number);
    }

    pub(crate) fn size(&self) -> usize {
        self.machines.len()
    }

    pub(crate) fn is_up(&self, node: usize) -> bool {
        self.machines[node].election.is_some()
    }

    /// Deletes the Node object and powers the node off.
    pub(crate) fn remove_node(&mut self, node: usize) {
        self.kill(node);
        self.nodes.remove(&self.machines[node].name);
        self.set_nodes();
    }

    /// Starts a process on a node that runs none.
    pub(crate) fn boot(&mut self, node: usize) {
        if self.is_up(node) || !self.nodes.contains(&self.machines[node].name) {
            return;
        }
        let machine = &mut self.machines[node];
        machine.process = self.random.u64(..);
        let secret = SecretKey::new(std::array::from_fn(|_| self.random.u8(..)));
        let identity = Identity {
            name: NodeName::clone(&machine.name),
            incarnation: machine.process,
            address: machine.address,
            public_key: secret.public(),
            new_cluster: format!("cluster of {}", machine.name),
            seed: self.random.u64(..),
        };
        machine.keyring = Keyring::new(NodeName::clone(&machine.name), machine.process, secret);
        let now = self.clock(node);
        let mut election = Election::new(identity, now);
        election.set_nodes(now, self.nodes.clone());
        let machine = &mut self.machines[node];
        machine.is_leaving = false;
        election.restore_after_crash(std::mem::take(&mut machine.left));
        election.set_capabilities(now, machine.capabilities.clone());
        let demand = self.demand.iter();
        election.set_candidates(
            now,
            demand.map(|(address, candidates)| (*address, Some(Arc::clone(candidates)))),
        );
        self.machines[node].election = Some(election);
        self.after(milliseconds(1), Event::RecordDelivered { node });
        self.follow_up(node);
    }

    /// Kills a process.
    pub(crate) fn kill(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        if let Some(election) = machine.election.take().filter(|_| !machine.is_leaving) {
            machine.left = election.persisted_addresses().collect();
        }
        machine.is_frozen = false;
        machine.backlog.clear();
    }

    /// Starts the shutdown of a process.
    pub(crate) fn leave(&mut self, node: usize) {
        let now = self.clock(node);
        let machine = &mut self.machines[node];
        if let Some(election) = &mut machine.election {
            machine.is_leaving = true;
            election.leave(now);
            self.follow_up(node);
        }
    }

    /// Freezes a process for a time.
    pub(crate) fn freeze(&mut self, node: usize, lasts: Duration) {
        if !self.machines[node].is_frozen && self.is_up(node) {
            self.machines[node].is_frozen = true;
            self.after(lasts, Event::Thaw { node });
        }
    }

    /// Cuts the network from one node to another, in this direction only.
    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cuts.insert((from, to));
    }

    /// Heals all cuts.
    pub(crate) fn join(&mut self) {
        self.cuts.clear();
    }

    /// Cuts the network between the nodes of one side and all others.
    pub(crate) fn split(&mut self, is_of_one_side: impl Fn(usize) -> bool) {
        for (a, b) in pairs(self.size()) {
            if is_of_one_side(a) != is_of_one_side(b) {
                self.cut(a, b);
            }
        }
    }

    /// Sets if a node reaches the API server.
    pub(crate) fn set_api(&mut self, node: usize, has_api: bool) {
        if std::mem::replace(&mut self.machines[node].has_api, has_api) == has_api || !has_api {
            return;
        }
        self.after(milliseconds(5), Event::RecordDelivered { node });
        let addresses: Vec<IpAddr> = self.demand.keys().copied().collect();
        for address in addresses {
            self.after(milliseconds(5), Event::Candidates { node, address });
        }
    }

    /// Changes the capabilities of a node.
    pub(crate) fn set_capabilities(&mut self, node: usize, capabilities: NodeCapabilities) {
        self.machines[node].capabilities = capabilities.clone();
        let now = self.clock(node);
        let machine = &mut self.machines[node];
        let is_asleep = machine.is_frozen;
        if let Some(election) = machine.election.as_mut().filter(|_| !is_asleep) {
            election.set_capabilities(now, capabilities);
            self.follow_up(node);
        }
    }

    /// Stops a node, which runs the current version from its next start on.
    pub(crate) fn upgrade(&mut self, node: usize) {
        self.kill(node);
        self.machines[node].is_former = false;
    }

    /// Makes these nodes candidates for an address; all nodes learn it, sooner or later.
    pub(crate) fn want(&mut self, address: IpAddr, preferred: &[usize]) {
        let requirements = self
            .demand
            .get(&address)
            .map(|candidates| candidates.requirements);
        self.want_with(address, preferred, requirements.unwrap_or_default());
    }

    /// Makes these nodes candidates for an address with requirements.
    pub(crate) fn want_with(&mut self, address: IpAddr, preferred: &[usize], requirements: Requirements) {
        let names = preferred
            .iter()
            .map(|node| NodeName::clone(&self.machines[*node].name));
        let candidates = Candidates {
            preferred: names.collect(),
            otherwise: BTreeSet::new(),
            requirements,
        };
        self.demand.insert(address, Arc::new(candidates));
        for node in 0..self.size() {
            let delay = milliseconds(self.random.u64(1..400));
            self.after(delay, Event::Candidates { node, address });
        }
    }

    /// Removes an address; all nodes learn it, sooner or later.
    pub(crate) fn unwant(&mut self, address: IpAddr) {
        self.demand.remove(&address);
        for node in 0..self.size() {
            let delay = milliseconds(self.random.u64(1..400));
            self.after(delay, Event::Candidates { node, address });
        }
    }

    /// Owners of an address.
    pub(crate) fn owners(&self, address: IpAddr) -> Vec<usize> {
        let answers = |node: &usize| {
            let machine = &self.machines[*node];
            let election = machine.election.as_ref().filter(|_| !machine.is_frozen);
            election.is_some_and(|election| election.may_answer(self.clock(*node), address))
        };
        (0..self.size()).filter(answers).collect()
    }

    /// Owner of an address and members that are heard, from the view of a running node.
    pub(crate) fn seen_by(&self, node: usize, address: IpAddr) -> (Option<NodeName>, Vec<bool>) {
        let election = self.machines[node].election.as_ref().expect("a process");
        let now = self.clock(node);
        let members = election.members(now).into_iter();
        let heard = members.map(|member| member.is_heard).collect();
        (election.owner(now, address).cloned(), heard)
    }

    /// Name of a node.
    pub(crate) fn name(&self, node: usize) -> NodeName {
        NodeName::clone(&self.machines[node].name)
    }

    /// Expected owner among the running nodes.
    pub(crate) fn winner(&self, address: IpAddr) -> Option<usize> {
        let candidates = &self.demand[&address];
        let running = candidates.preferred.iter().filter(|name| {
            let machine = self.machines.iter().find(|machine| machine.name == **name);
            machine.is_some_and(|machine| {
                machine.election.is_some() && machine.capabilities.satisfy(&candidates.requirements)
            })
        });
        let winner = rendezvous::winner(address, running)?;
        self.machines.iter().position(|machine| machine.name == *winner)
    }

    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.demand.keys().copied().collect()
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        self.record.as_ref().map(|stored| &stored.record)
    }

    /// Advances the time.
    pub(crate) fn run(&mut self, lasts: Duration) {
        let end = self.now + lasts;
        self.run_until(end, |_| false);
    }

    /// Advances the time until a condition holds. Returns false if it did not hold in time.
    pub(crate) fn run_until(&mut self, end: Time, is_so: impl Fn(&Self) -> bool) -> bool {
        loop {
            if is_so(self) {
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
            for address in self.demand.keys() {
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
        let name = self.machines[node].election.as_ref()?.forwarded_to(address)?;
        self.machines.iter().position(|machine| machine.name == *name)
    }

    /// True if a node drops unattributed packets of an address.
    pub(crate) fn is_unsettled(&self, node: usize, address: IpAddr) -> bool {
        let election = self.machines[node].election.as_ref();
        election.is_some_and(|election| election.pending().any(|pending| pending == address))
    }

    /// Pairs of nodes between which connections of an address are forwarded, from and to.
    pub(crate) fn forwardings(&self, address: IpAddr) -> impl Iterator<Item = (usize, usize)> {
        let forwarded = move |node: usize| Some((node, self.forwarded_to(node, address)?));
        (0..self.size()).filter_map(forwarded)
    }

    /// Nodes that announce an address without the capabilities that it requires.
    pub(crate) fn unable_owners(&self, address: IpAddr) -> Vec<usize> {
        let requirements = &self.demand[&address].requirements;
        let mut owners = self.owners(address);
        owners.retain(|owner| !self.machines[*owner].capabilities.satisfy(requirements));
        owners
    }

    fn clock(&self, node: usize) -> Time {
        self.now.mul_f64(self.machines[node].rate)
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.events_made += 1;
        let key = (self.now + delay, self.events_made);
        self.queue.push(Reverse(key));
        self.events.insert(key, event);
    }

    fn set_nodes(&mut self) {
        for node in 0..self.size() {
            let now = self.clock(node);
            if let Some(election) = &mut self.machines[node].election {
                election.set_nodes(now, self.nodes.clone());
                self.follow_up(node);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let node = match &event {
            Event::WriteArrived { .. } => return self.arrive_at_api(event),
            Event::Thaw { node } => return self.thaw(*node),
            Event::Datagram { to: node, .. }
            | Event::Wake { node, .. }
            | Event::RecordDelivered { node }
            | Event::Candidates { node, .. }
            | Event::ResponseArrived { node, .. } => *node,
        };
        if self.machines[node].is_frozen {
            self.machines[node].backlog.push(event);
            return;
        }
        let now = self.clock(node);
        let machine = &mut self.machines[node];
        // `None` if the record cannot be read.
        let delivered = match &self.record {
            Some(stored) => stored.read_by(machine.is_former).map(Some),
            None => Some(None),
        };
        let Some(election) = &mut machine.election else {
            return;
        };
        match event {
            Event::Datagram { from, bytes, .. } => {
                if let Ok(message) = machine.keyring.open(from, &bytes) {
                    election.receive(now, from, &message);
                }
            }
            Event::Wake { number, .. } if number == machine.wake => election.tick(now),
            Event::RecordDelivered { .. } if machine.has_api => {
                if let Some(delivered) = delivered {
                    election.set_record(now, delivered);
                }
            }
            Event::Candidates { address, .. } if machine.has_api => {
                let candidates = self.demand.get(&address).map(Arc::clone);
                election.set_candidates(now, [(address, candidates)]);
            }
            Event::ResponseArrived { process, outcome, .. } if process == machine.process => {
                if let Some(delivered) = delivered
                    && (outcome != WriteResult::Failed || machine.has_api)
                {
                    election.set_record(now, delivered);
                }
                election.written(now, outcome);
            }
            _ => return,
        }
        machine.keyring.update(election.record());
        self.follow_up(node);
    }

    fn thaw(&mut self, node: usize) {
        self.machines[node].is_frozen = false;
        let capabilities = self.machines[node].capabilities.clone();
        self.set_capabilities(node, capabilities);
        let backlog = std::mem::take(&mut self.machines[node].backlog);
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
        if !self.machines[node].has_api {
            let outcome = WriteResult::Failed;
            return self.after(
                API_TIMEOUT,
                Event::ResponseArrived {
                    node,
                    process,
                    outcome,
                },
            );
        }
        self.writes += 1;
        let version = self.record.as_ref().map(|stored| stored.version);
        let mut outcome = WriteResult::Failed;
        if version.map(|version| version.to_string()) == write.version {
            outcome = WriteResult::Accepted(sent);
            self.record = Some(StoredRecord {
                version: version.unwrap_or_default() + 1,
                record: write.record,
                is_former: self.machines[node].is_former,
            });
            for node in 0..self.size() {
                let delay = milliseconds(self.random.u64(1..300));
                self.after(delay, Event::RecordDelivered { node });
            }
        }
        if self.random.f64() < self.answer_loss {
            let outcome = WriteResult::Failed;
            return self.after(
                API_TIMEOUT,
                Event::ResponseArrived {
                    node,
                    process,
                    outcome,
                },
            );
        }
        let delay = milliseconds(self.random.u64(1..50));
        self.after(
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
        let machine = &mut self.machines[node];
        let Some(election) = &mut machine.election else {
            return;
        };
        let process = machine.process;
        let write = election.write(now);
        let effects = election.take_effects();
        machine.wake += 1;
        let number = machine.wake;
        let pause = election.next_wake(now).saturating_sub(now).div_f64(machine.rate);
        self.after(pause + Duration::from_nanos(100), Event::Wake { node, number });
        if let Some(write) = write {
            let delay = milliseconds(self.random.u64(1..50));
            self.after(
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
                    if let Some(bytes) = self.machines[node].keyring.seal(&message) {
                        self.send(node, address, bytes);
                    }
                }
                Effect::Acquired(_) => self.gains += 1,
                Effect::FlushConntrack(address, forgotten) => self.forgotten.push((node, address, forgotten)),
                _ => {}
            }
        }
    }

    fn send(&mut self, from: usize, address: SocketAddr, bytes: Vec<u8>) {
        let of_address = |machine: &Machine| machine.address == address;
        let Some(to) = self.machines.iter().position(of_address) else {
            return;
        };
        let source = self.machines[from].address;
        // The versions do not understand each other.
        let is_understood = self.machines[from].is_former == self.machines[to].is_former;
        if !is_understood || self.cuts.contains(&(from, to)) || self.random.f64() < self.loss {
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
        self.after(delay, Event::Datagram { to, from, bytes });
    }
}

/// All directions between that many nodes.
pub(crate) fn pairs(nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nodes).flat_map(move |a| (0..nodes).filter(move |b| a != *b).map(move |b| (a, b)))
}
