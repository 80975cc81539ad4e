//! Connections that break when nodes are added, removed and killed behind a router with equal-cost paths, with two-tier
//! forwarding and without it. The two Services have the same endpoints and see the same changes in the same run.

mod clients;
mod connections;
mod endpoints;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, getrlimit};

use crate::Failure;
use crate::environment::run_enclosed_with_nodes;
use clients::Clients;
use connections::Checked;
use world::{ENDPOINTS_AT_START, World};

pub(crate) use clients::Flags as ClientFlags;
pub(crate) use clients::run as run_client;
pub(crate) use endpoints::Flags as EndpointFlags;
pub(crate) use endpoints::run as run_endpoint;

/// Nodes of the testbed.
const NODES: usize = 8;
/// Index of the node that receives packets and has an endpoint from the first change on.
const ADDED: usize = 7;
/// Index of the node that is drained and receives no packets from the second change on.
const REMOVED: usize = 0;
/// Index of the node that is killed together with its link.
const KILLED: usize = 1;
/// Pause before connections are opened, and between changes, in which all nodes apply the last change.
const APPLY_PAUSE: Duration = Duration::from_secs(3);
/// Smallest limit of open files: this process has descriptors of namespaces, logs and processes.
const OPEN_FILES_MIN: u64 = 1_024;
/// Descriptors of a client or endpoint besides its connections.
const DESCRIPTORS_OTHER: u64 = 64;
/// Maximum number of connections of an endpoint for which its processes have descriptors, relative to an even share.
const SHARE_MAX: usize = 2;
/// Further connections of an endpoint: shares of few connections vary more.
const SHARE_RESERVE: usize = 100;
/// Port of the Services.
const SERVICE_PORT: u16 = 80;

/// Flags of `bench two-tier`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of open connections to each of the two Services; one client address has 28,000 ports
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(1..=25_000))]
    connections: u16,
    /// `externalTrafficPolicy` of the Service without two-tier forwarding
    #[arg(long, default_value = "Cluster", value_parser = ["Cluster", "Local"])]
    policy: String,
}

/// A measured Service.
#[derive(Clone, Copy, Debug)]
struct MeasuredService {
    name: &'static str,
    address: Ipv4Addr,
    is_two_tier: bool,
}

const SERVICES: [MeasuredService; 2] = [
    MeasuredService {
        name: "two-tier",
        address: Ipv4Addr::new(203, 0, 113, 5),
        is_two_tier: true,
    },
    MeasuredService {
        name: "plain",
        address: Ipv4Addr::new(203, 0, 113, 6),
        is_two_tier: false,
    },
];

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let count = usize::from(flags.connections);
    let per_process = connections_per_process(getrlimit(Resource::Nofile).maximum)?;
    run_enclosed_with_nodes(NODES, false, |environment| {
        eprintln!("starting {NODES} proxies");
        let mut world = World::start(
            environment,
            &flags.policy,
            processes_of_endpoint(count, per_process),
        )?;
        for service in SERVICES {
            eprintln!("{}: waiting until all nodes serve it", service.name);
            world.in_client(|| connections::wait_for(address_of(service)))?;
        }
        std::thread::sleep(APPLY_PAUSE);
        let mut open = Vec::with_capacity(SERVICES.len());
        for service in SERVICES {
            eprintln!("{}: opening {count} connections", service.name);
            let clients = Clients::start(&world.client, address_of(service), count, per_process)?;
            print_shares(service, clients.by_endpoint());
            open.push(clients);
        }
        let mut lost = [0; SERVICES.len()];
        world.add(ADDED)?;
        examine("a node is added", &world, &mut open, &mut lost)?;
        world.remove(REMOVED)?;
        examine("a node is removed", &world, &mut open, &mut lost)?;
        world.kill(KILLED)?;
        examine("a node is killed", &world, &mut open, &mut lost)?;
        let [two_tier, plain] = lost;
        println!(
            "lost connections whose endpoint lived, of {count}: two-tier {two_tier}, plain {plain}; {:.4} x plain",
            two_tier as f64 / plain.max(1) as f64
        );
        world.must_run()
    })
}

/// Returns the number of connections that a process may hold open. Without a limit of open files, it holds all.
fn connections_per_process(open_files_max: Option<u64>) -> Result<usize, Failure> {
    match open_files_max {
        None => Ok(usize::MAX),
        Some(limit) if limit < OPEN_FILES_MIN => Err(format!(
            "expected a limit of at least {OPEN_FILES_MIN} open files, found {limit}: raise `ulimit -Hn`"
        )
        .into()),
        Some(limit) => Ok(usize::try_from(limit - DESCRIPTORS_OTHER)?),
    }
}

/// Returns the number of processes of each endpoint, with this number of connections to each Service.
fn processes_of_endpoint(connections: usize, per_process: usize) -> usize {
    let even = (connections * SERVICES.len()).div_ceil(ENDPOINTS_AT_START);
    (even * SHARE_MAX + SHARE_RESERVE).div_ceil(per_process)
}

fn address_of(service: MeasuredService) -> SocketAddr {
    (service.address, SERVICE_PORT).into()
}

/// Checks all open connections after a change, and waits until all nodes have applied it.
fn examine(
    change: &str,
    world: &World,
    open: &mut [Clients],
    lost: &mut [usize; SERVICES.len()],
) -> Result<(), Failure> {
    for ((service, clients), lost) in SERVICES.iter().zip(open).zip(lost) {
        eprintln!("{}: exchanging on all connections, {change}", service.name);
        let Checked {
            examined,
            lost: now_lost,
        } = clients.check(&world.living())?;
        *lost += now_lost;
        println!(
            "{}, {change}: {now_lost} of {examined} connections lost whose endpoint lives",
            service.name
        );
    }
    std::thread::sleep(APPLY_PAUSE);
    Ok(())
}

/// Prints the smallest and the largest share of an endpoint.
fn print_shares(service: MeasuredService, counts: &[usize]) {
    let even = counts.iter().sum::<usize>() as f64 / ENDPOINTS_AT_START as f64;
    let percent = |count: Option<&usize>| count.map_or(0.0, |count| *count as f64 * 100.0 / even);
    println!(
        "{}: share of each of {ENDPOINTS_AT_START} endpoints: {:.1} % to {:.1} % of an even one",
        service.name,
        percent(counts.iter().min()),
        percent(counts.iter().max()),
    );
}

#[cfg(test)]
mod tests;
