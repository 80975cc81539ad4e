//! Cost of connections through a Service compared with direct ones, for any mode of the proxy.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use netlink::route::{Connection, Route};
use serde_json::{Value, json};
use testbed::{ControlGroup, Member};

use crate::Failure;
use crate::concurrent::{rate_of, reuse_ports};
use crate::environment::{Environment, TIMEOUT, run_enclosed};
use crate::fixtures;
use crate::percentiles::Percentiles;
use crate::process::{Measured, portolan};

/// Mode whose programs serve a control group.
const EBPF_MODE: &str = "ebpf";
/// Port of the backend.
const BACKEND_PORT: u16 = 8080;
/// Address of the Service's endpoint. Direct connections have another destination. A client numbers the segments of its
/// connections by their destination, so the endpoint would see two sequences for one client port. It then refuses every
/// other connection that reuses a port in TIME-WAIT, until the client has sent its SYN again.
const ENDPOINT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 80);
/// Name of the loopback link.
const LOOPBACK: &str = "lo";
/// Size of a write to a stream.
const CHUNK_BYTES: usize = 256 << 10;
/// Duration of a stream before the other path is measured; a stream needs a while to reach its rate.
const STREAM_DURATION: Duration = Duration::from_secs(1);
/// Duration of connections before the other path is measured.
const RATE_DURATION: Duration = Duration::from_millis(200);
/// Port of the measured Service.
const SERVICE_PORT: u16 = 80;
/// First of the further ports of the measured Service.
const LISTED_PORT_FIRST: u16 = 10_000;
/// First byte of a client that requests one byte.
const ECHO: u8 = b'a';
/// First byte of a client that requests the number of its bytes.
const COUNT: u8 = b'c';
/// First byte of a client that keeps its connection open.
const HOLD: u8 = b'h';

/// Flags of `bench traffic`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Mode of the proxy (`--proxy-mode`)
    #[arg(long, default_value = "userspace", value_name = "MODE")]
    mode: String,
    /// Number of further Services with ten endpoints each
    #[arg(long, default_value_t = 0)]
    services: usize,
    /// Number of consecutive connections on each path
    #[arg(long, default_value_t = 3_000)]
    connections: usize,
    /// Number of concurrent clients on each path
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Duration in seconds of concurrent clients, and number of pairs of streams
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Number of open connections while memory is read; each needs two file descriptors
    #[arg(long, default_value_t = 9_000)]
    open: usize,
    /// Number of ports of a range (annotation `port-ranges`) through which clients reach the Service; 0 for its port
    #[arg(long, default_value_t = 0)]
    range_ports: u16,
    /// Number of further ports in `spec.ports` of the Service
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=50_000))]
    listed_ports: u16,
    /// Maximum age of connections in seconds (annotation `max-connection-age-seconds`); 0 for none
    #[arg(long, default_value_t = 0)]
    connection_age: u32,
    /// Measure this proxy instead of Portolan: command for `sh` with {kubeconfig} and {node}
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed(false, |environment| {
        // The programs of eBPF mode serve the clients of this benchmark only, not those of the host.
        let group = (flags.mode == EBPF_MODE).then(|| ControlGroup::create(&process(), "clients"));
        let group = group.transpose()?;
        if let Some(group) = &group {
            group.enter()?;
        }
        let outside = environment.cluster.outside()?;
        let backend = IpAddr::V4(outside.plan.address.ipv4);
        let endpoint = IpAddr::V4(ENDPOINT);
        outside.enter(|| {
            add_endpoint()?;
            serve(backend)?;
            serve(endpoint)
        })??;
        let service = environment.with_api(async || create(&environment, flags, endpoint).await)?;
        let node = environment
            .cluster
            .nodes()
            .next()
            .ok_or("the testbed has no node")?;
        node.enter(|| add_route(backend))??;
        let mut proxy = environment.start_component(
            "proxy",
            node,
            command(flags, &environment, node, group.as_ref())?,
        )?;
        node.enter(|| wait_for(service))??;
        proxy.must_run()?;
        node.enter(reuse_ports)??;
        let direct = SocketAddr::new(backend, BACKEND_PORT);
        node.enter(|| measure_connections(flags, direct, service, &proxy))??;
        node.enter(|| rates(flags, direct, service, &proxy))??;
        // The same destination on both paths: a stream needs one port, so no port is reused.
        let endpoint = SocketAddr::new(endpoint, BACKEND_PORT);
        node.enter(|| measure_streams(flags, endpoint, service, &proxy))??;
        node.enter(|| measure_memory(flags, service, &mut proxy))??;
        drop(proxy);
        if group.is_some() {
            ControlGroup::remove_all(&process())?;
        }
        Ok(())
    })
}

