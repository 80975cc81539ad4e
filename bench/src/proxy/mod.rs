//! Time in which the proxy applies Services and changes, and its memory and CPU.

pub(crate) mod changes;
mod cold_start;
mod resync;
mod sustained;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use client::Client;
use ipnet::IpNet;
use netlink::route::Connection;
use testbed::Member;

use crate::Failure;
use crate::environment::{Environment, TIMEOUT, run_enclosed};
use crate::fixtures;
use crate::process::portolan;
use cold_start::{Start, VirtualServers};

/// Port of the backends.
const BACKEND_PORT: u16 = 8080;
/// Timeout of a connection before the Service is applied.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(20);
/// Pause between attempts; without it the client would take CPU time from the measured proxy.
const PAUSE: Duration = Duration::from_micros(100);

/// Flags of `bench proxy`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of further Services
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Number of endpoints per Service
    #[arg(long, default_value_t = 10)]
    endpoints: usize,
    /// Number of replacements of an endpoint
    #[arg(long, default_value_t = 1_000)]
    changes: usize,
    /// Number of harmless nftables changes by another program, for each of two kinds; mode nftables only
    #[arg(long, default_value_t = 0)]
    resyncs: u32,
    /// Measure this proxy instead of Portolan: command for `sh` with {kubeconfig} and {node}. Begin it with exec, so
    /// that memory and CPU are those of the proxy
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    #[command(flatten)]
    cold_start: cold_start::Flags,
    #[command(flatten)]
    sustained: sustained::Flags,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed(false, |environment| {
        let outside = environment.cluster.outside()?;
        let backends = backends(outside)?;
        let service = environment.with_api(async || create(&environment, flags, backends[0]).await)?;
        println!(
            "{} Services x {} endpoints, and the measured one",
            flags.services, flags.endpoints
        );
        let node = environment
            .cluster
            .nodes()
            .next()
            .ok_or("the testbed has no node")?;
        let start = Start::now()?;
        let mut proxy = environment.start_component("proxy", node, command(flags, &environment, node)?)?;
        let expected = VirtualServers {
            servers: flags.services + 1,
            endpoints: flags.services * flags.endpoints + 1,
        };
        node.enter(|| cold_start::run(&flags.cold_start, service, backends[0], expected, start))??;
        proxy.must_run()?;
        println!(
            "resident memory after start: {:.1} MiB; CPU {:.2} s",
            proxy.resident_mib()?,
            proxy.cpu()?.as_secs_f64()
        );
        let timeout = flags.cold_start.timeout();
        changes::run(flags.changes, &environment, node, service, backends, timeout)?;
        sustained::run(
            &flags.sustained,
            flags.services,
            &environment,
            node,
            backends,
            &proxy,
        )?;
        resync::run(flags.resyncs, node, &proxy)?;
        proxy.must_run()?;
        println!("resident memory after changes: {:.1} MiB", proxy.resident_mib()?);
        Ok(())
    })
}

fn command(flags: &Flags, environment: &Environment, node: &Member) -> Result<Command, Failure> {
    let kubeconfig = environment.kubeconfig().display().to_string();
    if let Some(line) = &flags.command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(
            line.replace("{kubeconfig}", &kubeconfig)
                .replace("{node}", &node.plan.name),
        );
        return Ok(command);
    }
    let mut command = Command::new(portolan()?);
    let cidrs = environment
        .cluster
        .topology
        .cluster_cidrs
        .both()
        .map(|net| net.to_string())
        .join(",");
    command
        .arg("proxy")
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--hostname-override={}", node.plan.name))
        .arg(format!("--cluster-cidr={cidrs}"));
    Ok(command)
}

/// Starts two backends outside of the cluster, which send their address on each connection.
pub(crate) fn backends(outside: &Member) -> Result<[IpAddr; 2], Failure> {
    let backends = [Ipv4Addr::new(172, 30, 0, 201), Ipv4Addr::new(172, 30, 0, 202)].map(IpAddr::V4);
    outside.enter(|| -> Result<(), Failure> {
        let mut connection = Connection::open()?;
        let link = connection.link_index(&"eth0".parse()?)?;
        for address in backends {
            connection.add_address(link, IpNet::new(address, 24)?)?;
            let listener = TcpListener::bind((address, BACKEND_PORT))?;
            std::thread::spawn(move || serve(&listener, address));
        }
        Ok(())
    })??;
    Ok(backends)
}

fn serve(listener: &TcpListener, address: IpAddr) {
    for stream in listener.incoming().flatten() {
        let mut stream = stream;
        // The client closed the connection.
        drop(stream.write_all(address.to_string().as_bytes()));
    }
}

/// Creates the Nodes and the Services, the measured one last. Returns its address.
async fn create(environment: &Environment, flags: &Flags, backend: IpAddr) -> Result<SocketAddr, Failure> {
    let clients = (0..4)
        .map(|_| environment.client())
        .collect::<Result<Vec<Client>, _>>()?;
    for node in environment.cluster.nodes() {
        fixtures::create_node(&clients[0], &node.plan.name, &node.plan.address.both()).await?;
    }
    fixtures::create_services(&clients, flags.services, flags.endpoints).await?;
    let created = fixtures::post(&clients[0], &fixtures::service("zz-measured")).await?;
    fixtures::post(&clients[0], &fixtures::slice("zz-measured", &[backend])).await?;
    let ip: IpAddr = created["spec"]["clusterIP"]
        .as_str()
        .ok_or("no cluster IP")?
        .parse()?;
    Ok((ip, 80).into())
}

/// Connects until `backend` answers.
pub(crate) fn wait_for(service: SocketAddr, backend: IpAddr) -> Result<(), Failure> {
    wait_for_within(service, backend, TIMEOUT)
}

/// Connects until `backend` answers. Fails after `timeout`.
fn wait_for_within(service: SocketAddr, backend: IpAddr, timeout: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + timeout;
    let expected = backend.to_string();
    loop {
        if read_backend(service).is_ok_and(|answer| answer == expected) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{backend} does not respond at {service}").into());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Connects and reads the address of the backend.
fn read_backend(service: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&service, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
