//! The speaker of a node: its sessions, listeners and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::hash::fnv1a_32;
use api::object::ObjectKey;
use bgp::Family;
use bgp::session::{PeerSettings, PeerSystem, Stop};
use client::Client;
use client::WallClock;
use client::events::{EventBatch, EventQueue, EventRecorder, EventText, ObjectReference};
use netlink::clock::since_boot;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::bfd::{Bfd, BfdSettings};
use super::inputs::Inputs;
use super::listeners::Listeners;
use super::passwords::Passwords;
use super::router_discovery::RouterDiscovery;
use super::session::{Session, SessionSettings};
use super::sockets::{self, Key, SocketOptions, Ttl};
use super::{Settings, SpeakerError};
use crate::configuration::{Configuration, Group, InvalidObject, Location, Name, Peer};
use crate::metallb_status::{self, StatusWriter};
use crate::report::{Metrics, ReportedPeer, ReportedSpeaker, SessionReport};
use crate::routes::{Drain, NodeRoutes};

/// Component of the Events.
const COMPONENT: &str = "portolan-speaker";
/// Time for which peers keep the routes after a restart: the default of other speakers.
const RESTART_SECONDS: u16 = 120;

/// The speaker of a node.
pub(super) struct Speaker {
    settings: Settings,
    start: Instant,
    /// True if peers may have routes from before the last start of the host.
    is_after_boot: bool,
    inputs: Inputs,
    listeners: Listeners,
    passwords: Passwords,
    bfd: Bfd,
    routers: RouterDiscovery,
    configuration: Configuration,
    sessions: BTreeMap<Name, Session>,
    reports: BTreeMap<Name, Arc<SessionReport>>,
    /// Sessions that end.
    ending: JoinSet<()>,
    cordoned_since: Option<Instant>,
    events: EventQueue,
    metrics: Arc<Metrics>,
    /// Writer of the status objects of MetalLB; `None` without its namespace.
    status_writer: Option<StatusWriter>,
    /// Services whose announcement was reported.
    announced: BTreeSet<ObjectKey>,
    reported_faults: Vec<InvalidObject>,
}

impl Speaker {
    /// Starts the speaker of a node.
    pub(super) fn start(
        client: Client,
        settings: Settings,
        metrics: Arc<Metrics>,
    ) -> Result<Self, SpeakerError> {
        let listeners = Listeners::start(settings.port)?;
        let (events, write_events) = EventQueue::new(EventRecorder::new(client.clone(), WallClock::system()));
        tokio::spawn(write_events);
        tracing::info!(
            node = settings.node_name,
            port = settings.port,
            "BGP speaker started"
        );
        Ok(Self {
            inputs: Inputs::start(&client, &settings),
            passwords: Passwords::new(client.clone()),
            status_writer: settings
                .metallb_namespace
                .as_deref()
                .map(|namespace| StatusWriter::start(client, namespace)),
            start: Instant::now(),
            is_after_boot: since_boot() < Duration::from_secs(RESTART_SECONDS.into()),
            listeners,
            bfd: Bfd::new(),
            routers: RouterDiscovery::new(),
            configuration: Configuration::default(),
            sessions: BTreeMap::new(),
            reports: BTreeMap::new(),
            ending: JoinSet::new(),
            cordoned_since: None,
            events,
            metrics,
            announced: BTreeSet::new(),
            reported_faults: Vec::new(),
            settings,
        })
    }

    /// Waits for an input and applies it.
    pub(super) async fn step(&mut self) {
        let drain_end = self.cordoned_since.map(|since| since + Drain::DELAY);
        tokio::select! {
            () = self.inputs.next() => {}
            (stream, peer) = self.listeners.accept() => {
                let peer = peer.to_canonical();
                self.accept(stream, peer);
                return;
            }
            () = self.passwords.changed() => {}
            () = self.routers.changed() => {}
            () = served_changed(&mut self.settings.served) => {}
            change = self.bfd.changed() => {
                self.metrics.set_bfd(&display(&change.peer), change.is_up);
                if let Some(session) = self.sessions.get(&change.peer).filter(|_| change.is_lost) {
                    session.bfd_lost();
                }
                return;
            }
            () = wait_until(drain_end.filter(|end| *end > Instant::now())) => {}
            Some(_) = self.ending.join_next() => return,
        }
        if self.inputs.are_synced() {
            self.apply().await;
        }
    }

