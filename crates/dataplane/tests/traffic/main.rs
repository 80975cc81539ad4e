//! Test suite for all data planes: real packets are handled as `Plan::decide` and `explain::trace` state, for random
//! Services.

mod control_groups;
mod drain;
mod live_traces;
mod ping;
mod ranges;
mod schedulers;
mod sctp;
mod services;
mod traces;
mod virtual_servers;
mod world;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use api::object::Protocol;
use dataplane::iptables::{self, IptablesDataplane, ProgramError, Variant};
use dataplane::nftables::NftablesDataplane;
use dataplane::userspace::UserspaceDataplane;
use dataplane::{Applied, Dataplane, DataplaneError};
use netlink::conntrack::{Conntrack, Family};
use netlink::nftables::{Batch, Change, Nftables, Table};
use plan::{NodeFacts, NodePortAddresses, Origin, Packet, Plan, PodDetection, Scheduler, Settings, Verdict};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use explain::trace::Trace;
use live_traces::Followed;
use services::{Cluster, NODE_PORTS, SERVICE_IPS, SERVICE_PORTS};
use traces::Traces;
use world::{Member, Outcome, World};

/// Random clusters per data plane, unless `PORTOLAN_TRAFFIC_CLUSTERS` has another number.
const CLUSTERS: u32 = 252;
/// Nodes that share the clusters, because most of the time is spent waiting for replies that must not come.
const NODES: u32 = 6;
/// Consecutive connections of a client with session affinity.
const STICKY_TRIES: usize = 4;

/// A data plane in the network namespace of the calling thread.
type Opened = Result<Box<dyn Dataplane + Send>, DataplaneError>;

/// Properties of a data plane.
#[derive(Clone, Copy)]
struct Mode {
    open: fn() -> Opened,
    /// True if endpoints see client addresses. Endpoints of port ranges see them in all modes.
    keeps_source: bool,
    /// True if the rules are those of nftables.
    has_rules: bool,
    /// True if the random Services may have port ranges.
    serves_port_ranges: bool,
    /// True if the data plane answers echo requests.
    answers_ping: bool,
    /// True if TCP clients of the node get their endpoint when they connect.
    chooses_at_connect: bool,
    /// True if virtual servers choose endpoints.
    has_virtual_servers: bool,
}

impl Mode {
    /// Returns true if the data plane has rules for SCTP. A relay has none.
    fn has_rules_for_sctp(self) -> bool {
        self.keeps_source
    }

    /// Returns the scheduler of Services without an annotation.
    fn default_scheduler(self) -> Scheduler {
        if self.has_virtual_servers {
            Scheduler::RoundRobin
        } else {
            Scheduler::default()
        }
    }
}

/// Generates the tests of each data plane.
macro_rules! mode_tests {
    ($($name:ident => $mode:expr;)*) => {$(
        mod $name {
            use super::*;

            /// KPR-02: both IP families.
            #[test]
            fn packets_follow_plan() {
                testbed::in_namespace(|| send_packets($mode));
            }

            #[test]
            fn port_ranges_keep_the_port() {
                testbed::in_namespace(|| ranges::ranges_keep_the_port($mode));
            }

            #[test]
            fn node_answers_ping() {
                testbed::in_namespace(|| ping::node_answers($mode));
            }

            #[test]
            fn affinity_expires() {
                testbed::in_namespace(|| schedulers::affinity_expires($mode));
            }

            #[test]
            fn round_robin_takes_turns() {
                testbed::in_namespace(|| schedulers::round_robin_takes_turns($mode));
            }

            #[test]
            fn sctp_reaches_all_endpoints() {
                testbed::in_namespace(|| sctp::associations_reach_all_endpoints($mode));
            }
        }
    )*};
}

mode_tests! {
    nftables => Mode {
        has_rules: true,
        serves_port_ranges: true,
        answers_ping: true,
        ..in_kernel(|| Ok(Box::new(NftablesDataplane::open(dataplane::nftables::Options::default())?)))
    };
    iptables_legacy => Mode {
        serves_port_ranges: true,
        answers_ping: true,
        ..in_kernel(|| open_iptables(Variant::Legacy))
    };
    iptables_nft => Mode {
        serves_port_ranges: true,
        answers_ping: true,
        ..in_kernel(|| open_iptables(Variant::Nft))
    };
    ebpf => Mode {
        answers_ping: true,
        chooses_at_connect: true,
        ..in_kernel(control_groups::open_ebpf)
    };
    ipvs => Mode {
        answers_ping: true,
        has_virtual_servers: true,
        ..in_kernel(virtual_servers::open)
    };
    userspace => Mode {
        open: || Ok(Box::new(UserspaceDataplane::open(dataplane::userspace::Options::default())?)),
        keeps_source: false,
        has_rules: false,
        serves_port_ranges: true,
        answers_ping: true,
        chooses_at_connect: false,
        has_virtual_servers: false,
    };
}

