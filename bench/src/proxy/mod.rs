//! How quickly the proxy brings Services into force, and what it takes for that.

pub mod changes;
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
use crate::process::portolan;
use crate::setting::{PATIENCE, Setting, enclosed};
use crate::world;

/// Port of the backends.
const BACKEND_PORT: u16 = 8080;
/// How long one connection may take while the Service is not there yet.
const TRY: Duration = Duration::from_millis(20);
/// Pause between two tries: whoever asks again at once takes the processor from who is measured.
const PAUSE: Duration = Duration::from_micros(100);

/// Flags of `bench proxy`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Services beside the measured one
    #[arg(long, default_value_t = 10_000)]
    services: usize,
    /// Endpoints of each
    #[arg(long, default_value_t = 10)]
    endpoints: usize,
    /// How often an endpoint is replaced
    #[arg(long, default_value_t = 1_000)]
    changes: usize,
    #[command(flatten)]
    sustained: sustained::Flags,
    /// How often somebody else writes to nftables and nothing is wrong, in each of two ways; Portolan in mode nftables
    /// only
    #[arg(long, default_value_t = 0)]
    resyncs: u32,
    /// Another proxy that is measured in the place of Portolan's: a command line for `sh`, in which
    /// {kubeconfig} and {node} are replaced
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    enclosed(false, |setting| {
        let outside = setting.cluster.outside()?;
        let backends = backends(outside)?;
        let service = setting.with_api(async || load(&setting, flags, backends[0]).await)?;
        println!(
            "{} Services x {} endpoints, and the measured one",
            flags.services, flags.endpoints
        );
        let node = setting.cluster.nodes().next().ok_or("the testbed has no node")?;
        let started = Instant::now();
        let mut proxy = setting.start_component("the proxy", node, command(flags, &setting, node)?)?;
        node.enter(|| wait_for(service, backends[0]))??;
        println!(
            "cold start: last Service answers {:.3} s after exec",
            started.elapsed().as_secs_f64()
        );
        proxy.must_run()?;
        println!(
            "resident memory after start: {:.1} MiB; CPU {:.2} s",
            proxy.resident_mib()?,
            proxy.cpu()?.as_secs_f64()
        );
        changes::run(flags.changes, &setting, node, service, backends)?;
        sustained::run(&flags.sustained, flags.services, &setting, node, backends, &proxy)?;
        resync::run(flags.resyncs, node, &proxy)?;
        proxy.must_run()?;
        println!("resident memory after changes: {:.1} MiB", proxy.resident_mib()?);
        Ok(())
    })
}

fn command(flags: &Flags, setting: &Setting, node: &Member) -> Result<Command, Failure> {
    let kubeconfig = setting.kubeconfig().display().to_string();
    if let Some(line) = &flags.command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(
            line.replace("{kubeconfig}", &kubeconfig)
                .replace("{node}", &node.plan.name),
        );
        return Ok(command);
    }
    let mut command = Command::new(portolan()?);
    let cidrs = setting
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

/// Two backends outside, which answer each connection with their own address.
pub fn backends(outside: &Member) -> Result<[IpAddr; 2], Failure> {
    let backends = [Ipv4Addr::new(172, 30, 0, 201), Ipv4Addr::new(172, 30, 0, 202)].map(IpAddr::V4);
    outside.enter(|| -> Result<(), Failure> {
        let mut connection = Connection::open()?;
        let link = connection.link_index(&"eth0".parse()?)?;
        for address in backends {
            connection.add_address(link, IpNet::new(address, 24)?)?;
            let listener = TcpListener::bind((address, BACKEND_PORT))?;
            std::thread::spawn(move || answer(&listener, address));
        }
        Ok(())
    })??;
    Ok(backends)
}

fn answer(listener: &TcpListener, address: IpAddr) {
    for stream in listener.incoming().flatten() {
        let mut stream = stream;
        // A client that gave up is no concern of the backend's.
        drop(stream.write_all(address.to_string().as_bytes()));
    }
}

/// Creates the world and the measured Service, which comes last; returns its address.
async fn load(setting: &Setting, flags: &Flags, backend: IpAddr) -> Result<SocketAddr, Failure> {
    let clients = (0..4)
        .map(|_| setting.client())
        .collect::<Result<Vec<Client>, _>>()?;
    world::create(&clients, flags.services, flags.endpoints).await?;
    let answer = world::post(&clients[0], &world::service("zz-measured")).await?;
    world::post(&clients[0], &world::slice("zz-measured", &[backend])).await?;
    let ip: IpAddr = answer["spec"]["clusterIP"]
        .as_str()
        .ok_or("no cluster IP")?
        .parse()?;
    Ok((ip, 80).into())
}

/// Connects again and again until `backend` answers.
pub fn wait_for(service: SocketAddr, backend: IpAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    let wanted = backend.to_string();
    loop {
        if ask(service).is_ok_and(|answer| answer == wanted) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{backend} does not answer at {service}").into());
        }
        std::thread::sleep(PAUSE);
    }
}

fn ask(service: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&service, TRY)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