/// Returns the number of this network namespace, which no other benchmark has.
fn process() -> String {
    let link = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    link.to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect()
}

fn command(
    flags: &Flags,
    environment: &Environment,
    node: &Member,
    group: Option<&ControlGroup>,
) -> Result<Command, Failure> {
    let kubeconfig = environment.kubeconfig().display().to_string();
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
    if let Some(group) = group {
        command.arg("--ebpf-cgroup").arg(group.path());
    }
    Ok(command)
}

/// Creates the Services; returns the address of the measured one.
async fn create(environment: &Environment, flags: &Flags, backend: IpAddr) -> Result<SocketAddr, Failure> {
    let client = environment.client()?;
    fixtures::create_services(std::slice::from_ref(&client), flags.services, 10).await?;
    let (service, slice, port) = measured(flags, backend);
    let created = fixtures::post(&client, &service).await?;
    fixtures::post(&client, &slice).await?;
    let ip: Ipv4Addr = created["spec"]["clusterIP"]
        .as_str()
        .ok_or("no cluster IP")?
        .parse()?;
    Ok((ip, port).into())
}

/// Returns the measured Service, its EndpointSlice, and the port that clients use.
fn measured(flags: &Flags, backend: IpAddr) -> (Value, Value, u16) {
    let mut service = fixtures::service("measured");
    let mut slice = fixtures::slice("measured", &[backend]);
    for number in 0..flags.listed_ports {
        let name = format!("p{number}");
        let port = LISTED_PORT_FIRST.saturating_add(number);
        if let Some(ports) = service["spec"]["ports"].as_array_mut() {
            ports.push(json!({"name": name, "port": port, "targetPort": BACKEND_PORT}));
        }
        if let Some(ports) = slice["ports"].as_array_mut() {
            ports.push(json!({"name": name, "protocol": "TCP", "port": BACKEND_PORT}));
        }
    }
    let mut annotate = |name: &str, value: String| {
        service["metadata"]["annotations"][format!("service.portolan.dev/{name}")] = json!(value);
    };
    if flags.connection_age > 0 {
        annotate("max-connection-age-seconds", flags.connection_age.to_string());
    }
    if flags.range_ports == 0 {
        return (service, slice, SERVICE_PORT);
    }
    let last = BACKEND_PORT.saturating_add(flags.range_ports - 1);
    annotate("port-ranges", format!("{BACKEND_PORT}-{last}/TCP"));
    (service, slice, BACKEND_PORT)
}

/// Adds the address of the endpoint to the namespace of the current thread.
fn add_endpoint() -> std::io::Result<()> {
    let add = || {
        let mut connection = Connection::open()?;
        let loopback = connection.link_index(&LOOPBACK.parse()?)?;
        connection.add_address(loopback, IpAddr::from(ENDPOINT).into())?;
        Ok::<(), Failure>(())
    };
    add().map_err(|error| std::io::Error::other(error.to_string()))
}

/// Leads packets to the endpoint from the namespace of the current thread.
fn add_route(gateway: IpAddr) -> std::io::Result<()> {
    let route = Route::via(IpAddr::from(ENDPOINT).into(), gateway);
    let added = Connection::open().and_then(|mut connection| connection.add_route(&route));
    added.map_err(std::io::Error::other)
}