fn in_kernel(open: fn() -> Opened) -> Mode {
    Mode {
        open,
        keeps_source: true,
        has_rules: false,
        serves_port_ranges: false,
        answers_ping: false,
        chooses_at_connect: false,
        has_virtual_servers: false,
    }
}

fn open_iptables(variant: Variant) -> Opened {
    Ok(Box::new(IptablesDataplane::open(iptables::Options {
        variant: Some(variant),
        repairs_by_canary: 0,
        ..iptables::Options::default()
    })?))
}

fn send_packets(mode: Mode) {
    thread::scope(|scope| {
        for node in 0..NODES {
            scope.spawn(move || send_packets_at_node(mode, node));
        }
    });
    if mode.chooses_at_connect {
        control_groups::remove();
    }
}

/// Tests random clusters, each applied on top of the previous one.
fn send_packets_at_node(mode: Mode, node: u32) {
    if mode.chooses_at_connect {
        control_groups::enter(&format!("node-{node}"));
    }
    let run = Run::new(mode);
    let config = Config {
        cases: clusters() / NODES,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    let outcome = TestRunner::new_with_rng(config, rng(node)).run(
        &services::cluster(mode.serves_port_ranges),
        |cluster| {
            run.check(&cluster);
            Ok(())
        },
    );
    if let Err(error) = outcome {
        panic!("node {node}: {error}");
    }
    run.followed.assert_used();
    let accepted = run.accepted.get();
    assert_eq!(
        accepted > 0,
        mode.chooses_at_connect,
        "{accepted} endpoints were chosen at connect()"
    );
}

fn clusters() -> u32 {
    std::env::var("PORTOLAN_TRAFFIC_CLUSTERS").map_or(CLUSTERS, |clusters| clusters.parse().unwrap())
}

/// Returns a generator with a fixed seed per node, so that failures are reproducible.
fn rng(node: u32) -> TestRng {
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&node.to_be_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
}

struct Run {
    world: World,
    plan: RefCell<Plan>,
    mode: Mode,
    dataplane: RefCell<Box<dyn Dataplane + Send>>,
    before: RefCell<Cluster>,
    clusters: Cell<usize>,
    /// Last client port of a UDP socket.
    port: AtomicU16,
    followed: Followed,
    /// Connections that the data plane counted.
    accepted: Cell<u64>,
}

impl Run {
    fn new(mode: Mode) -> Self {
        let world = World::new();
        let mut plan = Plan::new(Settings {
            node_name: "node".to_owned(),
            pods: by_range(),
            service_cidrs: nets(["10.96.0.0/24", "fd00:10:96::/120"]),
            node_port_addresses: if mode.has_virtual_servers {
                NodePortAddresses::Within(nets(["0.0.0.0/0", "::/0"]))
            } else {
                NodePortAddresses::All
            },
            masquerade_all: false,
            ignores_external_ips: false,
            default_scheduler: mode.default_scheduler(),
            answers_ping: mode.answers_ping,
            supports_two_tier: false,
            node_addresses: World::node_addresses(),
        });
        // The traces get them from the Node.
        plan.set_node(NodeFacts {
            ips: world.node().addresses.to_vec(),
            ..NodeFacts::default()
        });
        let dataplane = match world.node().enter(mode.open) {
            Err(DataplaneError::Program {
                source: error @ ProgramError::Start { .. },
            }) => testbed::skip_inside(&error.to_string()),
            opened => opened.unwrap(),
        };
        Self {
            followed: Followed::new(world.node(), mode.keeps_source, mode.has_rules),
            mode,
            world,
            plan: RefCell::new(plan),
            dataplane: RefCell::new(dataplane),
            before: RefCell::default(),
            clusters: Cell::new(0),
            port: AtomicU16::new(0),
            accepted: Cell::default(),
        }
    }

    fn check(&self, cluster: &Cluster) {
        self.apply(cluster);
        let plan = self.plan.borrow();
        // The remote Pod has its own node for its connections.
        let clients = self.world.members.iter().filter(|client| client.name != "remote");
        thread::scope(|scope| {
            for client in clients {
                let probes = Probes {
                    mode: self.mode,
                    node: self.world.node(),
                    followed: &self.followed,
                    plan: &plan,
                    client,
                    port: &self.port,
                };
                let traces = Traces::of(cluster, &self.world, &plan);
                scope.spawn(move || {
                    if probes.mode.chooses_at_connect && client.name == "outside" {
                        control_groups::enter("outside");
                    }
                    probes.run(&traces);
                });
            }
        });
        let counts = self.dataplane.borrow().connections_of_services();
        let accepted: u64 = counts.values().map(|count| count.accepted).sum();
        self.accepted.set(self.accepted.get() + accepted);
    }

    /// Applies the cluster, by the same data plane or by that of the next process.
    fn apply(&self, cluster: &Cluster) {
        let number = self.clusters.get();
        self.clusters.set(number + 1);
        let mut plan = self.plan.borrow_mut();
        cluster.replace(&self.before.borrow(), &mut plan);
        plan.set_pods(match number % 4 {
            1 => PodDetection::InterfacePrefix("to-pod-".parse().unwrap()),
            3 => PodDetection::Interface("to-pod-a".parse().unwrap()),
            _ => by_range(),
        });
        self.before.replace(cluster.clone());
        let mut dataplane = self.dataplane.borrow_mut();
        let changes = plan.take_changes();
        let node = self.world.node();
        if number % 3 == 2 {
            *dataplane = node.enter(self.mode.open).unwrap();
        }
        let (plan, dataplane) = (&*plan, &mut *dataplane);
        let (applied, drift, fault): (Applied, usize, Option<String>) = node.enter(move || {
            let applied = dataplane.apply(plan, &changes).unwrap();
            write_elsewhere();
            let drift = dataplane.repair(plan).unwrap();
            (applied, drift, dataplane.fault().map(str::to_owned))
        });
        node.enter(forget_datagram_flows);
        assert_eq!(fault, None);
        assert_eq!(applied.skipped, [], "the kernel refuses Services");
        assert_eq!(drift, 0, "drift right after a change");
    }
}

/// Connections of one client.
#[derive(Clone, Copy)]
struct Probes<'a> {
    mode: Mode,
    node: &'a Member,
    followed: &'a Followed,
    plan: &'a Plan,
    client: &'a Member,
    port: &'a AtomicU16,
}

