//! What connections pay for going through a Service: against direct ones, with the proxy in any mode.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use testbed::Member;

use crate::Failure;
use crate::at_once::{at_once, lend_ports_again};
use crate::percentiles::Percentiles;
use crate::process::{Measured, portolan};
use crate::setting::{PATIENCE, Setting, enclosed};
use crate::world;

/// Port of the backend.
const BACKEND_PORT: u16 = 8080;
/// What is written at once to a stream.
const CHUNK_BYTES: usize = 256 << 10;
/// How long one way goes on before the other one has its turn: a stream, which takes a while to find its speed, and
/// connections.
const STREAM_TURN: Duration = Duration::from_secs(1);
const RATE_TURN: Duration = Duration::from_millis(200);
/// What a client asks for with its first byte: one byte back, how many bytes it has sent, or nothing at all.
const ANSWER: u8 = b'a';
const COUNT: u8 = b'c';
const HOLD: u8 = b'h';

/// Flags of `bench traffic`.
#[derive(Debug, Args)]
pub struct Flags {
    /// `--proxy-mode` of the proxy
    #[arg(long, default_value = "userspace", value_name = "MODE")]
    mode: String,
    /// Services beside the measured one, with ten endpoints each
    #[arg(long, default_value_t = 0)]
    services: usize,
    /// Connections, one after the other, each way
    #[arg(long, default_value_t = 3_000)]
    connections: usize,
    /// Clients that connect at the same time, again and again, each way
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Seconds of these, and of one stream, each way
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Connections that are open at the same time while the proxy's memory is read; each takes two file
    /// descriptors of this program
    #[arg(long, default_value_t = 9_000)]
    open: usize,
    /// Another proxy that is measured in the place of Portolan's: a command line for `sh`, in which
    /// {kubeconfig} and {node} are replaced
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    enclosed(false, |setting| {
        let outside = setting.cluster.outside()?;
        let backend = IpAddr::V4(outside.plan.address.ipv4);
        outside.enter(|| serve(backend))??;
        let service = setting.with_api(async || load(&setting, flags.services, backend).await)?;
        let node = setting.cluster.nodes().next().ok_or("the testbed has no node")?;
        let mut proxy = setting.start_component("the proxy", node, command(flags, &setting, node)?)?;
        node.enter(|| wait_for(service))??;
        proxy.must_run()?;
        node.enter(lend_ports_again)??;
        let direct = SocketAddr::new(backend, BACKEND_PORT);
        node.enter(|| connections(flags, direct, service, &proxy))??;
        node.enter(|| rates(flags, direct, service, &proxy))??;
        node.enter(|| streams(flags, direct, service, &proxy))??;
        node.enter(|| memory(flags, service, &mut proxy))??;
        Ok(())
    })
}

fn command(flags: &Flags, setting: &Setting, node: &Member) -> Result<Command, Failure> {
    let kubeconfig = setting.kubeconfig().display().to_string();
    if let Some(line) = &flags.command {
        let line = line
            .replace("{kubeconfig}", &kubeconfig)
            .replace("{node}", &node.plan.name);
        let mut command = Command::new("sh");
        command.arg("-c").arg(line);
        return Ok(command);
    }
    let mut command = Command::new(portolan()?);
    command
        .arg("proxy")
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--hostname-override={}", node.plan.name))
        .arg(format!("--proxy-mode={}", flags.mode));
    Ok(command)
}

/// Creates the Service; returns its address.
async fn load(setting: &Setting, services: usize, backend: IpAddr) -> Result<SocketAddr, Failure> {
    let client = setting.client()?;
    world::create(std::slice::from_ref(&client), services, 10).await?;
    let answer = world::post(&client, &world::service("measured")).await?;
    world::post(&client, &world::slice("measured", &[backend])).await?;
    let ip: Ipv4Addr = answer["spec"]["clusterIP"]
        .as_str()
        .ok_or("no cluster IP")?
        .parse()?;
    Ok((ip, 80).into())
}

/// Starts the backend in this thread's namespace.
fn serve(address: IpAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind((address, BACKEND_PORT))?;
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut first = [0];
            match stream.read_exact(&mut first).map(|()| first[0]) {
                Ok(ANSWER) => drop(stream.write_all(&first)),
                Ok(COUNT) => drop(std::thread::spawn(move || count(stream))),
                Ok(HOLD) if stream.write_all(&first).is_ok() => held.push(stream),
                // A client that gave up is no concern of the backend's.
                _ => {}
            }
        }
    });
    Ok(())
}

fn count(mut stream: TcpStream) -> std::io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut total = 0_u64;
    loop {
        match stream.read(&mut chunk)? {
            0 => return stream.write_all(&total.to_be_bytes()),
            bytes => total += bytes as u64,
        }
    }
}

/// Connects and asks for something.
fn ask(to: SocketAddr, what: u8) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    stream.write_all(&[what])?;
    Ok(stream)
}

