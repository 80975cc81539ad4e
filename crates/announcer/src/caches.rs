//! What the announcer knows of the API, as watches tell it: Services, EndpointSlices, Nodes and AddressPools.
//!
//! Nothing is concluded before each kind was told once as a whole. A role of an older version may not permit to read
//! AddressPools, and a cluster may not have the kind: then no address is known to be of a pool, and none is announced.

use std::collections::BTreeSet;
use std::future::pending;
use std::net::IpAddr;
use std::time::Duration;

use api::object::{AddressPool, EndpointSlice, Node, ObjectKey, Resource, Service};
use client::{Client, ClientError, Event, Query};
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::NodeName;
use crate::desired_announcements::Demand;

/// Watch events that wait for the loop, each kind its own.
const EVENTS_WAITING_MAX: usize = 1_024;
/// Events taken in at once, so that the core draws its conclusions once from a burst.
const TAKEN_AT_ONCE_MAX: usize = 1_024;
/// Pause between two tries to find out whether pools may be read.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// One thing that was told.
pub(crate) enum Told {
    Service(Event<Service>),
    Slice(Event<EndpointSlice>),
    Node(Event<Node>),
    Pool(Event<AddressPool>),
    /// Pools cannot be read here.
    NoPools(ClientError),
}

/// What follows from what was told.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Addresses for which other nodes may come into question than before.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Whether Nodes may have come or gone.
    pub(crate) are_nodes: bool,
    /// Whether pools may name other links than before.
    pub(crate) are_pools: bool,
}

/// All that is known.
pub(crate) struct World {
    pub(crate) demand: Demand,
    nodes: BTreeSet<NodeName>,
    has_nodes: bool,
    services: Receiver<Event<Service>>,
    slices: Receiver<Event<EndpointSlice>>,
    node_events: Receiver<Event<Node>>,
    pools: Receiver<Event<AddressPool>>,
    /// Finds out why pools cannot be read.
    no_pools: JoinSet<ClientError>,
    /// Kinds that were not told once as a whole: until then nothing is asked for.
    unsynced: BTreeSet<&'static str>,
}

impl World {
    /// Begins to watch.
    pub(crate) fn follow(client: &Client) -> Self {
        let mut no_pools = JoinSet::new();
        no_pools.spawn(refusal(client.clone()));
        Self {
            demand: Demand::default(),
            nodes: BTreeSet::new(),
            has_nodes: false,
            services: follow(client),
            slices: follow(client),
            node_events: follow(client),
            pools: follow(client),
            no_pools,
            unsynced: BTreeSet::from([Service::KIND, EndpointSlice::KIND, Node::KIND, AddressPool::KIND]),
        }
    }

