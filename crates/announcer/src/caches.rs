//! Watches of the API: Services, EndpointSlices, Nodes and AddressPools.
//!
//! The announcer makes no decision before all initial lists have arrived. It announces only addresses of pools. It
//! therefore announces none if its role does not permit it to read AddressPools, or if the cluster does not have the
//! kind.

use std::collections::BTreeSet;
use std::future::pending;
use std::net::IpAddr;
use std::time::Duration;

use api::object::{AddressPool, EndpointSlice, Node, ObjectKey, Resource, Service};
use client::{Client, ClientError, Event, Query};
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::desired_announcements::DesiredAnnouncements;
use crate::egress::objects::EgressObjects;
use crate::{NodeName, Settings};
use balancer::metallb::objects::IpAddressPool;
use balancer::metallb::{self, Configurations};

/// Capacity of the queue of watch events per kind.
const EVENTS_QUEUED_MAX: usize = 1_024;
/// Maximum number of events per batch, so that a burst settles the election once.
const BATCH_EVENTS_MAX: usize = 1_024;
/// Delay between two checks of the right to read AddressPools.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Event of a watch.
pub(crate) enum CacheEvent {
    Service(Event<Service>),
    Slice(Event<EndpointSlice>),
    Node(Event<Node>),
    Pool(Event<AddressPool>),
    /// AddressPools cannot be read.
    PoolsUnavailable(ClientError),
    /// MetalLB's objects have changed.
    MetalLb,
}

/// Consequences of watch events.
#[derive(Debug, Default)]
pub(crate) struct CacheChanges {
    /// Addresses whose candidates may have changed.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// True if Node objects may have been added or removed.
    pub(crate) has_node_changes: bool,
    /// True if links of AddressPools may have changed.
    pub(crate) has_pool_changes: bool,
}

impl CacheChanges {
    /// Adds the consequences of later events.
    pub(crate) fn extend(&mut self, later: Self) {
        self.addresses.extend(later.addresses);
        self.has_node_changes |= later.has_node_changes;
        self.has_pool_changes |= later.has_pool_changes;
    }
}

/// Caches of the watched kinds.
pub(crate) struct Caches {
    pub(crate) desired: DesiredAnnouncements,
    pub(crate) egress: EgressObjects,
    nodes: BTreeSet<NodeName>,
    has_nodes: bool,
    services: Receiver<Event<Service>>,
    slices: Receiver<Event<EndpointSlice>>,
    node_events: Receiver<Event<Node>>,
    pools: Receiver<Event<AddressPool>>,
    /// Checks the right to read AddressPools.
    pool_errors: JoinSet<ClientError>,
    /// MetalLB's objects; `None` to ignore them.
    metallb: Option<Configurations>,
    /// Kinds whose initial list has not arrived.
    unsynced: BTreeSet<&'static str>,
}

impl Caches {
    /// Starts the watches.
    pub(crate) fn start(client: &Client, settings: &Settings) -> Self {
        let metallb = settings
            .metallb_namespace
            .as_deref()
            .map(|namespace| metallb::watch(client, namespace));
        let kinds = [Service::KIND, EndpointSlice::KIND, Node::KIND, AddressPool::KIND];
        let metallb_kind = metallb.as_ref().map(|_| IpAddressPool::KIND);
        let mut pool_errors = JoinSet::new();
        pool_errors.spawn(pool_error(client.clone()));
        Self {
            desired: DesiredAnnouncements::new(settings.ignores_exclude_label),
            egress: EgressObjects::default(),
            nodes: BTreeSet::new(),
            has_nodes: false,
            services: watch_all(client),
            slices: watch_all(client),
            node_events: watch_all(client),
            pools: watch_all(client),
            pool_errors,
            metallb,
            unsynced: kinds.into_iter().chain(metallb_kind).collect(),
        }
    }