    /// Passes a connection to the session of its peer. Connections of others are closed.
    fn accept(&self, stream: TcpStream, peer: IpAddr) {
        let device = match sockets::device(&stream) {
            Ok(device) => device,
            Err(error) => {
                tracing::debug!(%peer, %error, "accepted connection closed");
                return;
            }
        };
        let sessions = self.sessions.values();
        let possible = sessions.filter(|session| session.accepts_connection_from(peer, device.as_deref()));
        // A peer in the VRF of the connection precedes one without a VRF.
        if let Some(session) = possible.max_by_key(|session| session.settings.socket.vrf.is_some()) {
            session.accept(stream);
        }
    }

    /// Ends all sessions for a successor process. Peers with graceful restart keep the routes. The edge ends with this
    /// process, so its routes are withdrawn before, unless the edge of the successor serves them.
    pub(super) async fn stop(&mut self) {
        let served = self.settings.served.as_ref();
        if served.is_some_and(|served| !is_handed_over(served)) {
            let drain = self.drain();
            self.set_routes(&self.decide(drain, &BTreeSet::new()));
        }
        for session in std::mem::take(&mut self.sessions).into_values() {
            self.ending.spawn(session.stop(Stop::Restart));
        }
        while self.ending.join_next().await.is_some() {}
    }

    /// Applies the current objects: sessions, routes and reports.
    async fn apply(&mut self) {
        if let Some(objects) = &self.inputs.objects {
            let namespace = self.settings.metallb_namespace.as_deref().unwrap_or_default();
            self.configuration = Configuration::of(objects, namespace);
        }
        self.passwords.set_referenced(&self.configuration);
        let drain = self.drain();
        let served = self
            .settings
            .served
            .as_ref()
            .map(|served| Arc::clone(&served.borrow()));
        let routes = self.decide(drain, &served.unwrap_or_default());
        self.routers.set_links(&self.links(&routes));
        let mut faults = BTreeMap::new();
        let desired = self.desired_sessions(&routes, &mut faults);
        self.update_sessions(desired).await;
        self.set_routes(&routes);
        self.report(&routes, drain, &faults);
    }

    fn set_routes(&self, routes: &NodeRoutes) {
        for (name, session) in &self.sessions {
            if let Some(routes) = routes.peers.get(name) {
                session.set_routes(routes);
            }
        }
    }

    /// Decides about the routes of this node, whose edge serves the addresses.
    fn decide(&self, drain: Drain, served: &BTreeSet<IpAddr>) -> NodeRoutes {
        NodeRoutes::decide(
            &self.inputs.cluster,
            &self.configuration,
            &self.settings.node_name,
            drain,
            served,
        )
    }

    fn drain(&mut self) -> Drain {
        let is_cordoned = self.inputs.cluster.is_cordoned(&self.settings.node_name);
        if is_cordoned {
            self.cordoned_since.get_or_insert_with(Instant::now);
        } else {
            self.cordoned_since = None;
        }
        let since = self.cordoned_since.map(|since| since.duration_since(self.start));
        Drain::at(since, self.start.elapsed())
    }

    /// Returns the links of the peers of this node without a configured address.
    fn links(&self, routes: &NodeRoutes) -> BTreeSet<String> {
        let peers = routes.peers.keys();
        let locations = peers.filter_map(|name| match &self.configuration.peers.get(name)?.location {
            Location::Link(link) => Some(link.clone()),
            Location::Address(_) => None,
        });
        locations.collect()
    }

    /// Returns the address of a peer, or the reason why it is unknown.
    fn remote(&self, peer: &Peer) -> Result<SocketAddr, String> {
        match &peer.location {
            Location::Address(address) => Ok(SocketAddr::new(*address, peer.port)),
            Location::Link(link) => {
                let router = self.routers.router(link);
                let router = router
                    .ok_or_else(|| format!("no router advertisement has arrived on the link {link} yet"))?;
                Ok(router.port(peer.port))
            }
        }
    }

