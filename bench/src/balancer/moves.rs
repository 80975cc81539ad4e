//! Addresses that move: because their owner is gone, and because it was asked to end.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netlink::route::{Connection, LinkChange};

use super::asker::Asker;
use super::held::{Fate, Held};
use super::{ADDRESS, HELD_PORT, Node, start_announcer};
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::setting::Setting;

/// How long one connection may take while its packets may lead to a node that is gone.
const TRY: Duration = Duration::from_millis(20);
/// How long a connection may take while the address moves as planned: TCP sends a lost packet again after a second.
const MOVE_PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a node is back, so that the three have found each other.
pub(super) const SETTLING: Duration = Duration::from_millis(2_500);
/// A connection that takes so long lost a packet: TCP sends none again earlier.
const SLOW: Duration = Duration::from_millis(200);
/// Pause between two connections.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// Lets owners die, and end.
pub fn run(
    kills: usize,
    handovers: usize,
    setting: &Setting,
    nodes: &mut [Node],
    service: SocketAddr,
) -> Result<(), Failure> {
    let asker = Asker::new(setting.cluster.outside()?)?;
    let (mut gaps, mut back) = (Vec::new(), Connections::default());
    for number in 1..=kills {
        std::thread::sleep(SETTLING);
        let owner = owner(&asker, nodes)?;
        set_link(setting, owner, false)?;
        let begin = Instant::now();
        nodes[owner].announcer.end();
        setting.cluster.outside()?.enter(|| reach(service))??;
        gaps.push(begin.elapsed());
        set_link(setting, owner, true)?;
        let during = format!("when the address went back after kill {number}");
        back = back.and(connecting(setting, service, &during, || {
            restart(setting, &asker, nodes, owner)
        })?);
    }
    if let Some(gaps) = Percentiles::of(gaps) {
        println!(
            "owner killed and its link cut until a connection is served, {kills} times: p50 {:.0} ms, p99 {:.0} ms",
            gaps.milliseconds(50),
            gaps.milliseconds(99)
        );
        println!("the address back at its owner: {}", back.tell());
    }
    let mut moved = Connections::default();
    for number in 1..=handovers {
        std::thread::sleep(SETTLING);
        let owner = owner(&asker, nodes)?;
        let hardware = nodes[owner].hardware;
        let during = format!("when the owner was asked to end, time {number}");
        moved = moved.and(connecting(setting, service, &during, || {
            nodes[owner].announcer.end_gracefully()?;
            asker.until(ADDRESS, |other| *other != hardware)?;
            Ok(())
        })?);
        restart(setting, &asker, nodes, owner)?;
    }
    if handovers > 0 {
        println!("owner asked to end, {handovers} times: {}", moved.tell());
    }
    Ok(())
}

/// The place of the node that answers for the address.
fn owner(asker: &Asker, nodes: &[Node]) -> Result<usize, Failure> {
    let hardware = asker.until(ADDRESS, |_| true)?;
    let place = nodes.iter().position(|node| node.hardware == hardware);
    Ok(place.ok_or("nobody of the testbed answers for the address")?)
}

/// Starts a node's announcer anew; returns when it has the address again.
fn restart(setting: &Setting, asker: &Asker, nodes: &mut [Node], owner: usize) -> Result<(), Failure> {
    let hardware = nodes[owner].hardware;
    let member = setting.cluster.member(&nodes[owner].name)?;
    nodes[owner].announcer = start_announcer(setting, member)?;
    asker.until(ADDRESS, |last| *last == hardware)?;
    Ok(())
}

/// Connects until a connection is served.
fn reach(service: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + crate::setting::PATIENCE;
    while Instant::now() < deadline {
        if connect(service, TRY).is_ok() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err("the address is not served any more".into())
}

/// Connects, and hears what the backend says; how it was opened.
pub(super) fn connect(service: SocketAddr, patience: Duration) -> std::io::Result<Opened> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect_timeout(&service, patience)?;
    let opened = Opened {
        port: stream.local_addr()?.port(),
        after: begin.elapsed(),
    };
    stream.set_read_timeout(Some(patience))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    match text.is_empty() {
        true => Err(std::io::ErrorKind::UnexpectedEof.into()),
        false => Ok(opened),
    }
}

/// A connection that was opened.
pub(super) struct Opened {
    /// The client's port.
    port: u16,
    /// How long the handshake took.
    after: Duration,
}

/// Connections while something went on.
#[derive(Default)]
struct Connections {
    count: usize,
    failed: usize,
    longest: Duration,
    /// Those that were open before.
    held: Fate,
}

impl Connections {
    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            failed: self.failed + other.failed,
            longest: self.longest.max(other.longest),
            held: self.held.and(other.held),
        }
    }

    fn tell(&self) -> String {
        format!(
            "{} connections, {} failed, the longest took {:.0} ms; {}",
            self.count,
            self.failed,
            self.longest.as_secs_f64() * 1e3,
            self.held.tell()
        )
    }
}

/// Connects again and again while `happening` runs, and for a moment after; connections that were opened before go on.
fn connecting(
    setting: &Setting,
    service: SocketAddr,
    during: &str,
    happening: impl FnOnce() -> Result<(), Failure>,
) -> Result<Connections, Failure> {
    let outside = setting.cluster.outside()?;
    let is_over = AtomicBool::new(false);
    let held = outside.enter(|| Held::open((ADDRESS, HELD_PORT).into()))??;
    std::thread::scope(|scope| {
        let talking = scope.spawn(|| held.talk(&is_over));
        let client = scope.spawn(|| {
            outside.enter(|| {
                let mut connections = Connections::default();
                let first = Instant::now();
                while !is_over.load(Ordering::Acquire) {
                    let begin = Instant::now();
                    let opened = connect(service, MOVE_PATIENCE);
                    let lasted = begin.elapsed();
                    connections.failed += usize::from(opened.is_err());
                    connections.count += 1;
                    connections.longest = connections.longest.max(lasted);
                    if let Some(opened) = opened.ok().filter(|_| lasted >= SLOW) {
                        println!(
                            "slow {during}: the connection from port {}, {:.3} s after the first, took {:.0} ms, of \
                             which its handshake {:.0} ms",
                            opened.port,
                            (begin - first).as_secs_f64(),
                            lasted.as_secs_f64() * 1e3,
                            opened.after.as_secs_f64() * 1e3
                        );
                    }
                    std::thread::sleep(PAUSE);
                }
                connections
            })
        });
        let happened = happening();
        std::thread::sleep(Duration::from_millis(200));
        is_over.store(true, Ordering::Release);
        let mut connections = client.join().map_err(|_| "the client failed")??;
        connections.held = talking.join().map_err(|_| "the client failed")?;
        connections.held.tell_losses(during);
        happened.map(|()| connections)
    })
}

/// Sets a node's port of the bridge up or down.
pub(super) fn set_link(setting: &Setting, node: usize, is_up: bool) -> Result<(), Failure> {
    let mut connection = Connection::open_in(&setting.cluster.underlay().namespace)?;
    let link = connection.link_index(&format!("port{}", node + 1).parse()?)?;
    let change = LinkChange {
        up: Some(is_up),
        ..LinkChange::default()
    };
    Ok(connection.change_link(link, &change)?)
}
