//! The loop around the core: probes, questions, news of the API and time in; messages, frames, writes and Events out.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::object::{Lease, Node, Resource};
use balancer::EventRecorder;
use client::{Client, Event, WallClock};
use netlink::clock::since_boot;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::caches::{Told, Touched, World};
use crate::desired_announcements::withheld::Withheld;
use crate::election::capabilities::Means;
use crate::election::membership_store::{self, Outcome};
use crate::election::{Core, Identity};
use crate::handoff::forwarding::Leads;
use crate::l2::links::LinkSelection;
use crate::l2::ports::{Asked, Ports};
use crate::metrics::Metrics;
use crate::protocol::keys::{Keyring, Secret};
use crate::protocol::message::BYTES_MAX;
use crate::status::Status;
use crate::{NodeName, Time};

mod conntrack;
mod effects;
mod forwarding;
mod membership;
mod withheld;

/// Who tells Events.
const COMPONENT: &str = "portolan-announcer";
/// Watch events of the list of members that wait for the loop.
const EVENTS_WAITING_MAX: usize = 64;
/// Questions answered in one step: whoever asks without rest has to wait, and nothing else.
const ANSWERED_AT_ONCE_MAX: usize = 64;
/// How often links are looked for.
const LINKS_PERIOD: Duration = Duration::from_secs(2);
/// How often it is told how things are, for people; with many addresses less often, so that at most one part in
/// [`STATUS_SHARE`] of the time goes into it.
const STATUS_PERIOD: Duration = Duration::from_secs(1);
const STATUS_SHARE: u32 = 100;
/// How long others may take at the end to take the addresses over.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(2);
/// Pause between two tries to read the own Node.
const NODE_RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Settings of an announcer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Node that this process is on.
    pub node_name: String,
    /// Where other nodes' probes reach it; the Node's first InternalIP if not given.
    pub node_ip: Option<IpAddr>,
    /// UDP port of the probes, the same on all nodes.
    pub port: u16,
    /// The links that addresses are announced on, unless their pools name others.
    pub links: LinkSelection,
    /// The addresses that the edge of this process serves; `None` if it has none. Addresses of Services that are the
    /// edge's are answered for only as long as they are among them, and the kernel is kept from answering by itself for
    /// what is local: it would go on when this process stands still.
    pub served: Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>,
}

/// Why an announcer does not run.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// Another process has the port, or the address is not this machine's. The next try may succeed.
    #[error("listening for other nodes' probes at UDP {address}: {source}; is another announcer running?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What failed.
        source: io::Error,
    },
    /// The kernel gives no random numbers.
    #[error("the kernel gives no random numbers")]
    Random,
}

/// Announces addresses until `shutdown` resolves; then others take them over first, if that does not take too long.
///
/// # Errors
/// See [`AnnounceError`].
pub async fn run(
    client: Client,
    settings: Settings,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), AnnounceError> {
    tokio::pin!(shutdown);
    let node_ip = match settings.node_ip {
        Some(address) => address,
        None => tokio::select! {
            () = &mut shutdown => return Ok(()),
            address = internal_ip(&client, &settings.node_name) => address,
        },
    };
    let mut announcer = Announcer::start(client, settings, node_ip, metrics).await?;
    let end = async {
        loop {
            announcer.step().await;
        }
    };
    tokio::select! {
        () = &mut shutdown => {}
        () = end => {}
    }
    announcer.hand_over().await;
    Ok(())
}

/// The first InternalIP of a Node, as soon as it has one.
async fn internal_ip(client: &Client, node_name: &str) -> IpAddr {
    let path = format!("{}/{node_name}", Node::collection(None));
    loop {
        match client.get::<Node>(&path).await {
            Ok(node) => {
                let mut addresses = node.status.addresses.iter();
                let internal = addresses.find_map(|address| {
                    let address = (address.kind == "InternalIP").then_some(&address.address)?;
                    address.parse().ok()
                });
                if let Some(address) = internal {
                    return address;
                }
                tracing::info!(node_name, "the Node has no InternalIP yet");
            }
            Err(error) => tracing::warn!(node_name, %error, "the Node cannot be read yet"),
        }
        tokio::time::sleep(NODE_RETRY_PERIOD).await;
    }
}

/// One thing that happened.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time is on its way from a channel to the caches"
)]
enum News {
    World(Told),
    Lease(Event<Lease>),
    Datagram(io::Result<(usize, SocketAddr)>),
    Question(Asked),
    Written(Outcome),
    Forgetting(conntrack::Step),
    Links,
    /// The edge serves other addresses than before.
    Served,
    Time,
}

