//! Comparison of the edge with haproxy. Both run in the namespace of a node and are measured alternately, with the same
//! clients and the same backend outside of it.

mod backend;
mod clients;
mod rounds;
mod under_test;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testbed::{Cluster, Member, Topology};

use crate::Failure;
use crate::concurrent::{rate_of, reuse_ports};
use crate::environment::{TIMEOUT, run_enclosed_in_directory};
use crate::process::{Measured, with_log};
use rounds::{Rounds, alternate};
pub(crate) use under_test::Flags as UnderTestFlags;
pub(crate) use under_test::run as under_test;

/// Number of file descriptors for clients and backend together, and for each proxy.
const DESCRIPTORS: u64 = 200_000;
/// Number of file descriptors that are not for connections.
const DESCRIPTORS_OTHER: u64 = 2_500;
/// Ports of the edge: TCP and TLS.
const PORTS: (u16, u16) = (1_080, 1_443);
/// Ports of haproxy: TCP and TLS.
const PORTS_HAPROXY: (u16, u16) = (2_080, 2_443);
/// Ports of the edge of another build: TCP and TLS.
const PORTS_OTHER_BUILD: (u16, u16) = (3_080, 3_443);

/// Flags of `bench edge`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of rounds of connections and of handshakes; each round measures all proxies
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Duration of a measurement in such a round, in seconds
    #[arg(long, default_value_t = 0.25, value_parser = parse_seconds)]
    seconds: f64,
    /// Number of rounds of streams
    #[arg(long, default_value_t = 5)]
    stream_rounds: usize,
    /// Duration of a stream in seconds
    #[arg(long, default_value_t = 2.0, value_parser = parse_seconds)]
    stream_seconds: f64,
    /// Number of concurrent clients
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Number of idle connections while memory is read, limited by file descriptors; 0 for none
    #[arg(long, default_value_t = 20_000)]
    open: usize,
    /// Number of threads of each proxy
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Enable splice(2) in haproxy, which is off by default
    #[arg(long)]
    haproxy_splices: bool,
    /// Measure only this part; repeatable
    #[arg(long = "part")]
    parts: Vec<Part>,
    /// Path of `bench` of another build, whose edge is measured, too
    #[arg(long)]
    other_build: Option<PathBuf>,
}

/// Part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One stream
    Stream,
    /// Connect, request, close
    Connections,
    /// TLS handshakes
    Handshakes,
}

/// Parses a duration in seconds.
fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let possible = seconds.filter(|seconds| (0.01..=3_600.0).contains(seconds));
    possible.ok_or_else(|| format!("expected seconds from 0.01 to 3600, found {text:?}"))
}

impl Flags {
    /// Rounds of connections and handshakes.
    fn short_rounds(&self) -> Rounds {
        Rounds {
            count: self.rounds,
            duration: Duration::from_secs_f64(self.seconds),
        }
    }

    /// Rounds of streams.
    fn stream_rounds(&self) -> Rounds {
        Rounds {
            count: self.stream_rounds,
            duration: Duration::from_secs_f64(self.stream_seconds),
        }
    }

    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// Measured proxy.
struct Proxy {
    name: &'static str,
    process: Measured,
    /// Address for TCP.
    plain: SocketAddr,
    /// Address for TLS.
    tls: SocketAddr,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed_in_directory(|directory| measure(flags, directory))
}

fn measure(flags: &Flags, directory: &Path) -> Result<(), Failure> {
    let connections_max = connections_max()?;
    let open = flags.open.min(connections_max);
    let cluster = Cluster::start(Topology::with_nodes(1)?)?;
    let outside = cluster.outside()?;
    let node = cluster.nodes().next().ok_or("the testbed has no node")?;
    for member in [outside, node] {
        member.enter(reuse_ports)??;
    }
    let backend = IpAddr::V4(outside.plan.address.ipv4);
    let backend = outside.enter(|| backend::serve(backend))??;
    let address = IpAddr::V4(node.plan.address.ipv4);
    let certificate = directory.join("certificate.pem");
    under_test::write_certificate(&certificate)?;
    let launcher = Launcher {
        directory,
        node,
        address,
        backend,
        certificate: &certificate,
        connections_max,
    };
    let this_build = std::env::current_exe()?;
    let mut proxies = vec![
        launcher.haproxy(flags)?,
        launcher.edge("portolan", &this_build, flags, PORTS)?,
    ];
    if let Some(other) = &flags.other_build {
        proxies.push(launcher.edge("other build", other, flags, PORTS_OTHER_BUILD)?);
    }
    for proxy in &mut proxies {
        outside.enter(|| clients::wait_for(proxy.plain))??;
        proxy.process.must_run()?;
    }
    outside.enter(|| -> Result<(), Failure> {
        if flags.has(Part::Stream) {
            measure_streams(flags, &proxies)?;
        }
        if flags.has(Part::Connections) {
            measure_connections(flags, &proxies)?;
        }
        if flags.has(Part::Handshakes) {
            measure_handshakes(flags, &proxies)?;
        }
        for proxy in &mut proxies {
            measure_memory(open, proxy)?;
        }
        Ok(())
    })??;
    Ok(())
}

/// Starts proxies on the node.
struct Launcher<'a> {
    directory: &'a Path,
    node: &'a Member,
    address: IpAddr,
    backend: SocketAddr,
    certificate: &'a Path,
    connections_max: usize,
}

