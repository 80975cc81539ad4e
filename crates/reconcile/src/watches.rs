//! Watches that send their events to a reconciler.

use std::sync::Arc;

use api::object::Resource;
use client::{Client, Event, Query, SharedWatch, watch};
use tokio::sync::mpsc::{Receiver, Sender};

/// Maximum number of watch events between the watches and the driver, all kinds of a controller together.
const EVENTS_WAITING_MAX: usize = 512;

/// Returns a channel for the changes of one controller.
pub fn channel<C>() -> (Sender<C>, Receiver<C>) {
    tokio::sync::mpsc::channel(EVENTS_WAITING_MAX)
}

/// Watches the objects that `query` selects in a task that ends with the receiver of `sender`.
pub fn forward<T: Resource, C: Send + 'static>(
    client: &Client,
    query: Query,
    sender: Sender<C>,
    to_change: impl Fn(Event<T>) -> C + Send + 'static,
) {
    forward_with_revision(client, query, sender, move |event, _| to_change(event));
}

/// Watches as [`forward`] does, for caches with pending writes: with [`Event::Synced`], `to_change` receives
/// the revision of the complete list.
pub fn forward_with_revision<T: Resource, C: Send + 'static>(
    client: &Client,
    query: Query,
    sender: Sender<C>,
    to_change: impl Fn(Event<T>, u64) -> C + Send + 'static,
) {
    let mut events = watch::<T>(client, query);
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                biased;
                () = sender.closed() => return,
                event = events.next() => event,
            };
            if sender.send(to_change(event, events.revision())).await.is_err() {
                return;
            }
        }
    });
}

/// Receives the events of a shared watch in a task that ends with the receiver of `sender`. The revision is as for
/// [`forward_with_revision`].
pub fn forward_shared<T: Resource, C: Send + 'static>(
    watch: &SharedWatch<T>,
    sender: Sender<C>,
    to_change: impl Fn(Event<Arc<T>>, u64) -> C + Send + 'static,
) {
    let mut events = watch.subscribe();
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                biased;
                () = sender.closed() => return,
                event = events.next() => event,
            };
            let Some((event, revision)) = event else {
                tracing::error!(kind = T::KIND, "shared watch panicked; no further changes");
                return;
            };
            if sender.send(to_change(event, revision)).await.is_err() {
                return;
            }
        }
    });
}