    /// Returns the settings of the sessions of this node, and the faults of peers without one.
    fn desired_sessions(
        &self,
        routes: &NodeRoutes,
        faults: &mut BTreeMap<Name, String>,
    ) -> BTreeMap<Name, (SessionSettings, Option<BfdSettings>)> {
        let mut desired = BTreeMap::new();
        let mut remotes = BTreeSet::new();
        for name in routes.peers.keys() {
            let Some(peer) = self.configuration.peers.get(name) else {
                continue;
            };
            let key = match peer
                .password
                .as_ref()
                .map(|password| self.passwords.key(password))
                .transpose()
            {
                Ok(key) => key,
                Err(fault) => {
                    let fault = if fault.is_empty() {
                        "the Secret was not read yet".to_owned()
                    } else {
                        fault
                    };
                    faults.insert(name.clone(), fault);
                    continue;
                }
            };
            let remote = match self.remote(peer) {
                Ok(remote) => remote,
                Err(fault) => {
                    faults.insert(name.clone(), fault);
                    continue;
                }
            };
            // An incoming connection and a key of TCP MD5 belong to an address, whatever the port.
            if !remotes.insert((peer.location.clone(), peer.vrf.clone())) {
                faults.insert(name.clone(), "another BGPPeer has the same address".to_owned());
                continue;
            }
            let settings = self.session_settings(peer, remote, key);
            let bfd = peer.bfd.map(|profile| BfdSettings::of(peer, &profile, remote));
            desired.insert(name.clone(), (settings, bfd));
        }
        desired
    }

    fn session_settings(&self, peer: &Peer, remote: SocketAddr, key: Option<Key>) -> SessionSettings {
        let addresses = self.inputs.cluster.addresses_of(&self.settings.node_name);
        let (families, link) = match &peer.location {
            Location::Link(link) => (Family::ALL.to_vec(), Some(link.clone())),
            Location::Address(_) if peer.is_dual_stack => (Family::ALL.to_vec(), None),
            Location::Address(address) => (vec![Family::of_address(address)], None),
        };
        let is_internal =
            matches!(peer.peer_as, PeerSystem::Internal) || peer.peer_as == PeerSystem::Number(peer.local_as);
        SessionSettings {
            peer: PeerSettings {
                local_as: peer.local_as,
                peer_as: peer.peer_as,
                router_id: peer
                    .router_id
                    .unwrap_or_else(|| router_id(&self.settings.node_name, &addresses)),
                hold_seconds: peer.hold_seconds,
                keepalive: peer.keepalive,
                connect_retry: peer.connect_retry,
                is_passive: peer.is_passive,
                families,
                restart_seconds: peer.has_graceful_restart.then_some(RESTART_SECONDS),
                is_after_boot: self.is_after_boot,
            },
            socket: SocketOptions {
                remote,
                link,
                source: peer.source,
                vrf: peer.vrf.clone(),
                ttl: match (peer.has_ttl_security, is_internal || peer.is_multi_hop) {
                    (true, _) => Ttl::Secured,
                    (false, true) => Ttl::Routed,
                    (false, false) => Ttl::Link,
                },
                key,
            },
        }
    }

