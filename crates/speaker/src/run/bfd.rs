//! BFD over UDP (RFC 5881, RFC 5883). It has a thread of its own, because other tasks can delay longer than a period
//! of BFD.
//!
//! The kernel drops packets with a low TTL by a socket filter, so hosts on other links cannot send valid ones.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bgp::bfd::{Diagnostic, EchoPacket, EchoSettings, Packet, Session, Settings, State};
use mio::net::UdpSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::sync::watch;

use super::bfd_echo::EchoPath;
use super::sockets::ttl_filter;
use crate::configuration::{BfdProfile, Name, Peer};

/// Port of peers on the same link (RFC 5881).
const LINK_PORT: u16 = 3784;
/// Port of peers on other links (RFC 5883).
const ROUTED_PORT: u16 = 4784;
/// First source port (RFC 5881, section 4).
const SOURCE_PORT_MIN: u16 = 49_152;
/// TTL of sent packets, and of received ones from the same link.
const TTL: u8 = 255;
/// Maximum number of datagrams that one pass reads from a socket.
const READS_MAX: usize = 64;
/// Longest sleep while no timer runs.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);
/// Time between two attempts to start sessions or to change the minimum TTL.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Maximum length of a datagram that is read; packets have 24 bytes.
const DATAGRAM_BYTES: usize = 128;
/// Token of all listening sockets.
const LISTENER: Token = Token(0);
const WAKE: Token = Token(4);
/// Token of the paths of all echo packets.
const ECHO: Token = Token(5);

/// Settings of the session with one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BfdSettings {
    /// Address of the peer; link-local ones have the index of their link.
    remote: SocketAddr,
    source: Option<IpAddr>,
    vrf: Option<String>,
    is_routed: bool,
    minimum_ttl: u8,
    timers: Settings,
}

impl BfdSettings {
    /// Returns the settings of a session. The port of `remote` has no effect.
    pub(super) fn of(peer: &Peer, profile: &BfdProfile, mut remote: SocketAddr) -> Self {
        remote.set_port(if peer.is_multi_hop { ROUTED_PORT } else { LINK_PORT });
        // RFC 5883, section 3, excludes the echo function.
        let has_echo = !peer.is_multi_hop;
        Self {
            remote,
            source: peer.source,
            vrf: peer.vrf.clone(),
            is_routed: peer.is_multi_hop,
            minimum_ttl: profile.minimum_ttl,
            timers: Settings {
                echo: profile.settings.echo.filter(|_| has_echo),
                ..profile.settings
            },
        }
    }

    /// Returns true if a packet is from the peer.
    fn is_from_peer(&self, source: SocketAddr) -> bool {
        let is_on_link = match (self.remote, source) {
            (SocketAddr::V6(remote), SocketAddr::V6(source)) => {
                remote.scope_id() == 0 || remote.scope_id() == source.scope_id()
            }
            _ => true,
        };
        is_on_link && self.remote.ip() == source.ip()
    }
}

/// Settings of the sessions that are to exist.
type DesiredSessions = BTreeMap<Name, BfdSettings>;

/// States of the sessions as the thread publishes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SessionStates {
    /// Sessions that are up.
    up: BTreeSet<Name>,
    /// Numbers of the last losses. A session that ended because of other settings has none.
    losses: BTreeMap<Name, u64>,
}

/// Change of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BfdChange {
    pub(super) peer: Name,
    pub(super) is_up: bool,
    /// The session lost the peer.
    pub(super) is_lost: bool,
}

/// Handle of the thread.
pub(super) struct Bfd {
    desired: Arc<Mutex<DesiredSessions>>,
    waker: Option<Waker>,
    states: watch::Receiver<SessionStates>,
    sender: Option<watch::Sender<SessionStates>>,
    reported: SessionStates,
}

