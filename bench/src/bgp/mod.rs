//! Time to announce load balancer IPs by BGP, until an UPDATE arrives at a peer and until a router has the route. Time to
//! move traffic from a failed node by BFD, and to announce many addresses to two routers.

mod bird;
mod frr;
mod gobgp;
mod observer;
mod router;

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, JSON};
use http::Method;
use netlink::route::{Action, Connection};
use serde_json::{Value, json};
use testbed::Member;

use crate::Failure;
use crate::balancer::{command, create_further_services, load_balancer_service, prepare, set_link};
use crate::environment::{Environment, TIMEOUT, run_enclosed_with_nodes};
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::process::Measured;
use observer::Observer;
use router::{Program, Router};

/// Nodes of the testbed.
const NODES: usize = 2;
/// Autonomous system of the nodes.
const NODES_SYSTEM: u32 = 64_512;
/// Autonomous system of the routers.
const ROUTER_SYSTEM: u32 = 64_513;
/// Interval between two reads of the routes of the kernel.
const POLL_PERIOD: Duration = Duration::from_micros(200);
/// Pause before a kill, in which the router selects its routes.
const RECOVERY_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a lost session. GoBGP accepts no further one for 5 s.
const RESET_PAUSE: Duration = Duration::from_secs(6);

/// Path of the BGPPeers.
const PEERS: &str = "/apis/portolan.dev/v1alpha1/bgppeers";
/// Name of the BGPPeer of the observer.
const OBSERVER: &str = "observer";

/// Flags of `bench bgp`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of Services for the time until a route is installed
    #[arg(long, default_value_t = 200)]
    assignments: u8,
    /// Number of kills of the node of the best route together with its link
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// Number of further Services for the time until all routes are announced
    #[arg(long, default_value_t = 1_000)]
    services: usize,
    /// Program of the routers
    #[arg(long, value_enum, default_value = "bird")]
    router: Program,
}

impl Flags {
    /// Routes of the measured Services, with the one that precedes them.
    fn measured_routes(&self) -> usize {
        if self.router.forwards() {
            usize::from(self.assignments) + 1
        } else {
            1
        }
    }
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    flags.router.require()?;
    run_enclosed_with_nodes(NODES, false, |environment| {
        environment.with_api(async || {
            let client = environment.client()?;
            prepare(&client, NODES).await?;
            create_configuration(&client).await
        })?;
        let control_plane = environment.cluster.control_plane()?;
        let mut assigner = command(&environment)?;
        assigner.arg("--leader-elect=false");
        let _assigner = environment.start_component("assigner", control_plane, assigner)?;
        let outside = environment.cluster.outside()?;
        eprintln!("starting 2 routers and {NODES} speakers");
        let routers = [
            Router::start(&environment, flags.router, "router-1", outside, true)?,
            Router::start(&environment, flags.router, "router-2", control_plane, false)?,
        ];
        let mut speakers = Vec::new();
        for node in environment.cluster.nodes() {
            speakers.push(start_speaker(&environment, node)?);
        }
        if flags.router.forwards() {
            assign(flags.assignments, &environment)?;
            kill(flags, &environment, &routers[0], &mut speakers)?;
        } else {
            environment.with_api(async || create_first(&environment.client()?).await)?;
        }
        converge(flags, &environment, &routers, &mut speakers)
    })
}

/// Creates the routers, their BFDProfile, and the announcement of all pools.
async fn create_configuration(client: &Client) -> Result<(), Failure> {
    let own = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "portolan.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let peer = |name: &str, address: &str| {
        let spec = json!({"myASN": NODES_SYSTEM, "peerASN": ROUTER_SYSTEM, "peerAddress": address, "bfdProfile": "fast"});
        own("BGPPeer", name, spec)
    };
    let timers = json!({"receiveInterval": 50, "transmitInterval": 50, "detectMultiplier": 3});
    let objects = [
        ("bfdprofiles", own("BFDProfile", "fast", timers)),
        ("bgppeers", peer("router-1", "172.30.0.100")),
        ("bgppeers", peer("router-2", "172.30.0.2")),
        ("bgpadvertisements", own("BGPAdvertisement", "all", json!({}))),
    ];
    for (plural, object) in objects {
        let path = format!("/apis/portolan.dev/v1alpha1/{plural}");
        client.request(Method::POST, &path, JSON, Some(&object)).await?;
    }
    Ok(())
}