/// Starts the backend in the namespace of the current thread.
fn serve(address: IpAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind((address, BACKEND_PORT))?;
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut first = [0];
            match stream.read_exact(&mut first).map(|()| first[0]) {
                Ok(ECHO) => drop(stream.write_all(&first)),
                Ok(COUNT) => drop(std::thread::spawn(move || count(stream))),
                Ok(HOLD) if stream.write_all(&first).is_ok() => held.push(stream),
                // The client closed the connection.
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

/// Connects and sends the first byte.
fn connect(to: SocketAddr, request: u8) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    stream.write_all(&[request])?;
    Ok(stream)
}

/// Connects, exchanges one byte, and closes.
fn exchange(to: SocketAddr) -> std::io::Result<()> {
    connect(to, ECHO)?.read_exact(&mut [0])
}

fn wait_for(service: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = exchange(service) {
        if Instant::now() > deadline {
            return Err(format!("no answer from {service}: {error}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Measures consecutive connections on alternating paths, so that other load of the host affects both.
fn measure_connections(
    flags: &Flags,
    direct: SocketAddr,
    service: SocketAddr,
    proxy: &Measured,
) -> Result<(), Failure> {
    let mut times = [Vec::new(), Vec::new()];
    let cpu = proxy.cpu()?;
    for _ in 0..flags.connections {
        for (to, times) in [direct, service].into_iter().zip(&mut times) {
            let started = Instant::now();
            exchange(to)?;
            times.push(started.elapsed());
        }
    }
    let cpu = proxy.cpu()? - cpu;
    let [direct, service] = times.map(Percentiles::of);
    let (direct, service) = (direct.ok_or("no measurement")?, service.ok_or("no measurement")?);
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

/// Measures concurrent clients on alternating paths.
fn rates(flags: &Flags, direct: SocketAddr, service: SocketAddr, proxy: &Measured) -> Result<(), Failure> {
    let (mut direct_sum, mut service_sum, mut cpu) = (0.0, 0.0, Duration::ZERO);
    let turns = flags.seconds as f64 / RATE_DURATION.as_secs_f64();
    let mut connections = 0.0;
    for _ in 0..turns as u64 {
        direct_sum += rate_of(flags.clients, RATE_DURATION, || exchange(direct))?;
        let before = proxy.cpu()?;
        let started = Instant::now();
        let rate = rate_of(flags.clients, RATE_DURATION, || exchange(service))?;
        connections += rate * started.elapsed().as_secs_f64();
        service_sum += rate;
        cpu += proxy.cpu()? - before;
    }
    println!(
        "{} clients at once, {turns} times {:.1} s each: direct {:.0} connections a second, Service {:.0}; \
         {:.2} x direct; {:.1} us of the proxy's CPU each",
        flags.clients,
        RATE_DURATION.as_secs_f64(),
        direct_sum / turns,
        service_sum / turns,
        service_sum / direct_sum,
        cpu.as_secs_f64() * 1e6 / connections,
    );
    Ok(())
}

/// Measures pairs of streams, each of one second: one on either path. The order alternates, so that a drift of the host's
/// speed favours neither path.
fn measure_streams(
    flags: &Flags,
    direct: SocketAddr,
    service: SocketAddr,
    proxy: &Measured,
) -> Result<(), Failure> {
    let (mut direct_sum, mut service_sum, mut cpu) = (0.0, 0.0, Duration::ZERO);
    let mut ratios = Vec::new();
    for pair in 0..flags.seconds {
        let direct_first = pair % 2 == 0;
        let before = direct_first.then(|| stream(direct)).transpose()?;
        let cpu_before = proxy.cpu()?;
        let service_rate = stream(service)?;
        cpu += proxy.cpu()? - cpu_before;
        let direct_rate = before.map_or_else(|| stream(direct), Ok)?;
        direct_sum += direct_rate;
        service_sum += service_rate;
        ratios.push(service_rate / direct_rate);
    }
    let pairs = flags.seconds as f64;
    ratios.sort_unstable_by(f64::total_cmp);
    let (Some(lowest), Some(highest)) = (ratios.first(), ratios.last()) else {
        return Ok(());
    };
    println!(
        "one stream, {pairs} pairs of a second each: direct {:.2} Gbit/s, Service {:.2} Gbit/s; {:.2} x direct \
         (median of pairs, {lowest:.2}-{highest:.2}); {:.0} ms of the proxy's CPU a gigabyte",
        direct_sum / pairs,
        service_sum / pairs,
        ratios[ratios.len() / 2],
        cpu.as_secs_f64() * 1e3 / (service_sum / 8.0),
    );
    Ok(())
}

/// Received rate of a stream in Gbit/s.
fn stream(to: SocketAddr) -> Result<f64, Failure> {
    let mut stream = connect(to, COUNT)?;
    let chunk = vec![0; CHUNK_BYTES];
    let started = Instant::now();
    while started.elapsed() < STREAM_DURATION {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    Ok(u64::from_be_bytes(received) as f64 * 8e-9 / started.elapsed().as_secs_f64())
}

fn measure_memory(flags: &Flags, service: SocketAddr, proxy: &mut Measured) -> Result<(), Failure> {
    let before = proxy.resident_mib()?;
    let mut open = Vec::with_capacity(flags.open);
    for _ in 0..flags.open {
        let mut stream = connect(service, HOLD)?;
        stream.read_exact(&mut [0])?;
        open.push(stream);
    }
    let after = proxy.resident_mib()?;
    println!(
        "resident memory: {before:.1} MiB; with {} connections open: {after:.1} MiB",
        open.len()
    );
    if flags.connection_age > 0 {
        let cpu = proxy.cpu()?;
        let started = Instant::now();
        std::thread::sleep(Duration::from_secs(flags.seconds));
        let cpu = proxy.cpu()? - cpu;
        println!(
            "checks of the age of {} connections: {:.1} ms of the proxy's CPU a second",
            open.len(),
            cpu.as_secs_f64() * 1e3 / started.elapsed().as_secs_f64(),
        );
    }
    proxy.must_run()
}
