//! The loop of a node's edge: news of the API, of the announcer and of the edge in; settings, local addresses, a report and
//! Events out.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::object::{EndpointSlice, Node, ObjectKey, Resource, Service};
use client::{Client, ClientError, Event, Query, WallClock, watch};
use edge::{Edge, Faults, StickySecrets};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::certificates;
use super::lingering::Lingering;
use super::local::LocalAddresses;
use super::secret::{self, Secret};
use super::world::{CookieSecret, Owned, Place, World};
use super::{Addresses, ServeError, Settings, status};
use crate::cookie_secret;
use crate::edge_report::{self, PortFault, RENEW_PERIOD, Report};
use crate::event_recorder::{EventRecorder, ServiceEvent};

/// Who tells Events.
const COMPONENT: &str = "portolan-edge";
/// Watch events that wait for the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 1_024;
/// Events taken in at once, so that a burst is applied once.
const TAKEN_AT_ONCE_MAX: usize = 4_096;
/// Reads of Secrets under way at once.
const UNDER_WAY_MAX: usize = 16;
/// Pause between two tries to read the own Node, or to write the report.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// How long addresses that a predecessor on this machine had count as this node's, though nobody has said so yet, from when
/// the announcer has begun: what it takes to get them back. It begins when a predecessor's has ended, which goes on as long
/// as connections of that process do.
const LEFTOVERS_LAST: Duration = Duration::from_secs(10);
/// How long the announcer may take at the end to hand the addresses over.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(3);

/// Lets the edge of this node serve its Services until `shutdown` resolves, or a successor has taken over; then
/// connections may finish.
///
/// # Errors
/// See [`ServeError`].
pub async fn run(
    client: Client,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    tokio::pin!(shutdown);
    let zone = tokio::select! {
        () = &mut shutdown => return Ok(()),
        zone = own_zone(&client, &settings.node_name) => zone,
    };
    let mut server = Server::new(client, settings, zone)?;
    let is_succeeded = loop {
        tokio::select! {
            () = &mut shutdown => break false,
            stepped = server.step() => match stepped? {
                Stepped::On => {}
                Stepped::Succeeded => break true,
            },
        }
    };
    server.end(is_succeeded).await;
    Ok(())
}

