//! What the edge does beside haproxy: both in the same namespace of a node, by turns, with the same clients and backend
//! outside of it.

mod backend;
mod clients;
mod turns;
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
use crate::at_once::{at_once, lend_ports_again};
use crate::process::{Measured, quiet};
use crate::setting::{PATIENCE, enclosed_at};
use turns::{Rounds, by_turns};
pub use under_test::Flags as UnderTestFlags;
pub use under_test::run as under_test;

/// Descriptors that clients and backend together, and each proxy, are to have.
const DESCRIPTORS: u64 = 200_000;
/// Descriptors that are not for connections.
const DESCRIPTORS_OTHER: u64 = 2_500;
/// Ports of the proxies: bytes, and bytes inside of TLS.
const PORTS: (u16, u16) = (1_080, 1_443);
const PORTS_HAPROXY: (u16, u16) = (2_080, 2_443);
const PORTS_OTHER_BUILD: (u16, u16) = (3_080, 3_443);

/// Flags of `bench edge`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Rounds of connections and of handshakes; in each, all proxies have their turn, and another one begins than in the last
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Seconds of each of these turns
    #[arg(long, default_value_t = 0.25, value_parser = seconds)]
    seconds: f64,
    /// Rounds of streams
    #[arg(long, default_value_t = 5)]
    stream_rounds: usize,
    /// Seconds of each stream
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    stream_seconds: f64,
    /// Clients at the same time that connect, ask, and close
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Connections that are open at the same time while memory is read, or as many as descriptors allow; 0 for none
    #[arg(long, default_value_t = 20_000)]
    open: usize,
    /// Threads of each proxy
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Have haproxy pass on streams by splice(2) too, which it does not without being told
    #[arg(long)]
    haproxy_splices: bool,
    /// Measure only this; may be given several times
    #[arg(long = "part")]
    parts: Vec<Part>,
    /// The `bench` of another build, whose edge has its turns too
    #[arg(long)]
    other_build: Option<PathBuf>,
}

/// What proxies have their turns at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One stream
    Stream,
    /// Connecting, a request, closing
    Connections,
    /// TLS handshakes
    Handshakes,
}

/// A time that a turn may have.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    let possible = seconds.filter(|seconds| (0.01..=3_600.0).contains(seconds));
    possible.ok_or_else(|| format!("expected seconds from 0.01 to 3600, got {text:?}"))
}

impl Flags {
    /// The rounds of connections and handshakes.
    fn short_turns(&self) -> Rounds {
        Rounds {
            count: self.rounds,
            turn: Duration::from_secs_f64(self.seconds),
        }
    }

    /// The rounds of streams.
    fn streams(&self) -> Rounds {
        Rounds {
            count: self.stream_rounds,
            turn: Duration::from_secs_f64(self.stream_seconds),
        }
    }

    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

/// A proxy that is measured.
struct Proxy {
    name: &'static str,
    process: Measured,
    /// Where it takes connections, and where it takes them in TLS.
    plain: SocketAddr,
    tls: SocketAddr,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    enclosed_at(|directory| measure(flags, directory))
}

fn measure(flags: &Flags, directory: &Path) -> Result<(), Failure> {
    let connections_max = connections_max()?;
    let open = flags.open.min(connections_max);
    let cluster = Cluster::start(Topology::with_nodes(1)?)?;
    let outside = cluster.outside()?;
    let node = cluster.nodes().next().ok_or("the testbed has no node")?;
    for member in [outside, node] {
        member.enter(lend_ports_again)??;
    }
    let backend = IpAddr::V4(outside.plan.address.ipv4);
    let backend = outside.enter(|| backend::serve(backend))??;
    let at = IpAddr::V4(node.plan.address.ipv4);
    let certificate = directory.join("certificate.pem");
    under_test::write_certificate(&certificate)?;
    let place = Place {
        directory,
        node,
        at,
        backend,
        certificate: &certificate,
        connections_max,
    };
    let this_build = std::env::current_exe()?;
    let mut proxies = vec![
        place.haproxy(flags)?,
        place.edge("portolan", &this_build, flags, PORTS)?,
    ];
    if let Some(other) = &flags.other_build {
        proxies.push(place.edge("other build", other, flags, PORTS_OTHER_BUILD)?);
    }
    for proxy in &mut proxies {
        outside.enter(|| clients::wait_for(proxy.plain))??;
        proxy.process.must_run()?;
    }
    outside.enter(|| -> Result<(), Failure> {
        if flags.has(Part::Stream) {
            streams(flags, &proxies)?;
        }
        if flags.has(Part::Connections) {
            connections(flags, &proxies)?;
        }
        if flags.has(Part::Handshakes) {
            handshakes(flags, &proxies)?;
        }
        for proxy in &mut proxies {
            memory(open, proxy)?;
        }
        Ok(())
    })??;
    Ok(())
}

/// Where proxies run, and what they are given.
struct Place<'a> {
    directory: &'a Path,
    node: &'a Member,
    at: IpAddr,
    backend: SocketAddr,
    certificate: &'a Path,
    connections_max: usize,
}

impl Place<'_> {
    /// The edge that is in this build of `bench`.
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
            .arg(format!("--address={}", self.at))
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
             listen bench\n  bind {at}:{plain}\n  bind {at}:{tls} ssl crt {certificate}\n  server backend {backend}\n",
            flags.threads,
            maxconn = self.connections_max,
            at = self.at,
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
        let mut command = quiet(command, self.directory, name)?;
        Ok(Proxy {
            name,
            process: Measured::new(name, self.node.spawn(&mut command)?),
            plain: (self.at, plain).into(),
            tls: (self.at, tls).into(),
        })
    }
}

fn streams(flags: &Flags, proxies: &[Proxy]) -> Result<(), Failure> {
    by_turns(flags.streams(), proxies, ("one stream", "MB/s"), |proxy, time| {
        clients::stream(proxy.plain, time)
    })
}

fn connections(flags: &Flags, proxies: &[Proxy]) -> Result<(), Failure> {
    by_turns(
        flags.short_turns(),
        proxies,
        ("connect, request, close", "a second"),
        |proxy, time| at_once(flags.clients, time, || clients::exchange(proxy.plain)),
    )
}

fn handshakes(flags: &Flags, proxies: &[Proxy]) -> Result<(), Failure> {
    let tls = Arc::new(clients::tls()?);
    let what = ("TLS handshakes, ECDSA P-256, none resumed", "a second");
    by_turns(flags.short_turns(), proxies, what, |proxy, time| {
        at_once(flags.clients, time, || clients::shake_hands(proxy.tls, &tls))
    })
}

/// Raises the limit of descriptors, for the proxies too, as far as this user may; how many connections can be open with
/// that: each has two descriptors in the proxy, and two here.
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

fn memory(open: usize, proxy: &mut Proxy) -> Result<(), Failure> {
    if open == 0 {
        return Ok(());
    }
    let before = proxy.process.resident_mib()?;
    let held = clients::hold(proxy.plain, open)?;
    // What serving them needs for a moment is given back or not by then.
    std::thread::sleep(Duration::from_secs(1));
    let after = proxy.process.resident_mib()?;
    println!(
        "{}: resident memory {before:.1} MiB; with {} idle connections {after:.1} MiB",
        proxy.name,
        held.len()
    );
    proxy.process.must_run()?;
    drop(held);
    backend::release();
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && clients::exchange(proxy.plain).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
