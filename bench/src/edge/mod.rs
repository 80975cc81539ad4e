//! What the edge does beside haproxy: both in the same namespace of a node, by turns, with the same clients and backend
//! outside of it.

mod backend;
mod clients;
mod under_test;

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testbed::{Cluster, Member, Topology};

use crate::Failure;
use crate::at_once::{at_once, lend_ports_again};
use crate::process::{Measured, quiet};
use crate::setting::{PATIENCE, enclosed_at};
pub use under_test::Flags as UnderTestFlags;
pub use under_test::run as under_test;

/// Descriptors that clients and backend together, and each proxy, are to have.
const DESCRIPTORS: u64 = 200_000;
/// Descriptors that are not for connections.
const DESCRIPTORS_OTHER: u64 = 2_500;
/// Ports of the proxies: bytes, and bytes inside of TLS.
const PORTS: [(u16, u16); 2] = [(1_080, 1_443), (2_080, 2_443)];

/// Flags of `bench edge`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Rounds; in each, both proxies have their turn at everything
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each turn
    #[arg(long, default_value_t = 2)]
    seconds: u64,
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
    let mut proxies = [place.portolan(flags)?, place.haproxy(flags)?];
    for proxy in &mut proxies {
        outside.enter(|| clients::wait_for(proxy.plain))??;
        proxy.process.must_run()?;
    }
    outside.enter(|| -> Result<(), Failure> {
        streams(flags, &proxies)?;
        connections(flags, &proxies)?;
        handshakes(flags, &proxies)?;
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
    fn portolan(&self, flags: &Flags) -> Result<Proxy, Failure> {
        let (plain, tls) = PORTS[0];
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("edge-under-test")
            .arg(format!("--address={}", self.at))
            .arg(format!("--port={plain}"))
            .arg(format!("--tls-port={tls}"))
            .arg(format!("--backend={}", self.backend))
            .arg(format!("--threads={}", flags.threads))
            .arg(format!("--certificate={}", self.certificate.display()));
        self.start("portolan", command, plain, tls)
    }

    fn haproxy(&self, flags: &Flags) -> Result<Proxy, Failure> {
        let (plain, tls) = PORTS[1];
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

/// What proxies reached by turns, and the processor time that it took them.
struct Outcome {
    amounts: [Vec<f64>; 2],
    cpu: [Duration; 2],
}

impl Outcome {
    /// Both have their turn at `work`, again and again; it returns how much was done.
    fn of(
        flags: &Flags,
        proxies: &[Proxy; 2],
        work: impl Fn(&Proxy, Duration) -> Result<f64, Failure>,
    ) -> Result<Self, Failure> {
        let mut this = Self {
            amounts: [Vec::new(), Vec::new()],
            cpu: [Duration::ZERO; 2],
        };
        for _ in 0..flags.rounds {
            for (number, proxy) in proxies.iter().enumerate() {
                let cpu = proxy.process.cpu()?;
                this.amounts[number].push(work(proxy, Duration::from_secs(flags.seconds))?);
                this.cpu[number] += proxy.process.cpu()? - cpu;
            }
        }
        Ok(this)
    }

    /// The median of a proxy's turns.
    fn median(&self, number: usize) -> f64 {
        let mut amounts = self.amounts[number].clone();
        amounts.sort_unstable_by(f64::total_cmp);
        amounts[amounts.len() / 2]
    }

    /// Processor time for one of what was done.
    fn cpu_each(&self, number: usize, flags: &Flags) -> Duration {
        let all: f64 = self.amounts[number].iter().sum::<f64>() * flags.seconds as f64;
        self.cpu[number].div_f64(all.max(1.0))
    }

    fn print(&self, flags: &Flags, what: &str, unit: &str) {
        let [ours, theirs] = [0, 1].map(|number| self.median(number));
        let [our_cpu, their_cpu] = [0, 1].map(|number| self.cpu_each(number, flags).as_secs_f64() * 1e6);
        println!(
            "{what}: portolan {ours:.2} {unit}, haproxy {theirs:.2} {unit}; {:.2} x haproxy; \
             CPU of the proxy for one: {our_cpu:.2} us and {their_cpu:.2} us, {:.2} x",
            ours / theirs,
            our_cpu / their_cpu,
        );
    }
}

fn streams(flags: &Flags, proxies: &[Proxy; 2]) -> Result<(), Failure> {
    let outcome = Outcome::of(flags, proxies, |proxy, time| clients::stream(proxy.plain, time))?;
    outcome.print(flags, "one stream", "MB/s");
    Ok(())
}

fn connections(flags: &Flags, proxies: &[Proxy; 2]) -> Result<(), Failure> {
    let outcome = Outcome::of(flags, proxies, |proxy, time| {
        at_once(flags.clients, time, || clients::exchange(proxy.plain))
    })?;
    outcome.print(flags, "connect, request, close", "a second");
    Ok(())
}

fn handshakes(flags: &Flags, proxies: &[Proxy; 2]) -> Result<(), Failure> {
    let tls = Arc::new(clients::tls()?);
    let outcome = Outcome::of(flags, proxies, |proxy, time| {
        at_once(flags.clients, time, || clients::shake_hands(proxy.tls, &tls))
    })?;
    outcome.print(flags, "TLS handshakes, ECDSA P-256, none resumed", "a second");
    Ok(())
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