fn start_speaker(environment: &Environment, member: &Member) -> Result<Measured, Failure> {
    let mut speaker = command(environment)?;
    speaker
        .args(["--assign=false", "--bgp", "--metallb-namespace="])
        .arg(format!("--node-name={}", member.plan.name));
    environment.start_component(&format!("speaker-{}", member.plan.name), member, speaker)
}

/// Address of a measured Service.
fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 200, 15, number)
}

/// Creates the Service that precedes the measured ones.
async fn create_first(client: &Client) -> Result<(), Failure> {
    let name = "a-0";
    fixtures::post(client, &fixtures::slice(name, &[fixtures::unused_address(0)])).await?;
    let service = load_balancer_service(name, "portolan.dev/load-balancer-ips", &address(0).to_string());
    fixtures::post(client, &service).await?;
    Ok(())
}

/// Times from the creation of a Service.
struct Announcement {
    /// Until the first UPDATE with the address arrives at a peer.
    sent: Duration,
    /// Until the route is in the kernel of the router.
    installed: Duration,
}

/// Creates Services one after the other, and waits for the route of each at a peer and in the kernel of the router.
fn assign(count: u8, environment: &Environment) -> Result<(), Failure> {
    let outside = environment.cluster.outside()?;
    let observer = Observer::start(outside)?;
    let mut kernel = Connection::open_in(&outside.namespace)?;
    let announcements = environment.with_api(async move || {
        let client = environment.client()?;
        create_observer(&client).await?;
        let mut announcements = Vec::new();
        // The sessions are established with the first Service.
        for number in 0..=count {
            let announcement = announce(&client, number, &observer, &mut kernel).await?;
            if number > 0 {
                announcements.push(announcement);
            }
        }
        // The further measurements have two peers.
        let path = format!("{PEERS}/{OBSERVER}");
        client.request(Method::DELETE, &path, JSON, None).await?;
        Ok(announcements)
    })?;
    let print = |subject: &str, duration: fn(&Announcement) -> Duration| {
        if let Some(durations) = Percentiles::of(announcements.iter().map(duration).collect()) {
            println!(
                "{subject}, {count} Services: p50 {:.2} ms, p99 {:.2} ms",
                durations.milliseconds(50),
                durations.milliseconds(99),
            );
        }
    };
    print(
        "Service created until the first UPDATE with its address arrives at a peer",
        |announcement| announcement.sent,
    );
    print(
        "Service created until the route to its address is installed",
        |announcement| announcement.installed,
    );
    print(
        "first UPDATE at a peer until the route is installed",
        |announcement| announcement.installed.saturating_sub(announcement.sent),
    );
    Ok(())
}

/// Creates the BGPPeer of the observer.
async fn create_observer(client: &Client) -> Result<(), Failure> {
    let object = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "BGPPeer", "metadata": {"name": OBSERVER},
        "spec": {"myASN": NODES_SYSTEM, "peerASN": ROUTER_SYSTEM, "peerAddress": observer::ADDRESS.to_string(),
                 "peerPort": observer::PORT},
    });
    client.request(Method::POST, PEERS, JSON, Some(&object)).await?;
    Ok(())
}

/// Creates a Service, and waits for the route to its address.
async fn announce(
    client: &Client,
    number: u8,
    observer: &Observer,
    kernel: &mut Connection,
) -> Result<Announcement, Failure> {
    let (name, address) = (format!("a-{number}"), address(number));
    let slice = fixtures::slice(&name, &[fixtures::unused_address(number.into())]);
    fixtures::post(client, &slice).await?;
    let service = load_balancer_service(&name, "portolan.dev/load-balancer-ips", &address.to_string());
    let start = Instant::now();
    fixtures::post(client, &service).await?;
    let mut installed = None;
    loop {
        if installed.is_none() && gateway(kernel, address)?.is_some() {
            installed = Some(start.elapsed());
        }
        if let (Some(installed), Some(arrival)) = (installed, observer.arrival(address)) {
            let sent = arrival.saturating_duration_since(start);
            return Ok(Announcement { sent, installed });
        }
        if start.elapsed() > TIMEOUT {
            let missing = match observer.arrival(address) {
                Some(_) => "no route of the router",
                None => "no UPDATE at the observer with a route",
            };
            return Err(format!("{missing} to {address} after {} s", TIMEOUT.as_secs()).into());
        }
        tokio::time::sleep(POLL_PERIOD).await;
    }
}

