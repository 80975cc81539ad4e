//! Addresses whose node's process is replaced by another one, as an upgrade does it: how long nobody says who has them, and
//! what clients notice.

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, JSON};
use http::Method;
use serde_json::json;
use testbed::Member;
use testbed::asker::{Asker, Hardware, hardware_of};

use super::asker::QUESTION_PERIOD;
use super::moves::{PAUSE, SETTLING, connect};
use super::{ADDRESS, balanced, command, members, prepare};
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::process::Measured;
use crate::proxy::{backends, wait_for};
use crate::setting::{PATIENCE, Setting, enclosed_with};
use crate::world;

/// How long a connection may take: TCP sends a lost packet again after a second, then after two.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long it is measured on after the process that was replaced has ended: what it gave up is taken by then.
const AFTERMATH: Duration = Duration::from_secs(3);

/// Flags of `bench upgrades`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Nodes of the testbed
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// How often the process is replaced that has the measured address
    #[arg(long, default_value_t = 20)]
    upgrades: usize,
    /// Whether the measured Service has a certificate as well, which its edge reads before it serves it
    #[arg(long)]
    tls: bool,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    enclosed_with(flags.nodes, false, |setting| {
        let outside = setting.cluster.outside()?;
        let backends = backends(outside)?;
        setting.with_api(async || prepare(&setting.client()?, flags.nodes).await)?;
        let mut assigner = command(&setting)?;
        assigner.args(["--leader-elect=false", "--serve-edge-class=true"]);
        let _assigner = setting.start_component("balancer", setting.cluster.control_plane()?, assigner)?;
        let mut nodes = Vec::new();
        for member in setting.cluster.nodes() {
            nodes.push(Node::start(&setting, member)?);
        }
        setting.with_api(async || serve(&setting.client()?, backends[0], flags.tls).await)?;
        let service: SocketAddr = (ADDRESS, 80).into();
        outside.enter(|| wait_for(service, backends[0]))??;
        setting.with_api(async || members(&setting.client()?, flags.nodes).await)?;
        let mut seen = Seen::default();
        for number in 0..flags.upgrades {
            std::thread::sleep(SETTLING);
            let of_one = upgrade(&setting, &mut nodes, service)?;
            of_one.tell(number);
            seen.add(of_one);
        }
        seen.tell_all(flags.nodes)
    })
}

/// The Service whose address is measured.
async fn serve(client: &Client, backend: std::net::IpAddr, tls: bool) -> Result<(), Failure> {
    let name = "zz-measured";
    let mut service = balanced(name, "portolan.dev/load-balancer-ips", &ADDRESS.to_string());
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
            .ok_or("a Service without ports")?
            .push(json!({"name": "https", "port": 443, "targetPort": 8080}));
    }
    world::post(client, &service).await?;
    world::post(client, &world::slice(name, &[backend])).await?;
    Ok(())
}

/// A node, and the process of it that announces and serves.
struct Node {
    name: String,
    hardware: Hardware,
    process: Measured,
}

impl Node {
    fn start(setting: &Setting, member: &Member) -> Result<Self, Failure> {
        Ok(Self {
            name: member.plan.name.clone(),
            hardware: hardware_of(member)?,
            process: start(setting, member)?,
        })
    }
}

fn start(setting: &Setting, member: &Member) -> Result<Measured, Failure> {
    let name = &member.plan.name;
    let mut process: Command = command(setting)?;
    let socket = setting.directory.join(format!("{name}.sock"));
    process
        .args(["--assign=false", "--announce", "--edge", "--edge-threads=1"])
        .arg("--metrics-bind-address=")
        .arg(format!("--edge-handover-socket={}", socket.display()))
        .arg(format!("--node-name={name}"));
    setting.start_component(&format!("node-{name}"), member, process)
}