struct Announcer {
    client: Client,
    core: Core,
    world: World,
    keyring: Keyring,
    leases: Receiver<Event<Lease>>,
    socket: UdpSocket,
    datagram: Box<[u8; BYTES_MAX]>,
    ports: Ports,
    links_due: Instant,
    leads: Leads,
    forgetting: conntrack::Forgetting,
    /// Nodes that packets are sent on to and that did not answer on their links at the last look.
    unanswered: BTreeSet<NodeName>,
    /// Addresses that were last told to be withheld.
    withheld: BTreeMap<IpAddr, Withheld>,
    writes: JoinSet<Outcome>,
    served: Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>,
    node_name: String,
    events: EventRecorder,
    metrics: Arc<Metrics>,
    next_status: Time,
}

impl Announcer {
    async fn start(
        client: Client,
        settings: Settings,
        node_ip: IpAddr,
        metrics: Arc<Metrics>,
    ) -> Result<Self, AnnounceError> {
        let mut random = [0; 64];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| AnnounceError::Random)?;
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|n| random[at + n]));
        let address = SocketAddr::new(node_ip, settings.port);
        let socket = UdpSocket::bind(address)
            .await
            .map_err(|source| AnnounceError::Listen { address, source })?;
        let secret = Secret::new(std::array::from_fn(|n| random[32 + n]));
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
        let mut this = Self {
            keyring: Keyring::new(NodeName::clone(&identity.name), identity.incarnation, secret),
            core: Core::new(identity, since_boot()),
            world: World::follow(&client),
            leases: client::watch(&client, membership_store::query()).into_channel(EVENTS_WAITING_MAX),
            socket,
            datagram: Box::new([0; BYTES_MAX]),
            ports: Ports::new(settings.links, settings.served.is_some()),
            served: settings.served,
            links_due: Instant::now(),
            leads: Leads::start(since_boot()),
            forgetting: conntrack::Forgetting::default(),
            unanswered: BTreeSet::new(),
            withheld: BTreeMap::new(),
            writes: JoinSet::new(),
            events: EventRecorder::new(client.clone(), WallClock::system(), COMPONENT),
            node_name: settings.node_name,
            client,
            metrics,
            next_status: Time::ZERO,
        };
        this.tell_what_cannot_be_led();
        this.core.inherit(this.leads.left().iter().copied());
        Ok(this)
    }

    /// Waits for one thing to happen, takes it in with one of each kind that waits as well, and does what follows. So nobody
    /// who sends much, as anybody on the network can, keeps this node from the news of others.
    async fn step(&mut self) {
        let now = since_boot();
        let pause = self.core.next_wake(now).saturating_sub(now);
        let news = tokio::select! {
            biased;
            received = self.socket.recv_from(&mut self.datagram[..]) => News::Datagram(received),
            Some(asked) = self.ports.questions.recv() => News::Question(asked),
            () = changed(&mut self.served) => News::Served,
            () = tokio::time::sleep(pause) => News::Time,
            Some(Ok(outcome)) = self.writes.join_next() => News::Written(outcome),
            Some(step) = self.forgetting.next() => News::Forgetting(step),
            Some(event) = self.leases.recv() => News::Lease(event),
            told = self.world.next() => News::World(told),
            () = sleep_until(self.links_due) => News::Links,
        };
        self.take(news);
        for news in self.waiting(now + pause) {
            self.take(news);
        }
        self.follow_up();
        if self.next_status <= since_boot() {
            self.tell_status();
        }
    }

    /// Says how things are.
    fn tell_status(&mut self) {
        let now = since_boot();
        let mut status = Status::of(&self.core, &self.world.demand, now, |address| {
            self.may_answer(address)
        });
        status.cannot_lead = self.metrics.cannot_lead();
        self.metrics.tell_status(status);
        let end = since_boot();
        self.next_status = end + STATUS_PERIOD.max(end.saturating_sub(now) * STATUS_SHARE);
    }

    /// One piece of news of each kind, as far as there is one; the core is to be told the time at `due`.
    fn waiting(&mut self, due: Time) -> impl Iterator<Item = News> + use<> {
        let datagram = self.socket.try_recv_from(&mut self.datagram[..]);
        let datagram = datagram.ok().map(|received| News::Datagram(Ok(received)));
        let written = self.writes.try_join_next().and_then(Result::ok);
        let is_served_anew = self.served.as_mut().is_some_and(|served| {
            let is_new = served.has_changed().unwrap_or(false);
            served.mark_unchanged();
            is_new
        });
        let news = [
            datagram,
            (since_boot() >= due).then_some(News::Time),
            is_served_anew.then_some(News::Served),
            written.map(News::Written),
            self.forgetting.done().map(News::Forgetting),
            self.leases.try_recv().ok().map(News::Lease),
            (Instant::now() >= self.links_due).then_some(News::Links),
        ];
        let told = self.world.waiting().map(News::World);
        news.into_iter().flatten().chain(told)
    }

    fn take(&mut self, news: News) {
        match news {
            News::Datagram(Ok((bytes, source))) => self.take_datagram(bytes, source),
            News::Datagram(Err(error)) => tracing::debug!(%error, "a probe was not received"),
            News::Question((link, question)) => {
                self.answer(link, &question);
                for _ in 1..ANSWERED_AT_ONCE_MAX {
                    let Ok((link, question)) = self.ports.questions.try_recv() else {
                        break;
                    };
                    self.answer(link, &question);
                }
            }
            News::Time => self.core.tick(since_boot()),
            News::Served => {
                // What is gained by now may have to wait.
                self.follow_up();
                self.announce_served();
            }
            News::Written(outcome) => self.take_outcome(outcome),
            News::Forgetting(step) => self.take_forgetting(step),
            News::Lease(event) => self.take_lease(event),
            News::World(told) => {
                let touched = self.world.take(told);
                self.take_touched(touched);
            }
            News::Links => {
                self.links_due = Instant::now() + LINKS_PERIOD;
                self.look_for_links();
            }
        }
    }

    /// Services, slices, Nodes or pools are others than before.
    fn take_touched(&mut self, touched: Touched) {
        let Touched {
            addresses,
            are_nodes,
            are_pools,
        } = touched;
        if are_nodes {
            self.core.tell_nodes(since_boot(), self.world.nodes().clone());
        }
        if are_pools {
            self.look_for_links();
        }
        if addresses.is_empty() {
            return;
        }
        self.tell_means();
        self.tell_withheld(&addresses);
        let demand = &self.world.demand;
        let candidates = |address: &IpAddr| (*address, demand.candidates(*address));
        self.core
            .tell_demand(since_boot(), addresses.iter().map(candidates));
        if are_pools {
            // They may be announced elsewhere now.
            self.core.announce_again(since_boot(), addresses);
            self.join_groups();
        }
    }

    /// Uses the links that there are now.
    fn look_for_links(&mut self) {
        if self.ports.refresh(&self.world.demand.named_links()) {
            let held: Vec<IpAddr> = self.core.held().collect();
            self.core.announce_again(since_boot(), held);
        }
        let (own, gateways) = (self.ports.own_addresses(), self.ports.gateways().clone());
        let addresses = self.world.own_applied(own, gateways);
        self.take_touched(Touched {
            addresses,
            ..Touched::default()
        });
        self.tell_means();
        self.look_after_led();
        self.join_groups();
    }

    /// Tells what this node has of what addresses need.
    fn tell_means(&mut self) {
        let needed = self.world.demand.needed_links().into_iter();
        let lacks = needed
            .filter(|(_, links)| self.ports.lack(links))
            .map(|(id, _)| id);
        let means = Means {
            has_edge: self.served.is_some(),
            lacks: lacks.collect(),
        };
        self.core.tell_means(since_boot(), means);
    }

    fn join_groups(&mut self) {
        let demand = &self.world.demand;
        let held = self.core.held().map(|address| (address, demand.links(address)));
        self.ports.join_groups(held);
    }

    fn take_datagram(&mut self, bytes: usize, source: SocketAddr) {
        match self.keyring.open(source, &self.datagram[..bytes]) {
            Ok(message) => {
                Metrics::count(&self.metrics.probes_received);
                self.core.receive(since_boot(), source, &message);
            }
            Err(error) => {
                Metrics::count(&self.metrics.probes_refused);
                tracing::debug!(%source, %error, "a datagram is no member's");
            }
        }
    }

    /// Lets others take the addresses over.
    async fn hand_over(mut self) {
        self.core.leave(since_boot());
        self.follow_up();
        let handing_over = async {
            while self.core.held().next().is_some() || !self.core.is_all_told(since_boot()) {
                self.step().await;
            }
        };
        if tokio::time::timeout(HAND_OVER_PATIENCE, handing_over)
            .await
            .is_err()
        {
            tracing::warn!(patience = ?HAND_OVER_PATIENCE, "nobody took all addresses over");
        }
        self.core.give_up(since_boot());
        self.follow_up();
        self.leads.end();
        tracing::info!(
            announcements = self.metrics.announcements.load(Ordering::Relaxed),
            "announcer ended"
        );
    }
}

/// When the edge serves other addresses; never if there is none.
async fn changed(served: &mut Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>) {
    if let Some(served) = served
        && served.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
