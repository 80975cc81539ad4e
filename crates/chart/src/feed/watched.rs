//! Kinds that are watched, because the map shows their changes at once.

use std::sync::Arc;

use api::object::{EndpointSlice, Namespace, Node, ObjectKey, ObjectMeta, Pod, Resource, Service};
use client::{Client, Event, Query, watch};
use explain::Kind;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Tree;
use super::state::{SharedFeed, State};
use crate::reduction::reduce;
use crate::view::model::Model;
use crate::view::objects::PodPlace;

/// Watched kinds.
pub const WATCHED: [Kind; 5] = [
    Kind::Service,
    Kind::EndpointSlice,
    Kind::Pod,
    Kind::Node,
    Kind::Namespace,
];

/// Maximum number of watch events that are applied under one lock.
const BATCH_EVENTS_MAX: usize = 1_000;

/// Kind whose changes concern the model.
pub(super) trait ModelKind: Resource {
    /// Kind in examinations.
    const TREE_KIND: Kind;

    /// Adds or replaces the object.
    fn put(self, model: &mut Model);

    /// Removes the object.
    fn remove(model: &mut Model, key: &ObjectKey);
}

impl ModelKind for Service {
    const TREE_KIND: Kind = Kind::Service;

    fn put(self, model: &mut Model) {
        model.put_service(self);
    }

    fn remove(model: &mut Model, key: &ObjectKey) {
        model.remove_service(key);
    }
}

impl ModelKind for EndpointSlice {
    const TREE_KIND: Kind = Kind::EndpointSlice;

    fn put(self, model: &mut Model) {
        model.put_slice(self);
    }

    fn remove(model: &mut Model, key: &ObjectKey) {
        model.remove_slice(key);
    }
}

impl ModelKind for Pod {
    const TREE_KIND: Kind = Kind::Pod;

    fn put(self, model: &mut Model) {
        model.put_pod(self.metadata.key(), PodPlace::of(&self));
    }

    fn remove(model: &mut Model, key: &ObjectKey) {
        model.remove_pod(key);
    }
}

impl ModelKind for Node {
    const TREE_KIND: Kind = Kind::Node;

    fn put(self, model: &mut Model) {
        model.put_node(self);
    }

    fn remove(model: &mut Model, key: &ObjectKey) {
        model.remove_node(&key.name);
    }
}

impl ModelKind for Namespace {
    const TREE_KIND: Kind = Kind::Namespace;

    fn put(self, _: &mut Model) {}

    fn remove(_: &mut Model, _: &ObjectKey) {}
}

/// A reduced object, as a view and as a tree.
struct ReducedObject<T> {
    view: T,
    tree: Tree,
}

impl<'de, T: ModelKind> Deserialize<'de> for ReducedObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut tree = Value::deserialize(deserializer)?;
        reduce(T::TREE_KIND, &mut tree);
        let view = T::deserialize(&tree).map_err(D::Error::custom)?;
        Ok(Self {
            view,
            tree: Arc::new(tree),
        })
    }
}

impl<T: ModelKind> Resource for ReducedObject<T> {
    const GROUP: &'static str = T::GROUP;
    const VERSION: &'static str = T::VERSION;
    const KIND: &'static str = T::KIND;
    const PLURAL: &'static str = T::PLURAL;

    fn metadata(&self) -> &ObjectMeta {
        self.view.metadata()
    }
}

/// Applies all events of a kind; never returns.
pub(super) async fn follow<T: ModelKind>(client: &Client, shared: &SharedFeed) {
    let mut events = watch::<ReducedObject<T>>(client, Query::default());
    loop {
        let first = events.next().await;
        shared.with(|state| {
            apply(state, first);
            for _ in 1..BATCH_EVENTS_MAX {
                let Some(event) = events.next_ready() else {
                    return;
                };
                apply(state, event);
            }
        });
    }
}

fn apply<T: ModelKind>(state: &mut State, event: Event<ReducedObject<T>>) {
    match event {
        Event::Applied(ReducedObject { view, tree }) => {
            if state.put_tree(T::TREE_KIND, view.metadata().key(), tree) {
                view.put(&mut state.model);
            }
        }
        Event::Deleted(key) => {
            state.remove_tree(T::TREE_KIND, &key);
            T::remove(&mut state.model, &key);
        }
        Event::Synced => state.set_complete(T::TREE_KIND),
        Event::Malformed { key, error } => {
            tracing::warn!(kind = T::KIND, %key, error, "object not shown on the chart");
        }
    }
}
