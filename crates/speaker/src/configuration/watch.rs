//! Watches of the objects of both groups. The kinds may be missing and appear later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::object::{AddressPoolSpec, ObjectMeta, Resource};
use balancer::metallb::objects::IpAddressPoolSpec;
use client::{Client, ClientError, Event, Query};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout_at};

use super::objects::{
    BfdProfile, BfdProfileSpec, BgpAdvertisement, BgpAdvertisementSpec, BgpPeer, BgpPeerSpec, Community,
    CommunitySpec, MetalLbAdvertisement, MetalLbBfdProfile, MetalLbCommunity, MetalLbPeer, MetalLbPool, Pool,
};
use super::{Group, Name, Object, Objects};

/// Capacity of the channels between the watches and their consumer.
const EVENTS_MAX: usize = 256;
/// Maximum number of objects of each kind; it bounds the memory of the speaker.
const OBJECTS_MAX: usize = 1_000;
/// Delay between two checks for a missing kind.
const CHECK_PERIOD: Duration = Duration::from_secs(10);
/// Delay after a check that failed for another reason.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Time in which changes are collected into one configuration.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// Objects as they change; `None` until all kinds were read or found to be missing.
pub(crate) type Configurations = watch::Receiver<Option<Arc<Objects>>>;

/// A change of an object, or the end of a list.
enum Change {
    Peer(Name, Option<Object<BgpPeerSpec>>),
    Advertisement(Name, Option<Object<BgpAdvertisementSpec>>),
    Community(Name, Option<Object<CommunitySpec>>),
    Profile(Name, Option<Object<BfdProfileSpec>>),
    Pool(Name, Option<Object<AddressPoolSpec>>),
    MetalLbPool(Name, Option<Object<IpAddressPoolSpec>>),
    /// All objects of a kind are known.
    Synced(Group, &'static str),
}

/// Watches the objects until the receiver is dropped. MetalLB's are in a namespace; `None` to ignore them.
pub(crate) fn watch(client: &Client, metallb_namespace: Option<&str>) -> Configurations {
    let (sender, receiver) = watch::channel(None);
    let (changes, received) = mpsc::channel(EVENTS_MAX);
    let own = Source {
        client: client.clone(),
        group: Group::Portolan,
        namespace: None,
        changes,
    };
    let mut unsynced = BTreeSet::new();
    own.start::<BgpPeer, _>(Change::Peer, &mut unsynced);
    own.start::<BgpAdvertisement, _>(Change::Advertisement, &mut unsynced);
    own.start::<Community, _>(Change::Community, &mut unsynced);
    own.start::<BfdProfile, _>(Change::Profile, &mut unsynced);
    own.start::<Pool, _>(Change::Pool, &mut unsynced);
    if let Some(namespace) = metallb_namespace {
        let metallb = Source {
            group: Group::MetalLb,
            namespace: Some(namespace.to_owned()),
            ..own
        };
        metallb.start::<MetalLbPeer, _>(Change::Peer, &mut unsynced);
        metallb.start::<MetalLbAdvertisement, _>(Change::Advertisement, &mut unsynced);
        metallb.start::<MetalLbCommunity, _>(Change::Community, &mut unsynced);
        metallb.start::<MetalLbBfdProfile, _>(Change::Profile, &mut unsynced);
        metallb.start::<MetalLbPool, _>(Change::MetalLbPool, &mut unsynced);
    }
    tokio::spawn(async move {
        tokio::select! {
            () = collect(received, unsynced, &sender) => {}
            () = sender.closed() => {}
        }
    });
    receiver
}

/// Applies changes, and publishes the objects after each batch.
async fn collect(
    mut changes: mpsc::Receiver<Change>,
    mut unsynced: BTreeSet<(Group, &'static str)>,
    sender: &watch::Sender<Option<Arc<Objects>>>,
) {
    let mut objects = Objects::default();
    while let Some(change) = changes.recv().await {
        apply(&mut objects, &mut unsynced, change);
        let end = Instant::now() + BATCH_TIME;
        while let Ok(Some(change)) = timeout_at(end, changes.recv()).await {
            apply(&mut objects, &mut unsynced, change);
        }
        if unsynced.is_empty() {
            sender.send_if_modified(|present| {
                let is_changed = present.as_deref() != Some(&objects);
                if is_changed {
                    *present = Some(Arc::new(objects.clone()));
                }
                is_changed
            });
        }
    }
}

fn apply(objects: &mut Objects, unsynced: &mut BTreeSet<(Group, &'static str)>, change: Change) {
    match change {
        Change::Peer(name, object) => set(&mut objects.peers, name, object),
        Change::Advertisement(name, object) => set(&mut objects.advertisements, name, object),
        Change::Community(name, object) => set(&mut objects.communities, name, object),
        Change::Profile(name, object) => set(&mut objects.profiles, name, object),
        Change::Pool(name, object) => set(&mut objects.pools, name, object),
        Change::MetalLbPool(name, object) => set(&mut objects.metallb_pools, name, object),
        Change::Synced(group, kind) => {
            unsynced.remove(&(group, kind));
        }
    }
}

fn set<S>(objects: &mut BTreeMap<Name, Object<S>>, name: Name, object: Option<Object<S>>) {
    let Some(object) = object else {
        objects.remove(&name);
        return;
    };
    if objects.len() >= OBJECTS_MAX && !objects.contains_key(&name) {
        tracing::error!(
            name = name.1,
            maximum = OBJECTS_MAX,
            "object ignored; there are too many of its kind"
        );
        return;
    }
    objects.insert(name, object);
}

/// Objects of one group.
struct Source {
    client: Client,
    group: Group,
    namespace: Option<String>,
    changes: mpsc::Sender<Change>,
}

impl Source {
    fn start<T, S>(
        &self,
        change: fn(Name, Option<Object<S>>) -> Change,
        unsynced: &mut BTreeSet<(Group, &'static str)>,
    ) where
        T: Resource + Into<(ObjectMeta, S)>,
        S: Send + 'static,
    {
        unsynced.insert((self.group, T::KIND));
        let (client, group, changes) = (self.client.clone(), self.group, self.changes.clone());
        let namespace = self.namespace.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = forward::<T, S>(&client, group, namespace, change, &changes) => {}
                () = changes.closed() => {}
            }
        });
    }
}

/// Forwards the changes of a kind, as soon as the API server has it.
async fn forward<T, S>(
    client: &Client,
    group: Group,
    namespace: Option<String>,
    change: fn(Name, Option<Object<S>>) -> Change,
    changes: &mpsc::Sender<Change>,
) where
    T: Resource + Into<(ObjectMeta, S)>,
{
    let mut is_denial_logged = false;
    while let Err(error) = check::<T>(client, namespace.as_deref()).await {
        if !matches!(error.code(), Some(403 | 404)) {
            tracing::debug!(kind = T::KIND, %error, "kind not checked; retrying");
            sleep(RETRY_PERIOD).await;
            continue;
        }
        if error.code() == Some(403) && !std::mem::replace(&mut is_denial_logged, true) {
            tracing::warn!(
                kind = T::KIND, group = T::GROUP, %error,
                "no right to read objects; they have no effect until the role permits to list and watch them"
            );
        }
        if changes.send(Change::Synced(group, T::KIND)).await.is_err() {
            return;
        }
        sleep(CHECK_PERIOD).await;
    }
    let query = Query {
        namespace,
        ..Query::default()
    };
    let mut events = client::watch::<T>(client, query).into_channel(EVENTS_MAX);
    while let Some(event) = events.recv().await {
        let next = match event {
            Event::Applied(object) => {
                let (metadata, spec) = object.into();
                let object = Object {
                    uid: metadata.uid,
                    labels: metadata.labels,
                    spec,
                };
                change((group, metadata.name), Some(object))
            }
            Event::Deleted(key) => change((group, key.name.to_string()), None),
            Event::Synced => Change::Synced(group, T::KIND),
            Event::Malformed { key, error } => {
                tracing::error!(kind = T::KIND, object = %key, error, "malformed object ignored");
                change((group, key.name.to_string()), None)
            }
        };
        if changes.send(next).await.is_err() {
            return;
        }
    }
}

/// Checks that a kind can be listed.
async fn check<T: Resource>(client: &Client, namespace: Option<&str>) -> Result<(), ClientError> {
    let collection = T::collection(namespace);
    client
        .get::<Value>(&format!("{collection}?limit=1"))
        .await
        .map(|_| ())
}