/// The zone of the own Node at the start; none if there is no such Node. It is followed from then on.
async fn own_zone(client: &Client, node_name: &str) -> Option<Arc<str>> {
    let path = format!("{}/{node_name}", Node::collection(None));
    loop {
        match client.get::<Node>(&path).await {
            Ok(node) => return node.zone().map(Into::into),
            Err(error) if error.is_not_found() => return None,
            Err(error) => tracing::warn!(node_name, %error, "the Node cannot be read yet"),
        }
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

/// What a step came to.
enum Stepped {
    On,
    /// Another process has the listening sockets now.
    Succeeded,
}

struct Server {
    client: Client,
    settings: Settings,
    zone: Option<Arc<str>>,
    /// The own Node, for its zone.
    node: Receiver<Event<Node>>,
    world: World,
    services: Receiver<Event<Service>>,
    has_services: bool,
    /// Followed only while a Service is the edge's: most clusters have none, and slices are many.
    slices: Option<Receiver<Event<EndpointSlice>>>,
    has_slices: bool,
    local: LocalAddresses,
    leftovers: Option<Leftovers>,
    lingering: Lingering,
    /// Runs as soon as there is something to serve.
    edge: Option<Arc<Edge>>,
    faults: Option<tokio::sync::watch::Receiver<Arc<Faults>>>,
    /// What cookies are made of, as far as is known.
    sticky_secrets: StickySecrets,
    handed_over: Pin<Box<dyn Future<Output = ()> + Send>>,
    reads: JoinSet<(ObjectKey, Result<Secret, ClientError>)>,
    /// Secrets that are still to be read in this round.
    to_read: BTreeSet<ObjectKey>,
    reading: BTreeSet<ObjectKey>,
    next_round: Instant,
    /// Services whose faults are to be told.
    to_tell: BTreeSet<ObjectKey>,
    /// The faults of ports of each Service that has any.
    port_faults: BTreeMap<ObjectKey, Vec<PortFault>>,
    reporting: Reporting,
    events: EventRecorder,
    told: status::Told,
    complained: BTreeSet<ObjectKey>,
}

/// The report of this node's edge, and what of it was written. Nothing is, before there is a fault.
#[derive(Default)]
struct Reporting {
    written: Report,
    /// The write that is under way, and whether it succeeded.
    write: JoinSet<(Report, bool)>,
    /// Time of the next renewal of a report with faults.
    renew_at: Option<Instant>,
    /// Time of the next attempt after a failed write.
    retry_at: Option<Instant>,
}

/// Addresses that a predecessor had.
struct Leftovers {
    addresses: Addresses,
    /// How long they count, once that is known.
    until: Option<Instant>,
}

impl Server {
    fn new(client: Client, settings: Settings, zone: Option<Arc<str>>) -> Result<Self, ServeError> {
        let local = LocalAddresses::open()?;
        let place = Place {
            node_name: settings.node_name.as_str().into(),
            has_directory: settings.log_places.directory.is_some(),
            buckets: settings.buckets.clone(),
        };
        let (owned, leftovers) = match &settings.owned {
            None => (Owned::All, None),
            Some(_) => {
                let leftovers = Leftovers {
                    addresses: local.are().clone(),
                    until: None,
                };
                (Owned::These(leftovers.addresses.clone()), Some(leftovers))
            }
        };
        let own_node = Query {
            field_selector: format!("metadata.name={}", settings.node_name),
            ..Query::default()
        };
        let mut this = Self {
            node: watch(&client, own_node).into_channel(EVENTS_WAITING_MAX),
            services: watch(&client, Query::default()).into_channel(EVENTS_WAITING_MAX),
            has_services: false,
            slices: None,
            has_slices: false,
            world: World::new(place, owned),
            local,
            leftovers,
            lingering: Lingering::default(),
            edge: None,
            faults: None,
            sticky_secrets: settings.sticky_secrets.clone().unwrap_or_default(),
            handed_over: Box::pin(pending()),
            reads: JoinSet::new(),
            to_read: BTreeSet::new(),
            reading: BTreeSet::new(),
            next_round: Instant::now(),
            to_tell: BTreeSet::new(),
            port_faults: BTreeMap::new(),
            reporting: Reporting::default(),
            events: EventRecorder::new(client.clone(), WallClock::system(), COMPONENT),
            told: status::Told::default(),
            complained: BTreeSet::new(),
            client,
            settings,
            zone,
        };
        if this.settings.sticky_secrets.is_some() {
            this.world.set_cookie_secret(CookieSecret::Known);
        }
        if this.settings.handover_socket.is_some() {
            // A predecessor's sockets are received when the edge starts.
            this.start_edge()?;
        }
        Ok(this)
    }

    /// Waits for one thing to happen, takes it in, and does what follows.
    async fn step(&mut self) -> Result<Stepped, ServeError> {
        let wake = self.next_wake();
        tokio::select! {
            biased;
            () = &mut self.handed_over => return Ok(Stepped::Succeeded),
            is_alive = changed(&mut self.settings.owned) => {
                if !is_alive {
                    // The announcer has ended: it answers for nothing any more.
                    self.settings.owned = Some(tokio::sync::watch::channel(Some(Addresses::new())).1);
                }
            }
            () = faulty(&mut self.faults) => self.take_faults(),
            Some(event) = self.node.recv() => self.take_node(event),
            Some(event) = next(&mut self.slices) => self.take_slice(event),
            Some(event) = self.services.recv() => self.take_service(event),
            Some(Ok((key, read))) = self.reads.join_next() => {
                self.reading.remove(&key);
                self.take_secret(&key, &read);
            }
            Some(Ok((report, is_written))) = self.reporting.write.join_next() => {
                self.take_written(report, is_written);
            }
            () = sleep_until(wake) => {}
        }
        for _ in 0..TAKEN_AT_ONCE_MAX {
            let Ok(event) = self.services.try_recv() else {
                break;
            };
            self.take_service(event);
        }
        for _ in 0..TAKEN_AT_ONCE_MAX {
            let Some(Ok(event)) = self.slices.as_mut().map(Receiver::try_recv) else {
                break;
            };
            self.take_slice(event);
        }
        self.follow_up()?;
        Ok(Stepped::On)
    }

    fn next_wake(&self) -> Option<Instant> {
        let leftovers = self.leftovers.as_ref().and_then(|leftovers| leftovers.until);
        let reads_secrets = self.reads_cookie_secret() || !self.world.secrets().is_empty();
        let round = reads_secrets.then_some(self.next_round);
        let reporting = self.reporting.retry_at.or(self.reporting.renew_at);
        let reporting = reporting.filter(|_| self.reporting.write.is_empty());
        let looking = self.lingering.next_look();
        [leftovers, round, reporting, looking].into_iter().flatten().min()
    }

    /// The own Node is another than before: its zone may be. One that is gone has none.
    fn take_node(&mut self, event: Event<Node>) {
        let zone: Option<Arc<str>> = match event {
            Event::Applied(node) => node.zone().map(Into::into),
            Event::Deleted(_) => None,
            Event::Synced => return,
            Event::Malformed { key, error } => {
                tracing::error!(node = %key, error, "the Node cannot be read, its zone stays as it was");
                return;
            }
        };
        if zone == self.zone {
            return;
        }
        tracing::info!(
            zone = zone.as_deref().unwrap_or_default(),
            "the node is in another zone"
        );
        self.zone = zone;
        if let Some(edge) = &self.edge {
            edge.set_zone(self.zone.clone());
        }
    }

    fn take_service(&mut self, event: Event<Service>) {
        match event {
            Event::Applied(service) => self.world.service_applied(service),
            Event::Deleted(key) => self.world.service_deleted(&key),
            Event::Synced => self.has_services = true,
            Event::Malformed { key, error } => {
                tracing::error!(service = %key, error, "the Service cannot be read and is skipped");
            }
        }
    }

    fn take_slice(&mut self, event: Event<EndpointSlice>) {
        match event {
            Event::Applied(slice) => self.world.slice_applied(slice),
            Event::Deleted(key) => self.world.slice_deleted(&key),
            Event::Synced => self.has_slices = true,
            Event::Malformed { key, error } => {
                tracing::error!(slice = %key, error, "the EndpointSlice cannot be read and is skipped");
            }
        }
    }

    /// Does what follows from what is known now.
    fn follow_up(&mut self) -> Result<(), ServeError> {
        self.follow_slices();
        if !self.has_services || (self.world.has_services() && !self.has_slices) {
            return Ok(());
        }
        let owned = self.owned();
        self.world.set_owned(owned);
        self.read_secrets();
        let touched = self.world.settle();
        if !touched.is_empty() {
            self.apply(&touched)?;
        }
        self.tell();
        Ok(())
    }

    fn follow_slices(&mut self) {
        if self.world.has_services() && self.slices.is_none() {
            self.slices = Some(watch(&self.client, Query::default()).into_channel(EVENTS_WAITING_MAX));
        } else if !self.world.has_services() && self.slices.is_some() {
            self.slices = None;
            self.has_slices = false;
            self.world.forget_slices();
        }
    }

    /// The addresses that this node has, with those that a predecessor had until a moment ago, and those that moved away and
    /// have connections here.
    fn owned(&mut self) -> Owned {
        let Some(owned) = &self.settings.owned else {
            return Owned::All;
        };
        let held = owned.borrow().clone();
        let now = Instant::now();
        if let Some(leftovers) = &mut self.leftovers {
            if leftovers.until.is_none() && held.is_some() {
                leftovers.until = Some(now + LEFTOVERS_LAST);
            }
            if leftovers.until.is_some_and(|until| until <= now) {
                self.leftovers = None;
            }
        }
        let mut addresses = held.unwrap_or_default();
        let edge = self.edge.as_deref();
        self.lingering.follow(now, &addresses, || busy(edge));
        addresses.extend(self.lingering.are());
        if let Some(leftovers) = &self.leftovers {
            addresses.extend(&leftovers.addresses);
        }
        Owned::These(addresses)
    }

    /// Lets the edge serve what is to be served. An address is local before the edge listens there, and is answered for
    /// only when it does.
    fn apply(&mut self, touched: &BTreeSet<ObjectKey>) -> Result<(), ServeError> {
        let addresses = self.world.addresses();
        for address in &addresses {
            if let Err(error) = self.local.add(*address) {
                tracing::error!(%address, %error, "the address cannot be made local, nobody can connect to it");
            }
        }
        if self.edge.is_none() && !addresses.is_empty() {
            self.start_edge()?;
        }
        if let Some(edge) = &self.edge {
            edge.apply(self.world.settings());
        }
        self.remove_all_but(&addresses);
        self.settings.served.send_if_modified(|served| {
            let is_new = **served != addresses;
            if is_new {
                *served = Arc::new(addresses);
            }
            is_new
        });
        self.to_tell.extend(touched.iter().cloned());
        Ok(())
    }

    fn remove_all_but(&mut self, addresses: &Addresses) {
        // What was left stays until it is known who has it.
        let kept = self.leftovers.as_ref().map(|leftovers| &leftovers.addresses);
        let gone = self.local.are().difference(addresses).copied();
        let gone: Vec<_> = gone
            .filter(|address| kept.is_none_or(|kept| !kept.contains(address)))
            .collect();
        for address in gone {
            if let Err(error) = self.local.remove(address) {
                tracing::warn!(%address, %error, "the address stays local until the next change");
            }
        }
    }

    fn start_edge(&mut self) -> Result<(), ServeError> {
        let edge = Edge::start(edge::Options {
            zone: self.zone.clone(),
            threads: self.settings.threads,
            connections_max: self.settings.connections_max,
            shares: self.settings.shares,
            log_destinations: self.settings.log_places.clone(),
            sticky_secrets: self.sticky_secrets.clone(),
            handover_socket: self.settings.handover_socket.clone(),
        })?;
        let edge = Arc::new(edge);
        self.settings.metrics.set(&edge);
        self.faults = Some(edge.faults());
        if self.settings.handover_socket.is_some() {
            let edge = Arc::clone(&edge);
            self.handed_over = Box::pin(async move { edge.handed_over().await });
        }
        self.edge = Some(edge);
        Ok(())
    }

    /// Starts to read Secrets: those that were never read at once, the others by turns.
    fn read_secrets(&mut self) {
        let mut wanted = self.world.secrets();
        self.world.certificates.keep(&wanted);
        if self.reads_cookie_secret() {
            wanted.insert(cookie_secret::key());
        }
        if wanted.is_empty() {
            self.to_read.clear();
            return;
        }
        let now = Instant::now();
        if self.next_round <= now {
            self.next_round = now + certificates::pause(wanted.len());
            self.to_read.extend(wanted.iter().cloned());
        }
        let new: Vec<ObjectKey> = wanted.iter().filter(|key| !self.is_read(key)).cloned().collect();
        self.to_read.extend(new);
        self.to_read
            .retain(|key| wanted.contains(key) && !self.reading.contains(key));
        // Those that clients wait for come first.
        let mut due: Vec<ObjectKey> = self.to_read.iter().cloned().collect();
        due.sort_by_key(|key| self.is_read(key));
        for key in due {
            if self.reads.len() >= UNDER_WAY_MAX {
                return;
            }
            self.to_read.remove(&key);
            self.reading.insert(key.clone());
            let client = self.client.clone();
            self.reads.spawn(async move {
                let read = secret::read(&client, &key).await;
                (key, read)
            });
        }
    }

    /// Whether the secret of cookies is to be read.
    fn reads_cookie_secret(&self) -> bool {
        self.settings.sticky_secrets.is_none() && self.world.gives_cookies()
    }

    /// Whether a Secret was read once.
    fn is_read(&self, key: &ObjectKey) -> bool {
        let is_of_cookies = self.world.knows_of_cookie_secret() && *key == cookie_secret::key();
        is_of_cookies || self.world.certificates.is_known(key)
    }

    fn take_secret(&mut self, key: &ObjectKey, read: &Result<Secret, ClientError>) {
        if *key == cookie_secret::key() {
            self.take_cookie_secret(read);
        }
        if self.world.certificates.take(key, read) {
            self.world.secret_changed(key);
        }
    }

    /// Cookies are made of what was read. What cannot be read leaves the secret that was good before in force.
    fn take_cookie_secret(&mut self, read: &Result<Secret, ClientError>) {
        let secrets = match read {
            Ok(secret) => cookie_secret::secrets(secret),
            Err(error) if error.is_not_found() => Err(format!("there is no Secret {}", cookie_secret::key())),
            Err(error) => Err(error.to_string()),
        };
        match secrets {
            Ok(secrets) => {
                if self.sticky_secrets != secrets {
                    if let Some(edge) = &self.edge {
                        edge.set_sticky_secrets(&secrets);
                    }
                    self.sticky_secrets = secrets;
                }
                self.world.set_cookie_secret(CookieSecret::Known);
            }
            Err(why) if self.sticky_secrets == StickySecrets::default() => {
                self.world.set_cookie_secret(CookieSecret::Missing(why.into()));
            }
            Err(why) => tracing::debug!(
                why,
                "cookies of sticky sessions are made of the secret that was read before"
            ),
        }
    }

    /// The edge has found something wrong, or right again.
    fn take_faults(&mut self) {
        let Some(faults) = &mut self.faults else { return };
        let faults = Arc::clone(&faults.borrow_and_update());
        let concerned: BTreeSet<ObjectKey> = status::messages(&faults).into_keys().collect();
        self.to_tell.extend(concerned.union(&self.complained).cloned());
        self.complained = concerned;
    }

    /// Tells what is wrong with Services that have changed, and reports it.
    fn tell(&mut self) {
        let faults = self.faults.as_ref().map(|faults| Arc::clone(&faults.borrow()));
        let faults = faults.unwrap_or_default();
        let mut messages = match self.to_tell.is_empty() {
            true => BTreeMap::new(),
            false => status::messages(&faults),
        };
        for key in std::mem::take(&mut self.to_tell) {
            let served = self.world.service(&key).map(|served| {
                let mut here = self.world.addresses_of(served);
                // Of an address that moved away its new owner tells.
                here.retain(|address| !self.lingering.has(*address));
                (served, here)
            });
            let Some((served, here)) = served.filter(|(_, here)| !here.is_empty()) else {
                self.told.news(&key, BTreeSet::new());
                self.port_faults.remove(&key);
                continue;
            };
            let mut wrong = messages.remove(&key).unwrap_or_default();
            wrong.extend(self.world.complaints(&key).iter().cloned());
            for message in self.told.news(&key, wrong) {
                let uid = &served.service.metadata.uid;
                self.events.record(ServiceEvent {
                    service: &key,
                    uid,
                    is_warning: true,
                    reason: "EdgeDegraded",
                    message,
                });
            }
            let of_service = status::port_faults(served, &here, &faults);
            match of_service.is_empty() {
                true => self.port_faults.remove(&key),
                false => self.port_faults.insert(key, of_service),
            };
        }
        self.report();
    }

    /// Writes the report if it says something else than before, or is to be renewed.
    fn report(&mut self) {
        let now = Instant::now();
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let reporting = &mut self.reporting;
        if !reporting.write.is_empty() || reporting.retry_at.is_some_and(|at| at > now) {
            return;
        }
        reporting.retry_at = None;
        let faults = self.port_faults.values().flatten();
        let own = faults.filter(|fault| !self.lingering.has(fault.address));
        let report: Report = own.cloned().collect();
        if report == reporting.written && !is_past(reporting.renew_at) {
            return;
        }
        let (client, node) = (self.client.clone(), self.settings.node_name.clone());
        reporting.write.spawn(async move {
            let written = edge_report::write(&client, &node, &report, WallClock::system().now()).await;
            if let Err(error) = &written {
                tracing::warn!(%error, "report of ports not written");
            }
            (report, written.is_ok())
        });
    }

    fn take_written(&mut self, report: Report, is_written: bool) {
        let now = Instant::now();
        let reporting = &mut self.reporting;
        reporting.retry_at = (!is_written).then(|| now + RETRY_PERIOD);
        if is_written {
            reporting.renew_at = (!report.is_empty()).then(|| now + RENEW_PERIOD);
            reporting.written = report;
        }
    }

    /// Lets connections finish. Addresses go to other nodes first, so that nobody is refused; where a successor on this node
    /// goes on, they stay.
    async fn end(mut self, is_succeeded: bool) {
        if !is_succeeded && let Some(owned) = &mut self.settings.owned {
            let handed_over = owned.wait_for(|owned| owned.as_ref().is_none_or(Addresses::is_empty));
            if tokio::time::timeout(HAND_OVER_PATIENCE, handed_over)
                .await
                .is_err()
            {
                tracing::debug!("addresses are still announced while connections finish");
            }
        }
        if let Some(edge) = self.edge.take() {
            edge.drain(self.settings.drain_patience).await;
        }
        if !is_succeeded {
            self.leftovers = None;
            self.remove_all_but(&Addresses::new());
        }
    }
}

impl Drop for Server {
    /// Without an edge nothing is to be answered for.
    fn drop(&mut self) {
        self.settings.served.send_replace(Arc::default());
    }
}

/// The addresses with connections.
fn busy(edge: Option<&Edge>) -> Addresses {
    let ports = edge.map_or_else(Vec::new, Edge::status);
    let busy = ports.into_iter().filter(|port| port.open_connections > 0);
    busy.flat_map(|port| port.addresses).collect()
}

/// The next event of what is followed; never if nothing is.
async fn next<T>(events: &mut Option<Receiver<T>>) -> Option<T> {
    match events {
        Some(events) => events.recv().await,
        None => pending().await,
    }
}

/// When the addresses of this node change: whether somebody is left to tell it.
async fn changed(owned: &mut Option<tokio::sync::watch::Receiver<Option<Addresses>>>) -> bool {
    match owned {
        Some(owned) => match owned.has_changed() {
            // One that nobody tells anything is waited for no more.
            Err(_) if owned.borrow().as_ref().is_some_and(Addresses::is_empty) => pending().await,
            _ => owned.changed().await.is_ok(),
        },
        None => pending().await,
    }
}

/// When the edge finds something wrong, or right again.
async fn faulty(faults: &mut Option<tokio::sync::watch::Receiver<Arc<Faults>>>) {
    if let Some(faults) = faults
        && faults.changed().await.is_ok()
    {
        return;
    }
    pending().await
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => pending().await,
    }
}
