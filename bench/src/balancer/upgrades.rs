//! Upgrades of the process that announces and serves an address: time without ARP replies, and connections of clients.

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, JSON};
use http::Method;
use serde_json::json;
use testbed::Member;
use testbed::arp_client::{ArpClient, EthernetAddress, ethernet_address_of};

use super::arp_client::REQUEST_PERIOD;
use super::moves::{PAUSE, RECOVERY_PAUSE, connect};
use super::{ADDRESS, command, load_balancer_service, prepare, wait_for_members};
use crate::Failure;
use crate::environment::{Environment, TIMEOUT, run_enclosed_with_nodes};
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::process::Measured;
use crate::proxy::{backends, wait_for};

/// Timeout of a connection; TCP retransmits a SYN after one second, then after two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Measurement time after the exit of the old process, in which its successor acquires everything.
const TAKEOVER_DURATION: Duration = Duration::from_secs(3);
/// Time in which a process reports to a connected successor.
const REPORT_PAUSE: Duration = Duration::from_millis(500);

/// Time from the first ARP request to the end of a process that is restarted.
const OBSERVATION_PAUSE: Duration = Duration::from_millis(500);

/// Flags of `bench upgrades`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of nodes
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Number of upgrades of the owner
    #[arg(long, default_value_t = 20)]
    upgrades: usize,
    /// Add a TLS port, whose certificate the edge reads first
    #[arg(long)]
    tls: bool,
    /// Kill each process while its successor waits for its exit; for a single node
    #[arg(long)]
    killed: bool,
    /// Start each successor after the end of its predecessor, by SIGTERM or, with --killed, by SIGKILL
    #[arg(long)]
    restarted: bool,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed_with_nodes(flags.nodes, false, |environment| {
        let outside = environment.cluster.outside()?;
        let backends = backends(outside)?;
        environment.with_api(async || prepare(&environment.client()?, flags.nodes).await)?;
        let mut assigner = command(&environment)?;
        assigner.args(["--leader-elect=false", "--serve-edge-class=true"]);
        let _assigner =
            environment.start_component("assigner", environment.cluster.control_plane()?, assigner)?;
        let mut nodes = Vec::new();
        for member in environment.cluster.nodes() {
            nodes.push(Node::start(&environment, member)?);
        }
        environment
            .with_api(async || create_service(&environment.client()?, backends[0], flags.tls).await)?;
        let service: SocketAddr = (ADDRESS, 80).into();
        outside.enter(|| wait_for(service, backends[0]))??;
        environment.with_api(async || wait_for_members(&environment.client()?, flags.nodes).await)?;
        let mut total = Observations::default();
        for number in 0..flags.upgrades {
            std::thread::sleep(RECOVERY_PAUSE);
            let observations = upgrade(&environment, &mut nodes, service, flags)?;
            observations.print(number);
            total.add(observations);
        }
        total.print_all(flags.nodes)
    })
}

/// Creates the measured Service.
async fn create_service(client: &Client, backend: std::net::IpAddr, tls: bool) -> Result<(), Failure> {
    let name = "zz-measured";
    let mut service = load_balancer_service(name, "portolan.dev/load-balancer-ips", &ADDRESS.to_string());
    service["spec"]["loadBalancerClass"] = "portolan.dev/edge".into();
    if tls {
        let pair = rcgen::generate_simple_self_signed(vec!["www.example.com".to_owned()])?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "measured"}, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": pair.cert.pem(), "tls.key": pair.signing_key.serialize_pem()},
        });
        let secrets = "/api/v1/namespaces/default/secrets";
        client.request(Method::POST, secrets, JSON, Some(&secret)).await?;
        let aws = |name: &str| format!("service.beta.kubernetes.io/aws-load-balancer-{name}");
        service["metadata"]["annotations"][aws("ssl-cert")] = "measured".into();
        service["metadata"]["annotations"][aws("ssl-ports")] = "443".into();
        service["spec"]["ports"]
            .as_array_mut()
            .ok_or("Service without ports")?
            .push(json!({"name": "https", "port": 443, "targetPort": 8080}));
    }
    fixtures::post(client, &service).await?;
    fixtures::post(client, &fixtures::slice(name, &[backend])).await?;
    Ok(())
}

