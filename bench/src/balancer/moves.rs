//! Moves of an address after the owner is killed and after its orderly shutdown.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netlink::route::{Connection, LinkChange};

use super::arp_client::ArpClient;
use super::open_connections::{ConnectionStats, OpenConnections};
use super::{ADDRESS, Node, OPEN_PORT, start_announcer};
use crate::Failure;
use crate::environment::Environment;
use crate::percentiles::Percentiles;

/// Timeout of a connection while its packets may go to a failed node.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(20);
/// Timeout of a connection during a planned move; TCP retransmits a SYN after one second.
const MOVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the return of a node, until all nodes exchange probes.
pub(super) const RECOVERY_PAUSE: Duration = Duration::from_millis(2_500);
/// Minimum duration of a connection that lost a packet: the retransmission timeout of TCP.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(200);
/// Pause between two connections.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// Kills owners, and shuts owners down.
pub(super) fn run(
    kills: usize,
    shutdowns: usize,
    environment: &Environment,
    nodes: &mut [Node],
    service: SocketAddr,
) -> Result<(), Failure> {
    let arp_client = ArpClient::new(environment.cluster.outside()?)?;
    let (mut gaps, mut returned) = (Vec::new(), Connections::default());
    for number in 1..=kills {
        std::thread::sleep(RECOVERY_PAUSE);
        let owner = owner_index(&arp_client, nodes)?;
        set_link(environment, owner, false)?;
        let start = Instant::now();
        nodes[owner].announcer.kill();
        environment
            .cluster
            .outside()?
            .enter(|| wait_for_connection(service))??;
        gaps.push(start.elapsed());
        set_link(environment, owner, true)?;
        let during = format!("return of the address after kill {number}");
        returned = returned.combined_with(connect_during(environment, service, &during, || {
            restart(environment, &arp_client, nodes, owner)
        })?);
    }
    if let Some(gaps) = Percentiles::of(gaps) {
        println!(
            "owner killed and its link down until a connection succeeds, {kills} times: p50 {:.0} ms, p99 {:.0} ms",
            gaps.milliseconds(50),
            gaps.milliseconds(99)
        );
        println!("return of the address to its owner: {}", returned.summary());
    }
    let mut moved = Connections::default();
    for number in 1..=shutdowns {
        std::thread::sleep(RECOVERY_PAUSE);
        let owner = owner_index(&arp_client, nodes)?;
        let hardware = nodes[owner].hardware;
        let during = format!("shutdown {number} of the owner");
        moved = moved.combined_with(connect_during(environment, service, &during, || {
            nodes[owner].announcer.terminate()?;
            arp_client.wait_for_owner(ADDRESS, |other| *other != hardware)?;
            Ok(())
        })?);
        restart(environment, &arp_client, nodes, owner)?;
    }
    if shutdowns > 0 {
        println!("owner shut down, {shutdowns} times: {}", moved.summary());
    }
    Ok(())
}

/// Index of the node that replies for the address.
fn owner_index(arp_client: &ArpClient, nodes: &[Node]) -> Result<usize, Failure> {
    let hardware = arp_client.wait_for_owner(ADDRESS, |_| true)?;
    let index = nodes.iter().position(|node| node.hardware == hardware);
    Ok(index.ok_or("no node of the testbed replies for the address")?)
}

/// Starts the announcer of a node again. Returns when the node owns the address.
fn restart(
    environment: &Environment,
    arp_client: &ArpClient,
    nodes: &mut [Node],
    owner: usize,
) -> Result<(), Failure> {
    let hardware = nodes[owner].hardware;
    let member = environment.cluster.member(&nodes[owner].name)?;
    nodes[owner].announcer = start_announcer(environment, member)?;
    arp_client.wait_for_owner(ADDRESS, |last| *last == hardware)?;
    Ok(())
}

/// Connects until a connection succeeds.
fn wait_for_connection(service: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + crate::environment::TIMEOUT;
    while Instant::now() < deadline {
        if connect(service, CONNECT_TIMEOUT).is_ok() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err("no connection to the address succeeds".into())
}

/// Connects and reads the response of the backend.
pub(super) fn connect(service: SocketAddr, timeout: Duration) -> std::io::Result<OpenedConnection> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect_timeout(&service, timeout)?;
    let opened = OpenedConnection {
        port: stream.local_addr()?.port(),
        handshake: begin.elapsed(),
    };
    stream.set_read_timeout(Some(timeout))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if text.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(opened)
}

/// Successful connection.
pub(super) struct OpenedConnection {
    /// Port of the client.
    port: u16,
    /// Duration of the handshake.
    handshake: Duration,
}

/// Connections during a move.
#[derive(Default)]
struct Connections {
    count: usize,
    failed: usize,
    longest: Duration,
    /// Connections that were open before.
    open: ConnectionStats,
}

impl Connections {
    fn combined_with(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            failed: self.failed + other.failed,
            longest: self.longest.max(other.longest),
            open: self.open.combined_with(other.open),
        }
    }

    fn summary(&self) -> String {
        format!(
            "{} connections, {} failed, max {:.0} ms; {}",
            self.count,
            self.failed,
            self.longest.as_secs_f64() * 1e3,
            self.open.summary()
        )
    }
}

/// Opens connections while `action` runs and shortly after, beside connections that were opened before.
fn connect_during(
    environment: &Environment,
    service: SocketAddr,
    during: &str,
    action: impl FnOnce() -> Result<(), Failure>,
) -> Result<Connections, Failure> {
    let outside = environment.cluster.outside()?;
    let is_over = AtomicBool::new(false);
    let open = outside.enter(|| OpenConnections::open((ADDRESS, OPEN_PORT).into()))??;
    std::thread::scope(|scope| {
        let exchanges = scope.spawn(|| open.exchange_until(&is_over));
        let client = scope.spawn(|| {
            outside.enter(|| {
                let mut connections = Connections::default();
                let first = Instant::now();
                while !is_over.load(Ordering::Acquire) {
                    let begin = Instant::now();
                    let opened = connect(service, MOVE_TIMEOUT);
                    let elapsed = begin.elapsed();
                    connections.failed += usize::from(opened.is_err());
                    connections.count += 1;
                    connections.longest = connections.longest.max(elapsed);
                    if let Some(opened) = opened.ok().filter(|_| elapsed >= RETRANSMISSION_TIMEOUT) {
                        println!(
                            "slow connection during {during}: from port {}, {:.3} s after the first, {:.0} ms, of which handshake \
                             {:.0} ms",
                            opened.port,
                            (begin - first).as_secs_f64(),
                            elapsed.as_secs_f64() * 1e3,
                            opened.handshake.as_secs_f64() * 1e3
                        );
                    }
                    std::thread::sleep(PAUSE);
                }
                connections
            })
        });
        let outcome = action();
        std::thread::sleep(Duration::from_millis(200));
        is_over.store(true, Ordering::Release);
        let mut connections = client.join().map_err(|_| "the client panicked")??;
        connections.open = exchanges.join().map_err(|_| "the client panicked")?;
        connections.open.print_losses(during);
        outcome.map(|()| connections)
    })
}

/// Sets the bridge port of a node up or down.
pub(crate) fn set_link(environment: &Environment, node: usize, is_up: bool) -> Result<(), Failure> {
    let mut connection = Connection::open_in(&environment.cluster.underlay().namespace)?;
    let link = connection.link_index(&format!("port{}", node + 1).parse()?)?;
    let change = LinkChange {
        up: Some(is_up),
        ..LinkChange::default()
    };
    Ok(connection.change_link(link, &change)?)
}
