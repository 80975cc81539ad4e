//! The announcer of a node: its parts, and the dispatch of their events.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::Client;
use netlink::clock::since_boot;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::{Instant, sleep_until};

use super::conntrack::{ConntrackFlusher, FlushEvent, log_failure};
use super::egress::{EgressCluster, EgressControl};
use super::forwarding::ForwardingControl;
use super::membership::{self, MembershipChange, MembershipClient, MembershipInput};
use super::probes::{Datagram, ProbeSocket};
use super::reporter::Reporter;
use super::served_addresses::ServedAddresses;
use super::standby::{self, BoundPort};
use super::standing_report::StandingReport;
use super::{AnnouncerError, Settings};
use crate::caches::{CacheChanges, CacheEvent, Caches};
use crate::election::capabilities::NodeCapabilities;
use crate::election::{Election, Identity};
use crate::l2::sockets::{LinkSockets, ReceivedRequest};
use crate::metrics::Metrics;
use crate::protocol::keys::{Keyring, SecretKey};
use crate::status::Status;
use crate::{NodeName, Time};

/// Maximum number of resolution requests per step, so that a flood delays only its sender.
const REQUESTS_BATCH_MAX: usize = 64;
/// Period of link refreshes.
const LINKS_PERIOD: Duration = Duration::from_secs(2);
/// Minimum period of status reports. With many addresses the period grows, so that reports take at most one part in
/// [`STATUS_TIME_SHARE`] of the time.
const STATUS_PERIOD: Duration = Duration::from_secs(1);
const STATUS_TIME_SHARE: u32 = 100;
/// Timeout at shutdown for other nodes to take the addresses over.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Input of the event loop.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time is on its way from a channel to the caches"
)]
enum Input {
    Cache(CacheEvent),
    Datagram(io::Result<Datagram>),
    Request(ReceivedRequest),
    Membership(MembershipInput),
    Flush(FlushEvent),
    LinkRefresh,
    /// The edge serves other addresses than before.
    Served,
    /// A successor connected or ended.
    Successor,
    Tick,
}

/// The parts of an announcer.
pub(super) struct Announcer {
    /// Address of the socket for probes.
    address: SocketAddr,
    pub(super) standing_report: StandingReport,
    pub(super) election: Election,
    pub(super) caches: Caches,
    pub(super) probes: ProbeSocket,
    pub(super) membership: MembershipClient,
    pub(super) sockets: LinkSockets,
    links_due: Instant,
    pub(super) forwarding: ForwardingControl,
    pub(super) conntrack: ConntrackFlusher,
    egress: EgressControl,
    pub(super) served: ServedAddresses,
    pub(super) reporter: Reporter,
    pub(super) metrics: Arc<Metrics>,
    next_status: Time,
}