/// Node with the process that announces and serves.
struct Node {
    name: String,
    hardware: EthernetAddress,
    process: Measured,
}

impl Node {
    fn start(environment: &Environment, member: &Member) -> Result<Self, Failure> {
        Ok(Self {
            name: member.plan.name.clone(),
            hardware: ethernet_address_of(member)?,
            process: start(environment, member)?,
        })
    }
}

fn start(environment: &Environment, member: &Member) -> Result<Measured, Failure> {
    let name = &member.plan.name;
    let mut process: Command = command(environment)?;
    let socket = environment.directory.join(format!("{name}.sock"));
    process
        .args(["--assign=false", "--announce", "--edge", "--edge-threads=1"])
        .arg("--metrics-bind-address=")
        .arg(format!("--edge-handover-socket={}", socket.display()))
        .arg(format!("--node-name={name}"));
    environment.start_component(&format!("node-{name}"), member, process)
}

/// Waits until the announcer of a successor is connected to the one before it on a node, and until that one has
/// reported.
fn wait_for_report(member: &Member) -> Result<(), Failure> {
    let deadline = Instant::now() + TIMEOUT;
    let is_connected = || {
        // The column before the last two is the state; 03 is a connection (`SS_CONNECTED`).
        std::fs::read_to_string("/proc/thread-self/net/unix").is_ok_and(|sockets| {
            sockets.lines().any(|line| {
                line.contains("@portolan-announcer/") && line.ends_with("/votes") && line.contains(" 03 ")
            })
        })
    };
    while !member.enter(is_connected)? {
        if Instant::now() > deadline {
            return Err("no successor waits for the process".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(REPORT_PAUSE);
    Ok(())
}

/// Replaces the process of the owner. Returns the observations from shortly before to [`TAKEOVER_DURATION`] after.
fn upgrade(
    environment: &Environment,
    nodes: &mut [Node],
    service: SocketAddr,
    flags: &Flags,
) -> Result<Observations, Failure> {
    let outside = environment.cluster.outside()?;
    let arp_client = ArpClient::new(outside)?;
    let owner = owner_index(&arp_client, nodes)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let requests = scope.spawn(|| observe(&arp_client, &is_over));
        let client = scope.spawn(|| outside.enter(|| connect_until(service, &is_over)));
        let mut replace = || -> Result<(), Failure> {
            let node = &mut nodes[owner];
            let member = environment.cluster.member(&node.name)?;
            if flags.restarted {
                restart(environment, member, node, flags.killed)?;
            } else {
                hand_over(environment, member, node, flags.killed)?;
            }
            std::thread::sleep(TAKEOVER_DURATION);
            node.process.must_run()
        };
        let outcome = replace();
        is_over.store(true, Ordering::Release);
        let mut observations = requests.join().map_err(|_| "the ARP client panicked")??;
        (observations.connections, observations.failed) =
            client.join().map_err(|_| "the client panicked")??;
        outcome.map(|()| observations)
    })
}

/// Starts a second process on a node, which takes over from the present one.
fn hand_over(
    environment: &Environment,
    member: &Member,
    node: &mut Node,
    is_killed: bool,
) -> Result<(), Failure> {
    let successor = start(environment, member)?;
    let mut predecessor = std::mem::replace(&mut node.process, successor);
    if is_killed {
        wait_for_report(member)?;
        predecessor.kill();
    }
    let deadline = Instant::now() + TIMEOUT;
    while predecessor.must_run().is_ok() {
        if Instant::now() > deadline {
            return Err("the process has not been replaced".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Ends the process of a node, then starts another one.
fn restart(
    environment: &Environment,
    member: &Member,
    node: &mut Node,
    is_killed: bool,
) -> Result<(), Failure> {
    // The ARP client has replies of this process.
    std::thread::sleep(OBSERVATION_PAUSE);
    if is_killed {
        node.process.kill();
    } else {
        node.process.terminate()?;
    }
    node.process = start(environment, member)?;
    Ok(())
}

/// Index of the node that replies for the address.
fn owner_index(arp_client: &ArpClient, nodes: &[Node]) -> Result<usize, Failure> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        arp_client.send_request(ADDRESS)?;
        std::thread::sleep(REQUEST_PERIOD);
        if let Some(owner) = arp_client.claimants_of(ADDRESS)?.pop() {
            let index = nodes.iter().position(|node| node.hardware == owner);
            return Ok(index.ok_or("no node of the testbed replies for the address")?);
        }
    }
    Err("no reply for the address".into())
}

/// Sends ARP requests until `is_over`.
fn observe(arp_client: &ArpClient, is_over: &AtomicBool) -> Result<Observations, Failure> {
    let mut gap = Duration::ZERO;
    let mut moves = 0;
    let mut last: Option<(Instant, EthernetAddress)> = None;
    while !is_over.load(Ordering::Acquire) {
        arp_client.send_request(ADDRESS)?;
        std::thread::sleep(REQUEST_PERIOD);
        for owner in arp_client.claimants_of(ADDRESS)? {
            let now = Instant::now();
            if let Some((at, before)) = last.replace((now, owner)) {
                gap = gap.max(now - at);
                moves += usize::from(before != owner);
            }
        }
    }
    if let Some((at, _)) = last {
        gap = gap.max(at.elapsed());
    }
    Ok(Observations {
        gaps: vec![gap],
        moves,
        ..Observations::default()
    })
}

/// Opens connections until `is_over`. Returns their durations and the number of failures.
fn connect_until(service: SocketAddr, is_over: &AtomicBool) -> (Vec<Duration>, usize) {
    let (mut connections, mut failed) = (Vec::new(), 0);
    while !is_over.load(Ordering::Acquire) {
        let begin = Instant::now();
        failed += usize::from(connect(service, CONNECT_TIMEOUT).is_err());
        connections.push(begin.elapsed());
        std::thread::sleep(PAUSE);
    }
    (connections, failed)
}

/// Observations during upgrades.
#[derive(Default)]
struct Observations {
    /// Longest time without an ARP reply, for each upgrade.
    gaps: Vec<Duration>,
    /// Number of changes of the owner.
    moves: usize,
    connections: Vec<Duration>,
    failed: usize,
}

impl Observations {
    fn add(&mut self, other: Self) {
        self.gaps.extend(other.gaps);
        self.moves += other.moves;
        self.connections.extend(other.connections);
        self.failed += other.failed;
    }

    fn print(&self, number: usize) {
        let longest =
            |durations: &[Duration]| durations.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3;
        println!(
            "upgrade {number}: no ARP reply for {:.1} ms, {} moves; {} connections, {} failed, max {:.1} ms",
            longest(&self.gaps),
            self.moves,
            self.connections.len(),
            self.failed,
            longest(&self.connections)
        );
    }

    fn print_all(self, nodes: usize) -> Result<(), Failure> {
        let (times, count) = (self.gaps.len(), self.connections.len());
        let gaps = Percentiles::of(self.gaps).ok_or("no measurement")?;
        println!(
            "{nodes} nodes, process of the owner replaced {times} times: longest time without ARP reply p50 {:.1} ms, p99 {:.1} ms, max \
             {:.1} ms; {} moves of the address",
            gaps.milliseconds(50),
            gaps.milliseconds(99),
            gaps.milliseconds(100),
            self.moves
        );
        let connections = Percentiles::of(self.connections).ok_or("no measurement")?;
        println!(
            "{count} connections, {} failed: p50 {:.2} ms, p99 {:.2} ms, max {:.1} ms",
            self.failed,
            connections.milliseconds(50),
            connections.milliseconds(99),
            connections.milliseconds(100)
        );
        Ok(())
    }
}