/// Replaces the process that has the address; what was seen from just before until a while after.
fn upgrade(setting: &Setting, nodes: &mut [Node], service: SocketAddr) -> Result<Seen, Failure> {
    let outside = setting.cluster.outside()?;
    let asker = Asker::new(outside)?;
    let owner = owner(&asker, nodes)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(&asker, &is_over));
        let client = scope.spawn(|| outside.enter(|| connect_on(service, &is_over)));
        let mut replacing = || -> Result<(), Failure> {
            let node = &mut nodes[owner];
            let successor = start(setting, setting.cluster.member(&node.name)?)?;
            let mut predecessor = std::mem::replace(&mut node.process, successor);
            let deadline = Instant::now() + PATIENCE;
            while predecessor.must_run().is_ok() {
                if Instant::now() > deadline {
                    return Err("the process is not replaced".into());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(AFTERMATH);
            node.process.must_run()
        };
        let replaced = replacing();
        is_over.store(true, Ordering::Release);
        let mut seen = listener.join().map_err(|_| "the one who asks failed")??;
        (seen.connections, seen.failed) = client.join().map_err(|_| "the client failed")??;
        replaced.map(|()| seen)
    })
}

/// The place of the node that answers for the address.
fn owner(asker: &Asker, nodes: &[Node]) -> Result<usize, Failure> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        asker.ask(ADDRESS)?;
        std::thread::sleep(QUESTION_PERIOD);
        if let Some(owner) = asker.hear(ADDRESS)?.pop() {
            let place = nodes.iter().position(|node| node.hardware == owner);
            return Ok(place.ok_or("nobody of the testbed answers for the address")?);
        }
    }
    Err("nobody answers for the address".into())
}

/// Asks again and again who has the address.
fn listen(asker: &Asker, is_over: &AtomicBool) -> Result<Seen, Failure> {
    let mut silence = Duration::ZERO;
    let mut moves = 0;
    let mut last: Option<(Instant, Hardware)> = None;
    while !is_over.load(Ordering::Acquire) {
        asker.ask(ADDRESS)?;
        std::thread::sleep(QUESTION_PERIOD);
        for owner in asker.hear(ADDRESS)? {
            let now = Instant::now();
            if let Some((at, before)) = last.replace((now, owner)) {
                silence = silence.max(now - at);
                moves += usize::from(before != owner);
            }
        }
    }
    if let Some((at, _)) = last {
        silence = silence.max(at.elapsed());
    }
    Ok(Seen {
        silences: vec![silence],
        moves,
        ..Seen::default()
    })
}

/// Connects again and again: how long connections took, and how many failed.
fn connect_on(service: SocketAddr, is_over: &AtomicBool) -> (Vec<Duration>, usize) {
    let (mut connections, mut failed) = (Vec::new(), 0);
    while !is_over.load(Ordering::Acquire) {
        let begin = Instant::now();
        failed += usize::from(connect(service, CONNECT_PATIENCE).is_err());
        connections.push(begin.elapsed());
        std::thread::sleep(PAUSE);
    }
    (connections, failed)
}

/// What was seen while processes were replaced.
#[derive(Default)]
struct Seen {
    /// The longest time without an answer, of each time.
    silences: Vec<Duration>,
    /// How often another node than before said that it has the address.
    moves: usize,
    connections: Vec<Duration>,
    failed: usize,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.silences.extend(other.silences);
        self.moves += other.moves;
        self.connections.extend(other.connections);
        self.failed += other.failed;
    }

    fn tell(&self, number: usize) {
        let longest =
            |durations: &[Duration]| durations.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3;
        println!(
            "upgrade {number}: no answer for {:.1} ms, {} moves; {} connections, {} failed, the longest took {:.1} ms",
            longest(&self.silences),
            self.moves,
            self.connections.len(),
            self.failed,
            longest(&self.connections)
        );
    }

    fn tell_all(self, nodes: usize) -> Result<(), Failure> {
        let (times, count) = (self.silences.len(), self.connections.len());
        let silences = Percentiles::of(self.silences).ok_or("nothing was replaced")?;
        println!(
            "{nodes} nodes, the owner's process replaced {times} times: longest time without an answer to ARP p50 {:.1} ms, \
             p99 {:.1} ms, longest {:.1} ms; the address moved {} times",
            silences.milliseconds(50),
            silences.milliseconds(99),
            silences.milliseconds(100),
            self.moves
        );
        let connections = Percentiles::of(self.connections).ok_or("nobody connected")?;
        println!(
            "{count} connections meanwhile, {} failed: p50 {:.2} ms, p99 {:.2} ms, longest {:.1} ms",
            self.failed,
            connections.milliseconds(50),
            connections.milliseconds(99),
            connections.milliseconds(100)
        );
        Ok(())
    }
}