impl Bfd {
    /// Creates a handle; the thread starts with the first session.
    pub(super) fn new() -> Self {
        let (sender, states) = watch::channel(SessionStates::default());
        Self {
            desired: Arc::default(),
            waker: None,
            states,
            sender: Some(sender),
            reported: SessionStates::default(),
        }
    }

    /// Replaces the sessions.
    pub(super) fn set(&mut self, desired: DesiredSessions) {
        let mut present = self.desired.lock().unwrap_or_else(PoisonError::into_inner);
        if *present == desired {
            return;
        }
        *present = desired;
        drop(present);
        if let Some(sender) = self.sender.take() {
            match Worker::start(Arc::clone(&self.desired), sender) {
                Ok(waker) => self.waker = Some(waker),
                Err(error) => {
                    tracing::error!(%error, "BFD not started; peers with a BFDProfile have no BFD session")
                }
            }
        } else if let Some(waker) = &self.waker
            && let Err(error) = waker.wake()
        {
            tracing::error!(%error, "BFD sessions not changed");
        }
    }

    /// Returns true if the session of a peer is up.
    pub(super) fn is_up(&self, peer: &Name) -> bool {
        self.states.borrow().up.contains(peer)
    }

    /// Waits for the next session that went up or down, or lost its peer. Cancel safe.
    pub(super) async fn changed(&mut self) -> BfdChange {
        loop {
            let change = self.reported.next_change(&self.states.borrow_and_update());
            if let Some(change) = change {
                return change;
            }
            if self.states.changed().await.is_err() {
                std::future::pending().await
            }
        }
    }
}

impl SessionStates {
    /// Returns the first difference to later states, and applies it.
    fn next_change(&mut self, later: &Self) -> Option<BfdChange> {
        self.losses.retain(|name, _| later.losses.contains_key(name));
        let lost = later
            .losses
            .iter()
            .find(|(name, loss)| self.losses.get(*name) != Some(*loss))
            .map(|(name, loss)| (name.clone(), *loss));
        let peer = match &lost {
            Some((name, _)) => name.clone(),
            None => self.up.symmetric_difference(&later.up).next()?.clone(),
        };
        let is_lost = lost.is_some();
        self.losses.extend(lost);
        let is_up = later.up.contains(&peer);
        if is_up {
            self.up.insert(peer.clone());
        } else {
            self.up.remove(&peer);
        }
        Some(BfdChange { peer, is_up, is_lost })
    }
}

/// A session and its socket.
struct RunningSession {
    settings: BfdSettings,
    session: Session,
    socket: std::net::UdpSocket,
    /// Path of the echo packets; `None` without the echo function.
    echo: Option<EchoPath>,
}

/// A listening socket.
struct Listener {
    socket: UdpSocket,
    vrf: Option<String>,
    /// True for peers on other links.
    is_routed: bool,
}

/// State of the thread.
struct Worker {
    desired: Arc<Mutex<DesiredSessions>>,
    states: watch::Sender<SessionStates>,
    poll: Poll,
    start: Instant,
    sessions: BTreeMap<Name, RunningSession>,
    /// Listening sockets: of IPv4 and IPv6, for the same link and routed, outside of VRFs and in each VRF of a peer.
    listeners: Vec<Listener>,
    /// Minimum TTL of the listening sockets for packets from other links.
    minimum_ttl: u8,
    losses: BTreeMap<Name, u64>,
    /// Number of all losses.
    loss_count: u64,
    next_discriminator: u32,
}

