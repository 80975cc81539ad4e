//! Event loop of the edge server. Inputs are watches, addresses of the announcer and faults of the edge. Outputs are
//! settings, local addresses, the report and Events.

mod addresses;
mod edge_instance;
mod fault_events;
mod other_processes;
mod report;
mod secrets;
mod watches;

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::object::{Node, ObjectKey, Resource};
use client::{Client, Event};
use tokio::sync::watch;
use tokio::time::Instant;

use self::addresses::NodeAddresses;
use self::edge_instance::EdgeInstance;
use self::fault_events::FaultEvents;
use self::report::ReportWriter;
use self::secrets::SecretReader;
use self::watches::Watches;
use super::state::{CookieSecret, EdgeState, NodeProperties, OwnedAddresses};
use super::{Addresses, ServeError, Settings};

/// Maximum number of events of a kind that are applied at once, so that a burst leads to one change of settings.
const BATCH_MAX: usize = 4_096;
/// Delay between attempts to read this Node or to write the report.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Timeout at shutdown for the announcer to release its addresses.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which the first settings wait for this Node, and for Services whose Secrets or Ingresses are unread. The
/// edge closes sockets of a predecessor that its first settings do not use.
const FIRST_SETTINGS_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the Services of this node until `shutdown` resolves or a successor takes the listening sockets
/// over. Then open connections have [`Settings::drain_timeout`] to finish.
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
    let mut server = EdgeServer::new(&client, settings, zone)?;
    let is_handed_over = loop {
        tokio::select! {
            () = &mut shutdown => break false,
            progress = server.step() => match progress? {
                Progress::Continue => {}
                Progress::HandedOver => break true,
            },
        }
    };
    server.shut_down(is_handed_over).await;
    Ok(())
}

