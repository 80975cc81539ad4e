//! Reports of traffic with many entries in connection tracking: CPU time and memory of `portolan top`.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use testbed::{Member, write_sysctl};

use crate::Failure;
use crate::environment::{Environment, TIMEOUT, run_enclosed};
use crate::fixtures;
use crate::process::{Measured, portolan};

/// First port of the clients, and their number for each Service.
const CLIENT_PORT: u16 = 2_000;
const CLIENT_PORTS: usize = 50_000;
/// Port of the Services.
const SERVICE_PORT: u16 = 80;
/// Protocol number of UDP in the IP header.
const UDP: u8 = 17;
/// Lifetime of a UDP flow without reply, longer than the benchmark.
const FLOW_TIMEOUT_SECONDS: &str = "600";
/// Intervals before the measurement: the first ones allocate.
const WARM_UP_INTERVALS: usize = 2;

/// Flags of `bench flows`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of entries
    #[arg(long, default_value_t = 100_000)]
    entries: usize,
    /// Number of measured intervals
    #[arg(long, default_value_t = 10)]
    intervals: usize,
    /// Number of further Services with ten endpoints each
    #[arg(long, default_value_t = 0)]
    services: usize,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed(false, |environment| {
        let services = flags.entries.div_ceil(CLIENT_PORTS);
        let node = environment
            .cluster
            .nodes()
            .next()
            .ok_or("the testbed has no node")?;
        let addresses =
            environment.with_api(async || create(&environment, flags.services, services).await)?;
        let mut command = Command::new(portolan()?);
        command
            .arg("proxy")
            .arg(format!("--kubeconfig={}", environment.kubeconfig().display()))
            .arg(format!("--hostname-override={}", node.plan.name));
        let mut proxy = environment.start_component("proxy", node, command)?;
        node.enter(|| write_sysctl("net.netfilter.nf_conntrack_udp_timeout", FLOW_TIMEOUT_SECONDS))??;
        node.enter(|| wait_for_rules(&addresses))??;
        proxy.must_run()?;
        node.enter(|| send(&addresses, flags.entries))??;
        measure(&environment, node, flags)
    })
}

/// Creates the Services; returns the addresses of the measured ones.
async fn create(environment: &Environment, more: usize, measured: usize) -> Result<Vec<SocketAddr>, Failure> {
    let client = environment.client()?;
    fixtures::create_services(std::slice::from_ref(&client), more, 10).await?;
    let mut addresses = Vec::new();
    for number in 0..measured {
        let name = format!("measured-{number}");
        let mut service = fixtures::service(&name);
        service["spec"]["ports"][0]["protocol"] = json!("UDP");
        let created = fixtures::post(&client, &service).await?;
        let mut slice = fixtures::slice(&name, &[fixtures::unused_address(number)]);
        slice["ports"][0]["protocol"] = json!("UDP");
        fixtures::post(&client, &slice).await?;
        let ip: Ipv4Addr = created["spec"]["clusterIP"]
            .as_str()
            .ok_or("no cluster IP")?
            .parse()?;
        addresses.push((IpAddr::V4(ip), SERVICE_PORT).into());
    }
    Ok(addresses)
}

/// Waits until a packet to each Service is translated.
fn wait_for_rules(addresses: &[SocketAddr]) -> Result<(), Failure> {
    let deadline = Instant::now() + TIMEOUT;
    let mut conntrack = netlink::conntrack::Conntrack::open()?;
    let mut port = CLIENT_PORT - 1;
    for address in addresses {
        loop {
            // Each attempt is a flow of its own: the first ones are not translated.
            let socket = UdpSocket::bind(("0.0.0.0", port))?;
            port -= 1;
            send_to(&socket, *address)?;
            let translated = |flow: &netlink::conntrack::Flow| flow.reply.source != *address;
            if !conntrack.flows_to(1, address.ip(), UDP, translated)?.is_empty() {
                break;
            }
            if Instant::now() > deadline || port < 1_024 {
                return Err(format!("no rules for {address}").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// Sends a datagram. The endpoint does not exist, so errors of the network are expected.
fn send_to(socket: &UdpSocket, address: SocketAddr) -> std::io::Result<()> {
    match socket.send_to(&[0], address) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

/// Sends one datagram for each entry.
fn send(addresses: &[SocketAddr], entries: usize) -> Result<(), Failure> {
    let started = Instant::now();
    for number in 0..entries {
        let port = CLIENT_PORT + u16::try_from(number % CLIENT_PORTS)?;
        let socket = UdpSocket::bind(("0.0.0.0", port))?;
        send_to(&socket, addresses[number / CLIENT_PORTS])?;
    }
    println!(
        "{entries} entries sent in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn measure(environment: &Environment, node: &Member, flags: &Flags) -> Result<(), Failure> {
    let mut command = Command::new(portolan()?);
    command
        .args(["top", "services", "-A", "--local", "--watch", "-o", "json"])
        .arg(format!("--node={}", node.plan.name))
        .arg(format!("--kubeconfig={}", environment.kubeconfig().display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = node.spawn(&mut command)?;
    let stdout = child.stdout.take().ok_or("no pipe")?;
    let process = Measured::new("portolan top", child);
    let mut lines = BufReader::new(stdout).lines();
    let mut next =
        || -> Result<Value, Failure> { Ok(serde_json::from_str(&lines.next().ok_or("no report")??)?) };
    for _ in 0..WARM_UP_INTERVALS {
        next()?;
    }
    let before = process.cpu()?;
    let mut last = Value::Null;
    for _ in 0..flags.intervals {
        last = next()?;
    }
    let cpu = process.cpu()? - before;
    let unanswered = last["services"].as_array().into_iter().flatten();
    let unanswered: u64 = unanswered
        .filter_map(|service| service["unanswered"].as_u64())
        .sum();
    println!(
        "{} entries, {unanswered} flows of Services: {:.0} ms of CPU for a report, {:.1} MiB resident",
        last["nodes"][0]["entries"],
        cpu.as_secs_f64() * 1e3 / flags.intervals as f64,
        process.resident_mib()?,
    );
    Ok(())
}