impl Worker {
    fn start(
        desired: Arc<Mutex<DesiredSessions>>,
        states: watch::Sender<SessionStates>,
    ) -> io::Result<Waker> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let mut worker = Self {
            desired,
            states,
            poll,
            start: Instant::now(),
            sessions: BTreeMap::new(),
            listeners: Vec::new(),
            minimum_ttl: TTL,
            losses: BTreeMap::new(),
            loss_count: 0,
            next_discriminator: fastrand::u32(1..u32::MAX / 2),
        };
        thread::Builder::new()
            .name("bfd".to_owned())
            .spawn(move || worker.run())?;
        Ok(waker)
    }

    fn run(&mut self) {
        let mut events = Events::with_capacity(16);
        while !self.states.is_closed() {
            let are_started = self.synchronize();
            self.transmit();
            let are_continued = self.publish();
            let longest = if are_started && are_continued {
                SLEEP_MAX
            } else {
                RETRY_PERIOD
            };
            let now = self.start.elapsed();
            let wakes = self
                .sessions
                .values()
                .filter_map(|running| running.session.next_wake());
            let pause = wakes
                .min()
                .map_or(longest, |wake| wake.saturating_sub(now).min(longest));
            match self.poll.poll(&mut events, Some(pause)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(%error, "BFD ended");
                    return;
                }
            }
            for index in 0..self.listeners.len() {
                self.receive(index);
            }
            self.receive_echo();
        }
    }

    /// Starts and ends sessions as desired. Returns false if an attempt failed.
    fn synchronize(&mut self) -> bool {
        let desired = self
            .desired
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let count = desired.len();
        self.listeners.retain(|listener| {
            listener.vrf.is_none() || desired.values().any(|settings| settings.vrf == listener.vrf)
        });
        let has_minimum = self.set_minimum_ttl(&desired);
        self.losses.retain(|name, _| desired.contains_key(name));
        let gone = self
            .sessions
            .extract_if(.., |name, running| desired.get(name) != Some(&running.settings));
        for (_, mut running) in gone.collect::<Vec<_>>() {
            let packet = running.session.shut_down();
            running.send(&packet);
        }
        for (name, settings) in desired {
            if self.sessions.contains_key(&name) {
                continue;
            }
            match self.start_session(settings) {
                Ok(running) => {
                    self.sessions.insert(name, running);
                }
                Err(error) => tracing::debug!(peer = name.1, %error, "BFD session not started; retrying"),
            }
        }
        has_minimum && self.sessions.len() == count
    }

    /// Applies the lowest minimum TTL of the peers on other links. Returns false after a failure.
    fn set_minimum_ttl(&mut self, desired: &DesiredSessions) -> bool {
        let routed = desired.values().filter(|settings| settings.is_routed);
        let minimum = routed.map(|settings| settings.minimum_ttl).min().unwrap_or(TTL);
        if minimum == self.minimum_ttl {
            return true;
        }
        for listener in self.listeners.iter().filter(|listener| listener.is_routed) {
            let socket = &listener.socket;
            let changed = socket
                .local_addr()
                .and_then(|local| SockRef::from(socket).attach_filter(&ttl_filter(local, minimum)));
            if let Err(error) = changed {
                tracing::debug!(%error, "minimum TTL of BFD packets not changed; retrying");
                return false;
            }
        }
        self.minimum_ttl = minimum;
        true
    }

    fn start_session(&mut self, settings: BfdSettings) -> io::Result<RunningSession> {
        // The link of a VRF may have been deleted, and created again.
        self.listeners
            .retain(|listener| SockRef::from(&listener.socket).device().is_ok());
        if !self.listeners.iter().any(|listener| listener.vrf == settings.vrf) {
            self.listen(settings.vrf.as_deref())?;
        }
        self.next_discriminator += 1;
        let socket = sending_socket(&settings)?;
        let (timers, echo) = self.open_echo(&settings, socket.local_addr()?.port())?;
        let now = self.start.elapsed();
        let session = Session::new(timers, self.next_discriminator, fastrand::u64(..), now);
        Ok(RunningSession {
            settings,
            session,
            socket,
            echo,
        })
    }

    /// Opens the path of the echo packets of a session. Returns its timers, too. The session has no echo function
    /// without the right to open raw sockets, or without a network with the peer that is not link-local.
    fn open_echo(
        &self,
        settings: &BfdSettings,
        source_port: u16,
    ) -> io::Result<(Settings, Option<EchoPath>)> {
        let Some(echo) = settings.timers.echo else {
            return Ok((settings.timers, None));
        };
        let peer = settings.remote;
        let path = match EchoPath::open(peer, settings.source, settings.vrf.as_deref(), source_port) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
                ) =>
            {
                tracing::warn!(%peer, %error, "no echo function of BFD; it needs CAP_NET_RAW, and addresses in one network that are not link-local");
                let timers = Settings {
                    echo: None,
                    ..settings.timers
                };
                return Ok((timers, None));
            }
            path => path?,
        };
        self.poll
            .registry()
            .register(&mut SourceFd(&path.as_raw_fd()), ECHO, Interest::READABLE)?;
        let receive_interval = if path.is_forwarding() {
            echo.receive_interval
        } else {
            tracing::info!(%peer, "echo packets of the peer not returned; this host does not forward packets of its link");
            Duration::ZERO
        };
        let echo = EchoSettings {
            receive_interval,
            ..echo
        };
        let timers = Settings {
            echo: Some(echo),
            ..settings.timers
        };
        Ok((timers, Some(path)))
    }

    /// Opens the listening sockets of a VRF, or those outside of VRFs. Listeners of several VRFs have the same ports.
    fn listen(&mut self, vrf: Option<&str>) -> io::Result<()> {
        let is_shared = !self.listeners.is_empty();
        self.share_ports(is_shared)?;
        let opened = self.open_listeners(vrf, is_shared);
        self.share_ports(false)?;
        self.listeners.extend(opened?);
        Ok(())
    }

    /// Sets if further sockets may have the ports of the listeners. They may only for a moment: other processes could
    /// receive the packets.
    fn share_ports(&self, are_shared: bool) -> io::Result<()> {
        let mut listeners = self.listeners.iter();
        listeners.try_for_each(|listener| SockRef::from(&listener.socket).set_reuse_address(are_shared))
    }

    fn open_listeners(&self, vrf: Option<&str>, is_shared: bool) -> io::Result<Vec<Listener>> {
        // A failure leaves no listeners of the VRF, so the next attempt opens all of them.
        let mut listeners = Vec::new();
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        for (port, ttl) in [(LINK_PORT, TTL), (ROUTED_PORT, self.minimum_ttl)] {
            for address in any {
                let socket = listening_socket(SocketAddr::new(address, port), vrf, ttl, is_shared);
                // A host may have one family only.
                let mut socket = match socket {
                    Err(error) if address.is_ipv6() => {
                        tracing::debug!(%error, "IPv6 sockets for BFD not opened");
                        continue;
                    }
                    socket => UdpSocket::from_std(socket?),
                };
                self.poll
                    .registry()
                    .register(&mut socket, LISTENER, Interest::READABLE)?;
                listeners.push(Listener {
                    socket,
                    vrf: vrf.map(str::to_owned),
                    is_routed: port == ROUTED_PORT,
                });
            }
        }
        Ok(listeners)
    }

    fn receive(&mut self, index: usize) {
        let Some(listener) = self.listeners.get(index) else {
            return;
        };
        let mut bytes = [0; DATAGRAM_BYTES];
        for _ in 0..READS_MAX {
            let Ok((length, source)) = listener.socket.recv_from(&mut bytes) else {
                return;
            };
            let packet = bytes.get(..length).and_then(Packet::decode);
            let Some(packet) = packet else { continue };
            let now = self.start.elapsed();
            let running = self.sessions.values_mut().find(|running| {
                let is_known = packet.your_discriminator == 0
                    || packet.your_discriminator == running.session.discriminator();
                let settings = &running.settings;
                let is_of_listener = settings.is_routed == listener.is_routed && settings.vrf == listener.vrf;
                is_known && settings.is_from_peer(source) && is_of_listener
            });
            if let Some(running) = running {
                running.session.received(now, &packet);
            }
        }
    }

    fn transmit(&mut self) {
        let now = self.start.elapsed();
        for running in self.sessions.values_mut() {
            if let Some(packet) = running.session.tick(now) {
                running.send(&packet);
            }
            if let Some(packet) = running.session.tick_echo(now) {
                running.send_echo(&packet);
            }
        }
    }

    /// Processes returned echo packets.
    fn receive_echo(&mut self) {
        let now = self.start.elapsed();
        for running in self.sessions.values_mut() {
            let Some(path) = &running.echo else { continue };
            for _ in 0..READS_MAX {
                match path.receive() {
                    Ok(Some(packet)) => running.session.received_echo(now, &packet),
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// Publishes states and losses. A lost session with the echo function ends, because the address of this host may
    /// have changed. Returns false if sessions ended, which start again.
    fn publish(&mut self) -> bool {
        let mut ended = Vec::new();
        for (name, running) in &mut self.sessions {
            if running.session.take_loss() {
                self.loss_count += 1;
                self.losses.insert(name.clone(), self.loss_count);
                if running.echo.is_some() {
                    ended.push(name.clone());
                }
                if running.session.diagnostic() == Diagnostic::EchoFailed {
                    tracing::warn!(peer = %running.settings.remote, "BFD session lost; the peer returned no echo packets");
                }
            }
        }
        let up = self
            .sessions
            .iter()
            .filter(|(_, running)| running.session.state() == State::Up);
        let states = SessionStates {
            up: up.map(|(name, _)| name.clone()).collect(),
            losses: self.losses.clone(),
        };
        self.states.send_if_modified(|present| {
            let is_changed = *present != states;
            if is_changed {
                *present = states;
            }
            is_changed
        });
        for name in &ended {
            self.sessions.remove(name);
        }
        ended.is_empty()
    }
}

impl RunningSession {
    /// Sends a packet. A failure counts as a lost packet.
    fn send(&self, packet: &Packet) {
        if let Err(error) = self.socket.send_to(&packet.encode(), self.settings.remote) {
            tracing::trace!(peer = %self.settings.remote, %error, "BFD packet not sent");
        }
    }

    /// Sends an echo packet. A failure counts as a lost packet.
    fn send_echo(&self, packet: &EchoPacket) {
        let Some(path) = &self.echo else { return };
        if let Err(error) = path.send(packet) {
            tracing::trace!(peer = %self.settings.remote, %error, "BFD echo packet not sent");
        }
    }
}

/// Opens a socket with a source port of BFD.
fn sending_socket(settings: &BfdSettings) -> io::Result<std::net::UdpSocket> {
    let source = settings.source.unwrap_or(match settings.remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    });
    let domain = Domain::for_address(SocketAddr::new(source, 0));
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(vrf) = &settings.vrf {
        socket.bind_device(Some(vrf.as_bytes()))?;
    }
    match source {
        IpAddr::V4(_) => socket.set_ttl_v4(TTL.into())?,
        IpAddr::V6(_) => socket.set_unicast_hops_v6(TTL.into())?,
    }
    socket.set_nonblocking(true)?;
    let first = fastrand::u16(SOURCE_PORT_MIN..);
    for port in (first..=u16::MAX).chain(SOURCE_PORT_MIN..first) {
        match socket.bind(&SocketAddr::new(source, port).into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result.map(|()| socket.into()),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Opens a listening socket that drops packets with a lower TTL. With `is_shared`, listeners of other VRFs have the port.
fn listening_socket(
    address: SocketAddr,
    vrf: Option<&str>,
    ttl: u8,
    is_shared: bool,
) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(vrf) = vrf {
        socket.bind_device(Some(vrf.as_bytes()))?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.attach_filter(&ttl_filter(address, ttl))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(is_shared)?;
    socket.bind(&address.into())?;
    socket.set_reuse_address(false)?;
    Ok(socket.into())
}