/// Returns the zone of this Node at the start; `None` without such a Node. A watch follows later changes.
async fn own_zone(client: &Client, node_name: &str) -> Option<Arc<str>> {
    let path = format!("{}/{node_name}", Node::collection(None));
    loop {
        match client.get::<Node>(&path).await {
            Ok(node) => return node.zone().map(Into::into),
            Err(error) if error.is_not_found() => return None,
            Err(error) => tracing::warn!(node_name, %error, "Node not read; retrying"),
        }
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

/// Result of a step.
enum Progress {
    Continue,
    /// A successor has the listening sockets.
    HandedOver,
}

/// Watches and state of the running server.
struct EdgeServer {
    settings: Settings,
    watches: Watches,
    state: EdgeState,
    addresses: NodeAddresses,
    secrets: SecretReader,
    edge: EdgeInstance,
    fault_events: FaultEvents,
    report: ReportWriter,
    /// A successor on this node serves the addresses, or a predecessor.
    is_handed_over: bool,
    /// The own Node was read, or does not exist.
    has_node: bool,
    /// The edge has settings.
    has_settings: bool,
    /// End of [`FIRST_SETTINGS_TIMEOUT`].
    holds_until: Option<Instant>,
    /// Services whose settings wait until then.
    held: BTreeSet<ObjectKey>,
}

impl EdgeServer {
    fn new(client: &Client, settings: Settings, zone: Option<Arc<str>>) -> Result<Self, ServeError> {
        let node = NodeProperties {
            name: settings.node_name.as_str().into(),
            has_log_directory: settings.log_destinations.directory.is_some(),
            buckets: settings.buckets.clone(),
        };
        let (addresses, owned) = NodeAddresses::open(settings.owned.is_some())?;
        let mut this = Self {
            watches: Watches::start(client, &settings.node_name),
            state: EdgeState::new(node, owned),
            addresses,
            secrets: SecretReader::new(client.clone()),
            edge: EdgeInstance::new(zone, settings.sticky_secrets.clone().unwrap_or_default()),
            fault_events: FaultEvents::new(client.clone()),
            report: ReportWriter::new(client.clone(), settings.node_name.clone()),
            is_handed_over: false,
            has_node: false,
            has_settings: false,
            holds_until: None,
            held: BTreeSet::new(),
            settings,
        };
        if this.settings.sticky_secrets.is_some() {
            this.state.set_cookie_secret(CookieSecret::Present);
        }
        if this.settings.handover_socket.is_some() {
            // The edge receives the sockets of a predecessor when it starts.
            this.edge.start(&this.settings)?;
        }
        Ok(this)
    }

    /// Waits for an event, applies it with all other events that are ready, and updates the state that depends on them.
    async fn step(&mut self) -> Result<Progress, ServeError> {
        let wake = self.next_wake();
        tokio::select! {
            biased;
            () = &mut self.edge.handed_over => return Ok(Progress::HandedOver),
            is_alive = owned_changed(&mut self.settings.owned) => {
                if !is_alive {
                    // The announcer has ended and announces no address any more.
                    self.settings.owned = Some(watch::channel(Some(Addresses::new())).1);
                }
            }
            () = edge_instance::faults_changed(&mut self.edge.faults) => {
                self.fault_events.faults_changed(&self.edge.current_faults());
            }
            Some(event) = self.watches.node.recv() => self.node_event(event),
            Some(event) = watches::next(&mut self.watches.slices) => {
                self.watches.apply_slice(event, &mut self.state);
            }
            Some(event) = self.watches.services.recv() => {
                self.watches.apply_service(event, &mut self.state);
            }
            Some(event) = watches::next(&mut self.watches.targets) => {
                self.watches.apply_target(event, &mut self.state);
            }
            Some(event) = watches::next(&mut self.watches.classes) => {
                self.watches.apply_class(event, &mut self.state);
            }
            Some(event) = watches::next(&mut self.watches.ingresses) => {
                self.watches.apply_ingress(event, &mut self.state);
            }
            Some(Ok((key, result))) = self.secrets.reads.join_next() => {
                self.secrets.finish(&key, &result, &mut self.state, &mut self.edge);
            }
            Some(Ok((report, is_written))) = self.report.write.join_next() => {
                self.report.finish(report, is_written);
            }
            () = sleep_until(wake) => {}
        }
        self.watches.apply_ready(BATCH_MAX, &mut self.state);
        self.update()?;
        Ok(Progress::Continue)
    }

    fn next_wake(&self) -> Option<Instant> {
        let reads_secrets = self.reads_cookie_secret() || !self.state.secrets().is_empty();
        let next_round = reads_secrets.then_some(self.secrets.next_round);
        let hold = self.holds_until.filter(|until| *until > Instant::now());
        [
            self.addresses.next_wake(),
            next_round,
            self.report.next_wake(),
            hold,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Applies an event of this Node. A deleted Node has no zone.
    fn node_event(&mut self, event: Event<Node>) {
        match event {
            Event::Applied(node) => {
                self.edge.set_zone(node.zone().map(Into::into));
                let addresses = node.status.addresses.iter();
                let addresses = addresses.filter_map(|address| address.address.parse::<IpAddr>().ok());
                self.state.set_node_addresses(addresses.collect());
            }
            Event::Deleted(_) => self.edge.set_zone(None),
            Event::Synced => self.has_node = true,
            Event::Malformed { key, error } => {
                tracing::error!(node = %key, error, "malformed Node ignored; the zone stays");
            }
        }
    }

    /// Updates everything that depends on the caches, once they are synced.
    fn update(&mut self) -> Result<(), ServeError> {
        self.watches.follow_slices(&mut self.state);
        if !self.watches.are_synced(&self.state) {
            return Ok(());
        }
        let owned = self.owned();
        self.state.set_owned(owned);
        self.watches.follow_ingresses(&mut self.state);
        self.state.renew_ingress_plans();
        self.read_secrets();
        let mut changed = self.state.rebuild();
        changed.append(&mut self.held);
        if self.holds_first_settings() {
            self.held = changed;
        } else if !changed.is_empty() {
            self.apply(changed)?;
        }
        self.report_faults();
        Ok(())
    }

    /// Returns true while the first settings wait, after a hand-over from a predecessor.
    fn holds_first_settings(&mut self) -> bool {
        if self.has_settings || self.settings.handover_socket.is_none() {
            self.holds_until = None;
            return false;
        }
        let now = Instant::now();
        let until = *self.holds_until.get_or_insert(now + FIRST_SETTINGS_TIMEOUT);
        (self.state.has_pending() || !self.has_node) && now < until
    }

    fn owned(&mut self) -> OwnedAddresses {
        let Some(owned) = &self.settings.owned else {
            return OwnedAddresses::All;
        };
        let announced = owned.borrow().clone();
        let edge = &self.edge;
        self.addresses
            .update(Instant::now(), announced, || edge.busy_addresses())
    }

    /// Applies changed settings. An address becomes local before the edge listens on it, and the announcer
    /// answers for it only after that.
    fn apply(&mut self, changed: BTreeSet<ObjectKey>) -> Result<(), ServeError> {
        let addresses = self.state.addresses();
        let added = self.state.added_addresses();
        self.addresses.add(&added);
        if !self.edge.is_started() && !addresses.is_empty() {
            self.edge.start(&self.settings)?;
        }
        self.edge.apply(self.state.settings());
        self.has_settings = true;
        self.addresses.remove_others(&added);
        self.settings.served.send_if_modified(|served| {
            let has_changed = **served != addresses;
            if has_changed {
                *served = Arc::new(addresses);
            }
            has_changed
        });
        self.fault_events.enqueue(changed);
        Ok(())
    }

    fn read_secrets(&mut self) {
        let mut referenced = self.state.secrets();
        let is_referenced = |secret: &ObjectKey| referenced.contains_key(secret);
        self.state.certificates.retain(is_referenced);
        if self.reads_cookie_secret() {
            let secret = crate::cookie_secret::key();
            referenced.insert(secret.clone(), secret.namespace);
        }
        self.secrets.start(&referenced, &self.state);
    }

    fn reads_cookie_secret(&self) -> bool {
        self.settings.sticky_secrets.is_none() && self.state.uses_cookies()
    }

    /// Records Events about changed Services and writes the report.
    fn report_faults(&mut self) {
        let faults = self.edge.current_faults();
        let draining = self.addresses.draining();
        self.fault_events.record(&self.state, draining, &faults);
        self.fault_events.record_ingresses(&self.state);
        let own = self.fault_events.port_faults();
        let own = own.filter(|fault| !draining.contains(fault.address));
        self.report.update(own.cloned().collect());
    }

    /// Drains connections. Before that, other nodes take the addresses over, so that no client is refused.
    /// After a hand-over to a successor on this node, the addresses stay. They also stay if a predecessor still serves
    /// them.
    async fn shut_down(mut self, is_handed_over: bool) {
        self.is_handed_over = is_handed_over || self.edge.has_predecessor();
        if !self.is_handed_over
            && let Some(owned) = &mut self.settings.owned
        {
            let released = owned.wait_for(|owned| owned.as_ref().is_none_or(Addresses::is_empty));
            if tokio::time::timeout(RELEASE_TIMEOUT, released).await.is_err() {
                tracing::debug!("addresses still announced while connections drain");
            }
        }
        self.edge.drain(self.settings.drain_timeout).await;
        if !self.is_handed_over {
            self.addresses.remove_all().await;
        }
    }
}

impl Drop for EdgeServer {
    /// Withdraws all addresses from announcer and speaker, unless another process serves them.
    fn drop(&mut self) {
        if !self.is_handed_over {
            self.settings.served.send_replace(Arc::default());
        }
    }
}

/// Resolves when the announced addresses change. Returns false if the announcer has ended.
async fn owned_changed(owned: &mut Option<watch::Receiver<Option<Addresses>>>) -> bool {
    match owned {
        Some(owned) => match owned.has_changed() {
            // The channel that replaces an ended announcer never changes.
            Err(_) if owned.borrow().as_ref().is_some_and(Addresses::is_empty) => pending().await,
            _ => owned.changed().await.is_ok(),
        },
        None => pending().await,
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => pending().await,
    }
}