    /// Waits for the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> CacheEvent {
        tokio::select! {
            biased;
            Some(event) = self.node_events.recv() => CacheEvent::Node(event),
            Some(event) = self.pools.recv() => CacheEvent::Pool(event),
            () = metallb::changed(&mut self.metallb) => CacheEvent::MetalLb,
            Some(event) = self.slices.recv() => CacheEvent::Slice(event),
            Some(event) = self.services.recv() => CacheEvent::Service(event),
            Some(Ok(error)) = self.pool_errors.join_next() => CacheEvent::PoolsUnavailable(error),
            else => pending().await,
        }
    }

    /// Returns one queued event of each kind.
    pub(crate) fn try_next(&mut self) -> impl Iterator<Item = CacheEvent> + use<> {
        let pool_errors = self.pool_errors.try_join_next().and_then(Result::ok);
        let metallb = self.metallb.as_ref();
        let has_metallb_changed = metallb.is_some_and(|metallb| metallb.has_changed().unwrap_or(false));
        let events = [
            self.node_events.try_recv().ok().map(CacheEvent::Node),
            self.pools.try_recv().ok().map(CacheEvent::Pool),
            self.slices.try_recv().ok().map(CacheEvent::Slice),
            self.services.try_recv().ok().map(CacheEvent::Service),
            pool_errors.map(CacheEvent::PoolsUnavailable),
            has_metallb_changed.then_some(CacheEvent::MetalLb),
        ];
        events.into_iter().flatten()
    }

    /// Applies an event and those queued behind it.
    pub(crate) fn apply(&mut self, event: CacheEvent) -> CacheChanges {
        let mut changes = CacheChanges::default();
        match event {
            CacheEvent::Node(event) => {
                changes.addresses = self.apply_node(event);
                changes.has_node_changes = self.has_nodes;
            }
            CacheEvent::Pool(event) => {
                let addresses = self.apply_pool(event);
                changes.has_pool_changes = addresses.is_some();
                changes.addresses = addresses.unwrap_or_default();
            }
            CacheEvent::MetalLb => {
                let addresses = self.apply_metallb();
                changes.has_pool_changes = addresses.is_some();
                changes.addresses = addresses.unwrap_or_default();
            }
            CacheEvent::PoolsUnavailable(error) => {
                tracing::error!(
                    %error,
                    "AddressPools not read, no address is announced; the announcer's role needs to list and watch \
                     addresspools of portolan.dev"
                );
                changes.addresses = self.synced(AddressPool::KIND);
            }
            CacheEvent::Slice(event) => {
                changes.addresses = self.apply_slice(event);
                for _ in 0..BATCH_EVENTS_MAX {
                    let Ok(event) = self.slices.try_recv() else { break };
                    changes.addresses.extend(self.apply_slice(event));
                }
            }
            CacheEvent::Service(event) => {
                changes.addresses = self.apply_service(event);
                for _ in 0..BATCH_EVENTS_MAX {
                    let Ok(event) = self.services.try_recv() else {
                        break;
                    };
                    changes.addresses.extend(self.apply_service(event));
                }
            }
        }
        if !self.unsynced.is_empty() {
            changes.addresses.clear();
        }
        changes
    }

    /// Returns true if all initial lists have arrived.
    pub(crate) fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// Returns the names of the Node objects.
    pub(crate) fn nodes(&self) -> &BTreeSet<NodeName> {
        &self.nodes
    }

    /// Sets the addresses of this host and its gateways. Returns the affected addresses.
    pub(crate) fn set_host_addresses(
        &mut self,
        own: BTreeSet<IpAddr>,
        gateways: BTreeSet<IpAddr>,
    ) -> BTreeSet<IpAddr> {
        let changes = self.desired.set_host_addresses(own, gateways);
        if self.unsynced.is_empty() {
            changes
        } else {
            BTreeSet::new()
        }
    }

    fn apply_node(&mut self, event: Event<Node>) -> BTreeSet<IpAddr> {
        match event {
            Event::Applied(node) => {
                self.nodes.insert(node.metadata.name.as_str().into());
                self.egress.apply_node(&node);
                self.desired.apply_node(&node)
            }
            Event::Deleted(key) => {
                self.nodes.remove(&key.name);
                self.egress.remove_node(&key.name);
                self.desired.remove_node(&key.name)
            }
            Event::Synced => {
                self.has_nodes = true;
                self.synced(Node::KIND)
            }
            Event::Malformed { key, error } => log_malformed(Node::KIND, &key, &error),
        }
    }

    fn apply_pool(&mut self, event: Event<AddressPool>) -> Option<BTreeSet<IpAddr>> {
        match event {
            Event::Applied(pool) => self.desired.apply_pool(&pool),
            Event::Deleted(key) => self.desired.remove_pool(&key.name),
            Event::Synced => Some(self.synced(AddressPool::KIND)),
            Event::Malformed { key, error } => Some(log_malformed(AddressPool::KIND, &key, &error)),
        }
    }

    fn apply_metallb(&mut self) -> Option<BTreeSet<IpAddr>> {
        let metallb = self.metallb.as_mut()?;
        let configuration = metallb.borrow_and_update().clone()?;
        let affected = self.desired.apply_metallb(configuration);
        let all = self.synced(IpAddressPool::KIND);
        if all.is_empty() { affected } else { Some(all) }
    }

    fn apply_slice(&mut self, event: Event<EndpointSlice>) -> BTreeSet<IpAddr> {
        match event {
            Event::Applied(slice) => {
                self.egress.apply_slice(&slice);
                self.desired.apply_slice(&slice)
            }
            Event::Deleted(key) => {
                self.egress.remove_slice(&key);
                self.desired.remove_slice(&key)
            }
            Event::Synced => self.synced(EndpointSlice::KIND),
            Event::Malformed { key, error } => log_malformed(EndpointSlice::KIND, &key, &error),
        }
    }

    fn apply_service(&mut self, event: Event<Service>) -> BTreeSet<IpAddr> {
        match event {
            Event::Applied(service) => {
                self.egress.apply_service(&service);
                self.desired.apply_service(&service)
            }
            Event::Deleted(key) => {
                self.egress.remove_service(&key);
                self.desired.remove_service(&key)
            }
            Event::Synced => self.synced(Service::KIND),
            Event::Malformed { key, error } => log_malformed(Service::KIND, &key, &error),
        }
    }

    /// Processes the end of an initial list. The last one affects all addresses.
    fn synced(&mut self, kind: &'static str) -> BTreeSet<IpAddr> {
        if self.unsynced.remove(kind) && self.unsynced.is_empty() {
            return self.desired.addresses().collect();
        }
        BTreeSet::new()
    }
}

fn watch_all<T: Resource>(client: &Client) -> Receiver<Event<T>> {
    client::watch(client, Query::default()).into_channel(EVENTS_QUEUED_MAX)
}

/// Resolves with the error if AddressPools cannot be read because the right or the kind is missing. Never
/// resolves otherwise.
async fn pool_error(client: Client) -> ClientError {
    let path = format!("{}?limit=1", AddressPool::collection(None));
    loop {
        match client.get::<Value>(&path).await {
            Ok(_) => pending().await,
            Err(error) if matches!(error.code(), Some(403 | 404)) => return error,
            // The watch reports the error.
            Err(error) => tracing::debug!(%error, "right to read AddressPools not checked"),
        }
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

fn log_malformed(kind: &'static str, key: &ObjectKey, error: &str) -> BTreeSet<IpAddr> {
    tracing::error!(kind, object = %key, error, "malformed object ignored");
    BTreeSet::new()
}