impl Launcher<'_> {
    /// Starts the edge of a build of `bench`.
    fn edge(
        &self,
        name: &'static str,
        bench: &Path,
        flags: &Flags,
        (plain, tls): (u16, u16),
    ) -> Result<Proxy, Failure> {
        let mut command = Command::new(bench);
        command
            .arg("edge-under-test")
            .arg(format!("--address={}", self.address))
            .arg(format!("--port={plain}"))
            .arg(format!("--tls-port={tls}"))
            .arg(format!("--backend={}", self.backend))
            .arg(format!("--threads={}", flags.threads))
            .arg(format!("--certificate={}", self.certificate.display()));
        self.start(name, command, plain, tls)
    }

    fn haproxy(&self, flags: &Flags) -> Result<Proxy, Failure> {
        let (plain, tls) = PORTS_HAPROXY;
        let splice = if flags.haproxy_splices {
            "option splice-auto"
        } else {
            ""
        };
        let configuration = format!(
            "global\n  nbthread {}\n  maxconn {maxconn}\n\
             defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n  {splice}\n\
             listen bench\n  bind {address}:{plain}\n  bind {address}:{tls} ssl crt {certificate}\n  server backend {backend}\n",
            flags.threads,
            maxconn = self.connections_max,
            address = self.address,
            certificate = self.certificate.display(),
            backend = self.backend,
        );
        let file = self.directory.join("haproxy.cfg");
        fs::write(&file, configuration)?;
        let mut command = Command::new("haproxy");
        command.arg("-f").arg(file);
        self.start("haproxy", command, plain, tls)
    }

    fn start(&self, name: &'static str, command: Command, plain: u16, tls: u16) -> Result<Proxy, Failure> {
        let mut command = with_log(command, self.directory, name)?;
        Ok(Proxy {
            name,
            process: Measured::new(name, self.node.spawn(&mut command)?),
            plain: (self.address, plain).into(),
            tls: (self.address, tls).into(),
        })
    }
}

fn measure_streams(flags: &Flags, proxies: &[Proxy]) -> Result<(), Failure> {
    alternate(
        flags.stream_rounds(),
        proxies,
        ("one stream", "MB/s"),
        |proxy, duration| clients::stream(proxy.plain, duration),
    )
}

fn measure_connections(flags: &Flags, proxies: &[Proxy]) -> Result<(), Failure> {
    alternate(
        flags.short_rounds(),
        proxies,
        ("connect, request, close", "a second"),
        |proxy, duration| rate_of(flags.clients, duration, || clients::exchange(proxy.plain)),
    )
}

fn measure_handshakes(flags: &Flags, proxies: &[Proxy]) -> Result<(), Failure> {
    let tls = Arc::new(clients::tls()?);
    let subject = ("TLS handshakes, ECDSA P-256, none resumed", "a second");
    alternate(flags.short_rounds(), proxies, subject, |proxy, duration| {
        rate_of(flags.clients, duration, || clients::handshake(proxy.tls, &tls))
    })
}

/// Raises the limit of file descriptors, also for the proxies, as far as allowed. Returns the possible number
/// of connections: each needs two descriptors in the proxy and two here.
fn connections_max() -> Result<usize, Failure> {
    let enough = Rlimit {
        current: Some(DESCRIPTORS),
        maximum: Some(DESCRIPTORS),
    };
    let mut descriptors = DESCRIPTORS;
    if setrlimit(Resource::Nofile, enough).is_err() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        descriptors = maximum.unwrap_or(DESCRIPTORS);
        let current = Some(descriptors);
        setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
    }
    Ok(usize::try_from((descriptors - DESCRIPTORS_OTHER) / 2)?)
}

fn measure_memory(open: usize, proxy: &mut Proxy) -> Result<(), Failure> {
    if open == 0 {
        return Ok(());
    }
    let before = proxy.process.resident_mib()?;
    let open_connections = clients::hold(proxy.plain, open)?;
    // Temporary memory is released by then.
    std::thread::sleep(Duration::from_secs(1));
    let after = proxy.process.resident_mib()?;
    println!(
        "{}: resident memory {before:.1} MiB; with {} idle connections {after:.1} MiB",
        proxy.name,
        open_connections.len()
    );
    proxy.process.must_run()?;
    drop(open_connections);
    backend::release();
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline && clients::exchange(proxy.plain).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