    /// The next thing that is told. Nothing is lost if it is not waited for to the end.
    pub(crate) async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            Some(event) = self.node_events.recv() => Told::Node(event),
            Some(event) = self.pools.recv() => Told::Pool(event),
            Some(event) = self.slices.recv() => Told::Slice(event),
            Some(event) = self.services.recv() => Told::Service(event),
            Some(Ok(error)) = self.no_pools.join_next() => Told::NoPools(error),
            else => pending().await,
        }
    }

    /// One thing of each kind, as far as there is one.
    pub(crate) fn waiting(&mut self) -> impl Iterator<Item = Told> + use<> {
        let no_pools = self.no_pools.try_join_next().and_then(Result::ok);
        let told = [
            self.node_events.try_recv().ok().map(Told::Node),
            self.pools.try_recv().ok().map(Told::Pool),
            self.slices.try_recv().ok().map(Told::Slice),
            self.services.try_recv().ok().map(Told::Service),
            no_pools.map(Told::NoPools),
        ];
        told.into_iter().flatten()
    }

    /// Takes it in, with what waits behind it; what follows.
    pub(crate) fn take(&mut self, told: Told) -> Touched {
        let mut touched = Touched::default();
        match told {
            Told::Node(event) => {
                touched.addresses = self.take_node(event);
                touched.are_nodes = self.has_nodes;
            }
            Told::Pool(event) => {
                let addresses = self.take_pool(event);
                touched.are_pools = addresses.is_some();
                touched.addresses = addresses.unwrap_or_default();
            }
            Told::NoPools(error) => {
                tracing::error!(
                    %error,
                    "AddressPools cannot be read and no address is announced: the announcer's role needs to list and \
                     watch addresspools of portolan.dev"
                );
                touched.addresses = self.synced(AddressPool::KIND);
            }
            Told::Slice(event) => {
                touched.addresses = self.take_slice(event);
                for _ in 0..TAKEN_AT_ONCE_MAX {
                    let Ok(event) = self.slices.try_recv() else { break };
                    touched.addresses.extend(self.take_slice(event));
                }
            }
            Told::Service(event) => {
                touched.addresses = self.take_service(event);
                for _ in 0..TAKEN_AT_ONCE_MAX {
                    let Ok(event) = self.services.try_recv() else {
                        break;
                    };
                    touched.addresses.extend(self.take_service(event));
                }
            }
        }
        if !self.unsynced.is_empty() {
            touched.addresses.clear();
        }
        touched
    }

    /// All Nodes that there are.
    pub(crate) fn nodes(&self) -> &BTreeSet<NodeName> {
        &self.nodes
    }

    /// This machine has these addresses and gateways; the addresses that are concerned.
    pub(crate) fn own_applied(
        &mut self,
        own: BTreeSet<IpAddr>,
        gateways: BTreeSet<IpAddr>,
    ) -> BTreeSet<IpAddr> {
        let touched = self.demand.own_applied(own, gateways);
        if self.unsynced.is_empty() {
            touched
        } else {
            BTreeSet::new()
        }
    }

    fn take_node(&mut self, event: Event<Node>) -> BTreeSet<IpAddr> {
        match event {
            Event::Applied(node) => {
                self.nodes.insert(node.metadata.name.as_str().into());
                self.demand.node_applied(&node)
            }
            Event::Deleted(key) => {
                self.nodes.remove(&key.name);
                self.demand.node_deleted(&key.name)
            }
            Event::Synced => {
                self.has_nodes = true;
                self.synced(Node::KIND)
            }
            Event::Malformed { key, error } => malformed(Node::KIND, &key, &error),
        }
    }

    fn take_pool(&mut self, event: Event<AddressPool>) -> Option<BTreeSet<IpAddr>> {
        match event {
            Event::Applied(pool) => self.demand.pool_applied(&pool),
            Event::Deleted(key) => self.demand.pool_deleted(&key.name),
            Event::Synced => Some(self.synced(AddressPool::KIND)),
            Event::Malformed { key, error } => Some(malformed(AddressPool::KIND, &key, &error)),
        }
    }

    fn take_slice(&mut self, event: Event<EndpointSlice>) -> BTreeSet<IpAddr> {
        match event {
            Event::Applied(slice) => self.demand.slice_applied(&slice),
            Event::Deleted(key) => self.demand.slice_deleted(&key),
            Event::Synced => self.synced(EndpointSlice::KIND),
            Event::Malformed { key, error } => malformed(EndpointSlice::KIND, &key, &error),
        }
    }

    fn take_service(&mut self, event: Event<Service>) -> BTreeSet<IpAddr> {
        match event {
            Event::Applied(service) => self.demand.service_applied(&service),
            Event::Deleted(key) => self.demand.service_deleted(&key),
            Event::Synced => self.synced(Service::KIND),
            Event::Malformed { key, error } => malformed(Service::KIND, &key, &error),
        }
    }

    /// A kind was told as a whole; with the last of them all addresses are looked at.
    fn synced(&mut self, kind: &'static str) -> BTreeSet<IpAddr> {
        if self.unsynced.remove(kind) && self.unsynced.is_empty() {
            return self.demand.addresses().collect();
        }
        BTreeSet::new()
    }
}

fn follow<T: Resource>(client: &Client) -> Receiver<Event<T>> {
    client::watch(client, Query::default()).into_channel(EVENTS_WAITING_MAX)
}

/// Why pools cannot be read: for want of the right, or of the kind. Never if they can.
async fn refusal(client: Client) -> ClientError {
    let path = format!("{}?limit=1", AddressPool::collection(None));
    loop {
        match client.get::<Value>(&path).await {
            Ok(_) => pending().await,
            Err(error) if matches!(error.code(), Some(403 | 404)) => return error,
            // The watch tells what is wrong.
            Err(error) => tracing::debug!(%error, "it is not clear yet whether AddressPools can be read"),
        }
        tokio::time::sleep(RETRY_PERIOD).await;
    }
}

fn malformed(kind: &'static str, key: &ObjectKey, error: &str) -> BTreeSet<IpAddr> {
    tracing::error!(kind, object = %key, error, "the object cannot be read and is skipped");
    BTreeSet::new()
}