impl Probes<'_> {
    /// Connects sequentially, as affinity requires. Connections without a reply wait concurrently.
    fn run(&self, traces: &Traces) {
        thread::scope(|scope| {
            for address in SERVICE_IPS.iter().copied().chain(["172.30.0.11", "fd00:30::11"]) {
                let address: IpAddr = address.parse().unwrap();
                let is_node = self.plan.settings().node_addresses.contains(&address);
                if self.plan.settings().answers_ping && !is_node {
                    let source = self.source_towards(address);
                    scope.spawn(move || ping::assert_echo(self.plan, self.client, source, address));
                }
                let ports: &[u16] = if is_node { &NODE_PORTS } else { &SERVICE_PORTS };
                for port in ports.iter().copied() {
                    for protocol in [Protocol::Tcp, Protocol::Udp] {
                        let packet = Packet {
                            source: self.source_towards(address),
                            destination: address,
                            port,
                            protocol,
                            interface: self.client.near_interface(),
                        };
                        let verdict = self.plan.decide(&packet).verdict;
                        if verdict == Verdict::NotAService {
                            continue;
                        }
                        let stated = traces.of_packet(self.client, &packet);
                        match verdict {
                            Verdict::NoLocalEndpoints | Verdict::OutOfSourceRanges | Verdict::Unallocated => {
                                assert_eq!(stated.verdict, explain::trace::Verdict::Dropped, "{stated:#?}");
                                scope.spawn(move || {
                                    assert_eq!(
                                        self.request(&packet, false, &stated),
                                        Outcome::NoResponse,
                                        "{}",
                                        self.say(&packet)
                                    );
                                });
                            }
                            _ => self.probe(&packet, &stated),
                        }
                    }
                }
            }
        });
    }

    fn probe(&self, packet: &Packet, stated: &Trace) {
        let subject = self.say(packet);
        let verdict = self.plan.decide(packet).verdict;
        let Verdict::Balanced {
            choices,
            affinity_seconds,
            ..
        } = verdict
        else {
            assert_eq!(self.request(packet, true, stated), Outcome::Refused, "{subject}");
            assert_eq!(stated.verdict, explain::trace::Verdict::Refused, "{stated:#?}");
            return;
        };
        let tries = if affinity_seconds.is_some() {
            STICKY_TRIES
        } else {
            1
        };
        let mut chosen = Vec::new();
        for _ in 0..tries {
            let outcome = self.request(packet, true, stated);
            let Outcome::Answered { by, source, .. } = outcome else {
                panic!("{subject}: {outcome:?}");
            };
            let choice = choices.iter().find(|choice| choice.address == by);
            let choice = choice.unwrap_or_else(|| panic!("{subject}: went to {by}"));
            traces::assert_endpoint(stated, by, choice.masquerade, choices.len());
            // Masqueraded connections of the node itself may keep their address.
            let is_visible = !World::node_addresses().contains(&packet.source);
            // Rules masquerade a Pod whose endpoint is itself, and a Pod that is not detected. Both keep their address
            // if they get their endpoint when they connect.
            let may_be_direct = self.mode.chooses_at_connect && packet.protocol == Protocol::Tcp;
            let is_undetected =
                self.client.name != "outside" && self.plan.decide(packet).origin == Origin::Outside;
            let may_keep_source = may_be_direct && (by.ip() == packet.source || is_undetected);
            let keeps_source = self.mode.keeps_source || self.is_of_port_range(packet);
            assert!(
                (source != packet.source) == (choice.masquerade || !keeps_source)
                    || !is_visible
                    || may_keep_source,
                "{subject}: {by} was asked from {source}"
            );
            chosen.push(by);
        }
        chosen.dedup();
        assert_eq!(chosen.len(), 1, "{subject}: no affinity: {chosen:?}");
    }

    /// Returns the source address of connections. The address of a virtual server belongs to the node, and clients on
    /// the node have it as their source. The rules handle it as an address of the node.
    fn source_towards(&self, address: IpAddr) -> IpAddr {
        if self.mode.has_virtual_servers && self.client.name == "node" {
            let [v4, v6] = self.client.addresses;
            if address.is_ipv4() { v4 } else { v6 }
        } else {
            self.client.source_towards(address)
        }
    }

    fn is_of_port_range(&self, packet: &Packet) -> bool {
        let destination = SocketAddr::new(packet.destination, packet.port);
        let found = self.plan.frontend_at(packet.protocol, destination);
        found.is_some_and(|(port, _)| port.is_range)
    }

    fn say(&self, packet: &Packet) -> String {
        let Packet {
            destination,
            port,
            protocol,
            ..
        } = packet;
        let decision = self.plan.decide(packet);
        format!(
            "{} to {destination} port {port}/{}: {decision}",
            self.client.name,
            protocol.as_str()
        )
    }

    fn request(&self, packet: &Packet, is_answer_due: bool, stated: &Trace) -> Outcome {
        let port = 20_000 + self.port.fetch_add(1, Ordering::Relaxed) % 10_000;
        let to = SocketAddr::new(packet.destination, packet.port);
        let client = self.client.open(packet.protocol, packet.destination, port);
        let source = SocketAddr::new(packet.source, client.port());
        // Connection tracking does not see the frontend of a connection whose endpoint was chosen before its first packet.
        let may_be_direct = self.mode.chooses_at_connect && packet.protocol == Protocol::Tcp;
        let has_other_source = self.mode.has_virtual_servers && self.client.name == "node";
        let turn = if may_be_direct || has_other_source {
            None
        } else {
            self.followed.turn(packet, source)
        };
        let outcome = client.request(to, is_answer_due);
        if let Some(turn) = turn {
            turn.compare(self.node, stated, packet, source, &outcome);
        }
        outcome
    }
}

/// Client ports are reused after some clusters, so earlier flows have to be deleted.
fn forget_datagram_flows() {
    let mut conntrack = Conntrack::open().unwrap();
    for family in [Family::V4, Family::V6] {
        let flows = conntrack.flows(family, Protocol::Udp.number(), |_| true);
        for flow in flows.unwrap() {
            conntrack.delete(&flow).unwrap();
        }
    }
}

/// Changes a foreign table, so that the data plane verifies everything.
fn write_elsewhere() {
    let mut batch = Batch::new("other", None);
    let table = Table {
        name: "other".to_owned(),
        comment: String::new(),
        is_dormant: false,
    };
    batch.table(Change::Add, &table, 0);
    Nftables::open().unwrap().commit(batch).unwrap();
}

fn by_range() -> PodDetection {
    PodDetection::Ranges(nets(["10.244.0.0/16", "fd00:244::/32"]))
}

fn nets(texts: [&str; 2]) -> Vec<ipnet::IpNet> {
    texts.map(|text| text.parse().unwrap()).to_vec()
}