/// Connects, asks, and closes when the answer is there.
fn exchange(to: SocketAddr) -> std::io::Result<()> {
    ask(to, ANSWER)?.read_exact(&mut [0])
}

fn wait_for(service: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = exchange(service) {
        if Instant::now() > deadline {
            return Err(format!("nobody answers at {service}: {error}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Both ways by turns, so that whatever else the machine does meets both.
fn connections(
    flags: &Flags,
    direct: SocketAddr,
    service: SocketAddr,
    proxy: &Measured,
) -> Result<(), Failure> {
    let mut times = [Vec::new(), Vec::new()];
    let cpu = proxy.cpu()?;
    for _ in 0..flags.connections {
        for (to, times) in [direct, service].into_iter().zip(&mut times) {
            let began = Instant::now();
            exchange(to)?;
            times.push(began.elapsed());
        }
    }
    let cpu = proxy.cpu()? - cpu;
    let [direct, service] = times.map(Percentiles::of);
    let (direct, service) = (direct.ok_or("no connections")?, service.ok_or("no connections")?);
    println!(
        "connect, request, close, {} each: direct p50 {:.3} ms, p99 {:.3} ms; Service p50 {:.3} ms, p99 {:.3} ms; \
         {:.2} x direct, takes {:.2} x as long; {:.1} us of the proxy's CPU each",
        flags.connections,
        direct.milliseconds(50),
        direct.milliseconds(99),
        service.milliseconds(50),
        service.milliseconds(99),
        direct.milliseconds(50) / service.milliseconds(50),
        service.milliseconds(50) / direct.milliseconds(50),
        cpu.as_secs_f64() * 1e6 / flags.connections as f64,
    );
    Ok(())
}

/// Both ways by turns, with several clients at the same time.
fn rates(flags: &Flags, direct: SocketAddr, service: SocketAddr, proxy: &Measured) -> Result<(), Failure> {
    let (mut direct_sum, mut service_sum, mut cpu) = (0.0, 0.0, Duration::ZERO);
    let turns = flags.seconds as f64 / RATE_TURN.as_secs_f64();
    let mut passed = 0.0;
    for _ in 0..turns as u64 {
        direct_sum += at_once(flags.clients, RATE_TURN, || exchange(direct))?;
        let before = proxy.cpu()?;
        let began = Instant::now();
        let rate = at_once(flags.clients, RATE_TURN, || exchange(service))?;
        passed += rate * began.elapsed().as_secs_f64();
        service_sum += rate;
        cpu += proxy.cpu()? - before;
    }
    println!(
        "{} clients at once, {turns} times {:.1} s each: direct {:.0} connections a second, Service {:.0}; \
         {:.2} x direct; {:.1} us of the proxy's CPU each",
        flags.clients,
        RATE_TURN.as_secs_f64(),
        direct_sum / turns,
        service_sum / turns,
        service_sum / direct_sum,
        cpu.as_secs_f64() * 1e6 / passed,
    );
    Ok(())
}

/// Both ways by turns, a second each.
fn streams(flags: &Flags, direct: SocketAddr, service: SocketAddr, proxy: &Measured) -> Result<(), Failure> {
    let (mut direct_sum, mut service_sum, mut cpu) = (0.0, 0.0, Duration::ZERO);
    for _ in 0..flags.seconds {
        direct_sum += stream(direct)?;
        let before = proxy.cpu()?;
        service_sum += stream(service)?;
        cpu += proxy.cpu()? - before;
    }
    let seconds = flags.seconds as f64;
    println!(
        "one stream, {seconds} times a second each: direct {:.2} Gbit/s, Service {:.2} Gbit/s; {:.2} x direct; \
         {:.0} ms of the proxy's CPU a gigabyte",
        direct_sum / seconds,
        service_sum / seconds,
        service_sum / direct_sum,
        cpu.as_secs_f64() * 1e3 / (service_sum / 8.0),
    );
    Ok(())
}

/// Gbit/s that arrive in a second.
fn stream(to: SocketAddr) -> Result<f64, Failure> {
    let mut stream = ask(to, COUNT)?;
    let chunk = vec![0; CHUNK_BYTES];
    let began = Instant::now();
    while began.elapsed() < STREAM_TURN {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut arrived = [0; 8];
    stream.read_exact(&mut arrived)?;
    Ok(u64::from_be_bytes(arrived) as f64 * 8e-9 / began.elapsed().as_secs_f64())
}

fn memory(flags: &Flags, service: SocketAddr, proxy: &mut Measured) -> Result<(), Failure> {
    let before = proxy.resident_mib()?;
    let mut open = Vec::with_capacity(flags.open);
    for _ in 0..flags.open {
        let mut stream = ask(service, HOLD)?;
        stream.read_exact(&mut [0])?;
        open.push(stream);
    }
    let after = proxy.resident_mib()?;
    println!(
        "resident memory: {before:.1} MiB; with {} connections open: {after:.1} MiB",
        open.len()
    );
    proxy.must_run()
}