/// Returns the gateway of the route to an address.
fn gateway(kernel: &mut Connection, address: Ipv4Addr) -> Result<Option<IpAddr>, Failure> {
    let routes = kernel.routes()?;
    let mut found = routes.iter().filter(|route| {
        route.destination.addr() == IpAddr::from(address) && route.destination.prefix_len() == 32
    });
    Ok(found.find_map(|route| match route.action {
        Action::Via { gateway, .. } | Action::ViaOnLink { gateway, .. } => Some(gateway),
        _ => None,
    }))
}

/// Waits until a condition about the gateway of the first address is true.
fn wait_for_gateway(
    kernel: &mut Connection,
    is_expected: impl Fn(Option<IpAddr>) -> bool,
) -> Result<(), Failure> {
    let deadline = Instant::now() + TIMEOUT;
    while !is_expected(gateway(kernel, address(0))?) {
        if Instant::now() > deadline {
            return Err(format!("the route to {} is not the expected one", address(0)).into());
        }
        std::thread::sleep(POLL_PERIOD);
    }
    Ok(())
}

/// Kills the node of the best route, and waits until the router uses the other one.
fn kill(
    flags: &Flags,
    environment: &Environment,
    router: &Router,
    speakers: &mut [Measured],
) -> Result<(), Failure> {
    let mut kernel = Connection::open_in(&environment.cluster.outside()?.namespace)?;
    let nodes: Vec<&Member> = environment.cluster.nodes().collect();
    let count = flags.kills;
    let mut gaps = Vec::new();
    for number in 1..=count {
        // The other node could be the one that was killed before.
        for node in 0..NODES {
            router.wait_for_routes(node, flags.measured_routes())?;
            router.wait_for_bfd(node)?;
        }
        std::thread::sleep(RECOVERY_PAUSE);
        eprintln!("kill {number} of {count}");
        let before = gateway(&mut kernel, address(0))?.ok_or("no route to the first address")?;
        let is_best = |node: &&Member| IpAddr::from(node.plan.address.ipv4) == before;
        let index = nodes.iter().position(is_best).ok_or("an unknown gateway")?;
        let start = Instant::now();
        set_link(environment, index, false)?;
        speakers[index].kill();
        wait_for_gateway(&mut kernel, |gateway| {
            gateway.is_some_and(|gateway| gateway != before)
        })?;
        gaps.push(start.elapsed());
        set_link(environment, index, true)?;
        speakers[index] = start_speaker(environment, nodes[index])?;
    }
    if let Some(gaps) = Percentiles::of(gaps) {
        println!(
            "node killed and its link down until the router uses the other node, {count} times: p50 {:.0} ms, p99 {:.0} ms",
            gaps.milliseconds(50),
            gaps.milliseconds(99),
        );
    }
    Ok(())
}

/// Starts a speaker with many Services, and waits until both routers have all routes.
fn converge(
    flags: &Flags,
    environment: &Environment,
    routers: &[Router; 2],
    speakers: &mut [Measured],
) -> Result<(), Failure> {
    eprintln!("creating {} further Services", flags.services);
    environment.with_api(async || create_further_services(environment, flags.services).await)?;
    let count = flags.services + flags.measured_routes();
    let node = environment.cluster.nodes().next().ok_or("no node")?;
    for router in routers {
        router.wait_for_routes(0, count)?;
    }
    speakers[0].kill();
    for router in routers {
        router.wait_for_routes(0, 0)?;
    }
    std::thread::sleep(RESET_PAUSE);
    let start = Instant::now();
    speakers[0] = start_speaker(environment, node)?;
    for router in routers {
        router.wait_for_routes(0, count)?;
    }
    println!(
        "speaker started until 2 routers have {count} routes: {:.0} ms, resident memory {:.1} MiB",
        start.elapsed().as_secs_f64() * 1_000.0,
        speakers[0].resident_mib()?
    );
    Ok(())
}