impl Announcer {
    /// Starts the announcer of a node.
    pub(super) async fn start(
        client: Client,
        settings: Settings,
        mut caches: Caches,
        node_ip: IpAddr,
        metrics: Arc<Metrics>,
    ) -> Result<Self, AnnouncerError> {
        let mut random = [0; 64];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| AnnouncerError::Random)?;
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| random[at + index]));
        let address = SocketAddr::new(node_ip, settings.port);
        let (bound, changes) = bind(address, settings.waits_for_port, &mut caches).await?;
        // The member list is read after the exit of the predecessor: it must not be older than one that the
        // predecessor has seen. The request is on its way while this process prepares the kernel.
        let membership = MembershipClient::start(client.clone());
        let secret = SecretKey::new(std::array::from_fn(|index| random[32 + index]));
        let identity = Identity {
            name: settings.node_name.as_str().into(),
            incarnation: number(0),
            address,
            public_key: secret.public(),
            new_cluster: format!("{:016x}{:016x}", number(16), number(24)),
            seed: number(8),
        };
        tracing::info!(node = settings.node_name, %address, "announcer started");
        metrics.begin();
        let keyring = Keyring::new(NodeName::clone(&identity.name), identity.incarnation, secret);
        let served = ServedAddresses::new(settings.served);
        let forwarding = ForwardingControl::start(since_boot(), &metrics);
        let mut election = Election::new(identity, since_boot());
        if let Some(votes_until) = bound.votes_until {
            election.succeed(votes_until);
        }
        election.restore_after_crash(forwarding.recovered());
        let mut this = Self {
            address,
            standing_report: StandingReport::new(address),
            election,
            caches,
            probes: ProbeSocket::new(bound.socket, keyring, Arc::clone(&metrics)),
            membership,
            sockets: LinkSockets::new(settings.links, served.has_edge()),
            links_due: Instant::now(),
            forwarding,
            conntrack: ConntrackFlusher::default(),
            egress: EgressControl::new(NodeName::from(settings.node_name.as_str())),
            served,
            reporter: Reporter::new(client, settings.node_name, Arc::clone(&metrics)),
            metrics,
            next_status: Time::ZERO,
        };
        this.apply_changes(changes);
        Ok(this)
    }

    /// Waits for an input, processes it with one queued input of each other kind, and applies the effects. A flood of
    /// one kind, which any host on the network can send, therefore delays the others little.
    pub(super) async fn step(&mut self) {
        let now = since_boot();
        let pause = self.election.next_wake(now).saturating_sub(now);
        let input = tokio::select! {
            biased;
            received = self.probes.receive() => Input::Datagram(received),
            Some(request) = self.sockets.requests.recv() => Input::Request(request),
            () = self.served.changed() => Input::Served,
            () = self.standing_report.changed() => Input::Successor,
            () = tokio::time::sleep(pause) => Input::Tick,
            Some(event) = self.conntrack.next() => Input::Flush(event),
            input = self.membership.next() => Input::Membership(input),
            event = self.caches.next() => Input::Cache(event),
            () = sleep_until(self.links_due) => Input::LinkRefresh,
        };
        self.process(input);
        for input in self.queued_inputs(now + pause) {
            self.process(input);
        }
        self.apply_effects();
        self.apply_egress();
        if self.next_status <= since_boot() {
            self.report_status();
        }
    }

    /// Writes the desired state of egress to the kernel if it may have changed.
    fn apply_egress(&mut self) {
        let cluster = EgressCluster {
            election: &self.election,
            sockets: &self.sockets,
            metrics: &self.metrics,
            reporter: &self.reporter,
        };
        self.egress.apply(since_boot(), &mut self.caches, &cluster);
    }

    fn report_status(&mut self) {
        let now = since_boot();
        let mut status = Status::new(&self.election, &self.caches.desired, now, |address| {
            self.may_answer(address)
        });
        status.forwarding_unavailable = self.metrics.forwarding_unavailable();
        self.metrics.set_status(status);
        let end = since_boot();
        self.next_status = end + STATUS_PERIOD.max(end.saturating_sub(now) * STATUS_TIME_SHARE);
    }

    /// Returns one queued input of each kind; the tick is due at `tick`.
    fn queued_inputs(&mut self, tick: Time) -> impl Iterator<Item = Input> + use<> {
        let datagram = self.probes.try_receive();
        let inputs = [
            datagram.map(|datagram| Input::Datagram(Ok(datagram))),
            (since_boot() >= tick).then_some(Input::Tick),
            self.served.take_changed().then_some(Input::Served),
            self.membership.try_next_outcome().map(Input::Membership),
            self.conntrack.try_next().map(Input::Flush),
            self.membership.try_next_event().map(Input::Membership),
            (Instant::now() >= self.links_due).then_some(Input::LinkRefresh),
        ];
        let events = self.caches.try_next().map(Input::Cache);
        inputs.into_iter().flatten().chain(events)
    }

    /// Passes an input to the state machine.
    fn process(&mut self, input: Input) {
        match input {
            Input::Datagram(Ok(datagram)) => {
                if let Some(message) = self.probes.open(datagram) {
                    self.election.receive(since_boot(), datagram.1, &message);
                }
            }
            Input::Datagram(Err(error)) => tracing::debug!(%error, "probe not received"),
            Input::Request((link, request)) => {
                self.reply(link, &request);
                for _ in 1..REQUESTS_BATCH_MAX {
                    let Ok((link, request)) = self.sockets.requests.try_recv() else {
                        break;
                    };
                    self.reply(link, &request);
                }
            }
            Input::Tick => self.election.tick(since_boot()),
            // The effects of the step include the report to it.
            Input::Successor => {}
            Input::Served => {
                // Addresses that are acquired by now may wait for their edge.
                self.apply_effects();
                self.announce_served();
            }
            Input::Membership(MembershipInput::Written(outcome)) => {
                let change = match &outcome.lease {
                    Some(lease) => membership::read(lease),
                    None => outcome.is_missing.then_some(MembershipChange::Missing),
                };
                if let Some(change) = change {
                    self.change_membership(change);
                }
                self.election.written(since_boot(), outcome.result);
            }
            Input::Flush(event) => self.process_flush(event),
            Input::Membership(MembershipInput::Event(event)) => {
                if let Some(change) = membership::change_of(event) {
                    self.change_membership(change);
                }
            }
            Input::Cache(event) => {
                let changes = self.caches.apply(event);
                self.apply_changes(changes);
            }
            Input::LinkRefresh => {
                self.links_due = Instant::now() + LINKS_PERIOD;
                self.refresh_links();
            }
        }
    }

    fn change_membership(&mut self, change: MembershipChange) {
        let list = match change {
            MembershipChange::List(version, record) => Some((version, record)),
            MembershipChange::Missing => None,
            MembershipChange::Synced if self.election.record().is_none() => None,
            MembershipChange::Synced => return,
        };
        self.election.set_record(since_boot(), list);
        self.probes.set_record(self.election.record());
    }

    fn process_flush(&mut self, event: FlushEvent) {
        match event {
            FlushEvent::Collected(addresses, stale) => {
                for address in self.conntrack.collected(&addresses, stale) {
                    if self.may_answer(address) {
                        self.announce(address);
                    }
                }
            }
            FlushEvent::Flushed(count, failure) => {
                Metrics::add(&self.metrics.flushed, count);
                if let Some(error) = failure {
                    log_failure(&error);
                }
            }
        }
        self.start_collection();
    }

    /// Applies changes of Services, EndpointSlices, Nodes or AddressPools.
    fn apply_changes(&mut self, changes: CacheChanges) {
        let CacheChanges {
            addresses,
            has_node_changes,
            has_pool_changes,
        } = changes;
        if has_node_changes {
            self.election.set_nodes(since_boot(), self.caches.nodes().clone());
        }
        if has_pool_changes {
            self.refresh_links();
        }
        if addresses.is_empty() {
            return;
        }
        self.update_capabilities();
        self.reporter.update_withheld(&self.caches.desired, &addresses);
        let desired = &self.caches.desired;
        let candidates = |address: &IpAddr| (*address, desired.candidates(*address));
        self.election
            .set_candidates(since_boot(), addresses.iter().map(candidates));
        if has_pool_changes {
            // The links of the addresses may have changed.
            self.election.announce_again(since_boot(), addresses);
            self.update_groups();
        }
    }

    /// Updates the sockets by the current links.
    fn refresh_links(&mut self) {
        if self.sockets.refresh(&self.caches.desired.pool_links()) {
            let owned: Vec<IpAddr> = self.election.owned().collect();
            self.election.announce_again(since_boot(), owned);
        }
        let (own, gateways) = (self.sockets.host_addresses(), self.sockets.gateways().clone());
        let addresses = self.caches.set_host_addresses(own, gateways);
        self.apply_changes(CacheChanges {
            addresses,
            ..CacheChanges::default()
        });
        self.update_capabilities();
        self.check_forwarding();
        self.update_groups();
    }

    /// Advertises the link addresses, stops forwarding to unreachable nodes, and applies the rest.
    fn check_forwarding(&mut self) {
        self.election.set_link_addresses(self.sockets.link_addresses());
        let unreachable =
            self.forwarding
                .unreachable_nodes(&self.election, &self.sockets, &self.caches.desired);
        for node in unreachable {
            tracing::info!(
                node = &*node,
                "forwarding stopped; the node does not answer on its link"
            );
            self.election.node_unreachable(since_boot(), &node);
        }
        self.apply_forwarding();
    }

    fn update_capabilities(&mut self) {
        let required = self.caches.desired.required_links().into_iter();
        let missing = required
            .filter(|(_, links)| !self.sockets.has_any(links))
            .map(|(id, _)| id);
        let capabilities = NodeCapabilities {
            has_edge: self.served.has_edge(),
            missing_links: missing.collect(),
        };
        self.election.set_capabilities(since_boot(), capabilities);
    }

    /// Releases the addresses to other nodes and ends.
    pub(super) async fn shut_down(mut self) {
        self.election.leave(since_boot());
        self.apply_effects();
        let released = async {
            while self.election.owned().next().is_some() || !self.election.is_release_confirmed(since_boot())
            {
                self.step().await;
            }
        };
        if tokio::time::timeout(RELEASE_TIMEOUT, released).await.is_err() {
            tracing::warn!(timeout = ?RELEASE_TIMEOUT, "release of addresses incomplete");
        }
        self.election.give_up(since_boot());
        self.apply_effects();
        // The tables stay: without an announcer, Pods must not leave with the address of their node.
        self.egress.check_now();
        self.apply_egress();
        self.forwarding.delete();
        let successor = standby::report(self.address, self.election.votes_until()).await;
        tracing::info!(
            announcements = self.metrics.announcements.load(Ordering::Relaxed),
            "announcer stopped"
        );
        // The successor binds the port when its connection ends. The other sockets take the kernel milliseconds to
        // close.
        drop(self.probes);
        drop(successor);
    }
}

/// Binds the port of the probes. While a predecessor has it, the caches follow the API. Returns their changes, too.
async fn bind(
    address: SocketAddr,
    waits: bool,
    caches: &mut Caches,
) -> Result<(BoundPort, CacheChanges), AnnouncerError> {
    let mut changes = CacheChanges::default();
    let binding = standby::bind(address, waits);
    tokio::pin!(binding);
    loop {
        tokio::select! {
            biased;
            bound = &mut binding => return Ok((bound?, changes)),
            event = caches.next() => changes.extend(caches.apply(event)),
        }
    }
}