    /// Starts, replaces and ends sessions.
    async fn update_sessions(&mut self, desired: BTreeMap<Name, (SessionSettings, Option<BfdSettings>)>) {
        let mut keys = BTreeMap::<Option<String>, BTreeMap<IpAddr, Key>>::new();
        for (settings, _) in desired.values() {
            let socket = &settings.socket;
            let vrf_keys = keys.entry(socket.vrf.clone()).or_default();
            vrf_keys.extend(socket.key.clone().map(|key| (socket.remote.ip(), key)));
        }
        self.listeners.set_peers(keys);
        let changed: Vec<Name> = self
            .sessions
            .iter()
            .filter(|(name, session)| {
                desired
                    .get(*name)
                    .is_none_or(|(settings, _)| *settings != session.settings)
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in changed {
            let reason = if desired.contains_key(&name) {
                Stop::SettingsChanged
            } else {
                Stop::Deconfigured
            };
            if let Some(session) = self.sessions.remove(&name) {
                self.ending.spawn(session.stop(reason));
            }
        }
        // A session to the same peer must not start before the end of the former session.
        while self.ending.join_next().await.is_some() {}
        self.reports.retain(|name, _| desired.contains_key(name));
        let bfd = desired
            .iter()
            .filter_map(|(name, (_, bfd))| Some((name.clone(), bfd.clone()?)));
        self.bfd.set(bfd.collect());
        for (name, (settings, _)) in desired {
            if !self.sessions.contains_key(&name) {
                let report = Arc::clone(self.reports.entry(name.clone()).or_default());
                self.sessions
                    .insert(name, Session::start(settings, self.start, report));
            }
        }
    }

    /// Updates metrics and status, and records Events about changes.
    fn report(&mut self, routes: &NodeRoutes, drain: Drain, faults: &BTreeMap<Name, String>) {
        let mut reported = ReportedSpeaker {
            drain: match drain {
                Drain::None => None,
                Drain::Yielding => Some("cordoned; routes have the community GRACEFUL_SHUTDOWN".to_owned()),
                Drain::Withdrawn => {
                    Some("cordoned; routes that other nodes announce are withdrawn".to_owned())
                }
            },
            faults: self
                .configuration
                .invalid
                .iter()
                .map(ToString::to_string)
                .collect(),
            ..ReportedSpeaker::default()
        };
        if routes.excess_communities > 0 {
            let fault = format!(
                "{} times, a community is left out: a route has too many",
                routes.excess_communities
            );
            reported.faults.push(fault);
        }
        for name in routes.peers.keys() {
            let Some(peer) = self.configuration.peers.get(name) else {
                continue;
            };
            let session = self.reports.get(name).map(Arc::clone).unwrap_or_default();
            let entry = ReportedPeer {
                address: peer.location.to_string(),
                vrf: peer.vrf.clone(),
                bfd: peer.bfd.is_some().then(|| self.bfd.is_up(name)),
                fault: faults.get(name).cloned(),
                session,
            };
            reported.peers.insert(display(name), entry);
        }
        self.metrics.set(reported);
        self.write_status(routes);
        self.record_events(routes);
    }

    /// Reports to MetalLB's status objects.
    fn write_status(&self, routes: &NodeRoutes) {
        let Some(writer) = &self.status_writer else {
            return;
        };
        let invalid = self.configuration.invalid.iter();
        writer.set(metallb_status::ReportedNode {
            node: self.settings.node_name.clone(),
            node_uid: self.inputs.cluster.uid_of(&self.settings.node_name),
            services: routes.service_peers.clone(),
            faults: invalid
                .filter(|invalid| invalid.name.0 == Group::MetalLb)
                .map(ToString::to_string)
                .collect(),
        });
    }

    fn reference(&self, invalid: &InvalidObject) -> ObjectReference {
        let (group, name) = &invalid.name;
        let namespace = match group {
            Group::Portolan => None,
            Group::MetalLb => self.settings.metallb_namespace.clone(),
        };
        ObjectReference {
            api_version: format!("{group}/{}", invalid.version()),
            kind: invalid.kind.to_owned(),
            namespace: namespace.unwrap_or_default(),
            name: name.clone(),
            uid: invalid.uid.clone(),
            ..ObjectReference::default()
        }
    }

    fn record_events(&mut self, routes: &NodeRoutes) {
        for (key, uid) in &routes.services {
            if self.announced.insert(key.clone()) {
                let message = format!(
                    "announcing from node {:?} with protocol \"bgp\"",
                    self.settings.node_name
                );
                self.events.record(EventBatch {
                    component: COMPONENT,
                    regarding: ObjectReference::service(key.clone(), uid.clone()),
                    events: vec![EventText::normal("nodeAssigned", message)],
                });
            }
        }
        self.announced.retain(|key| routes.services.contains_key(key));
        for invalid in &self.configuration.invalid {
            if !self.reported_faults.contains(invalid) {
                tracing::error!(error = %invalid, "BGP object ignored");
                self.events.record(EventBatch {
                    component: COMPONENT,
                    regarding: self.reference(invalid),
                    events: vec![EventText::warning("Invalid", invalid.reason.clone())],
                });
            }
        }
        self.reported_faults.clone_from(&self.configuration.invalid);
    }
}

/// Returns the name of a BGPPeer in reports.
fn display((group, name): &Name) -> String {
    format!("{group}/{name}")
}

/// Returns the BGP identifier of a node: its address of IPv4, or a number from its name.
fn router_id(node: &str, addresses: &BTreeSet<IpAddr>) -> Ipv4Addr {
    let ipv4 = addresses.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    });
    // The hash is the same for each start of a node, and seldom the same for two nodes.
    ipv4.unwrap_or_else(|| Ipv4Addr::from(fnv1a_32(node.bytes()).max(1)))
}

/// Waits for the next change of the served addresses; never resolves without an edge.
async fn served_changed(served: &mut Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>) {
    if let Some(served) = served
        && served.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Returns true if the edge has ended and left its addresses to a successor process.
fn is_handed_over(served: &watch::Receiver<Arc<BTreeSet<IpAddr>>>) -> bool {
    served.has_changed().is_err() && !served.borrow().is_empty()
}

async fn wait_until(time: Option<Instant>) {
    match time {
        // A timer may fire slightly early.
        Some(time) => sleep_until(time + Duration::from_millis(1)).await,
        None => std::future::pending().await,
    }
}
