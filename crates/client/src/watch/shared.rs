//! One watch of a kind for several consumers of a process, as client-go's shared informer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::object::Resource;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::{Event, Query, Watch, watch};
use crate::request::Client;

/// Events between the watch and one subscriber. The watch waits for the slowest subscriber. The bound lets a subscriber
/// compute for a moment without an effect on the others, and is small in memory.
const EVENTS_WAITING_MAX: usize = 1_024;

/// An event with the revision of the watch.
type EventAtRevision<T> = (Event<Arc<T>>, u64);

/// One watch of a collection that several subscribers share: objects are read and their keys kept once.
///
/// The watch runs while it has a subscriber. A subscriber receives each object, then [`Event::Synced`], as from a watch
/// of its own. Objects are not kept: a later subscriber makes the watch list the collection again, for all subscribers.
pub struct SharedWatch<T> {
    client: Client,
    state: Arc<State<T>>,
}

impl<T> Clone for SharedWatch<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            state: Arc::clone(&self.state),
        }
    }
}

/// The subscribers of a watch that its task has not seen yet, and the task.
struct State<T> {
    waiting: Mutex<JoiningSubscribers<T>>,
    /// Notified of each subscriber that joins or leaves.
    changed: Notify,
}

/// Subscribers that are joining, and the task that reads the watch.
struct JoiningSubscribers<T> {
    joining: Vec<Sender<EventAtRevision<T>>>,
    task: Option<JoinHandle<()>>,
}

/// A subscriber of a [`SharedWatch`].
pub struct Subscription<T> {
    arrivals: Receiver<EventAtRevision<T>>,
    state: Arc<State<T>>,
}

impl<T: Resource> SharedWatch<T> {
    /// Creates a watch of the whole collection that starts with its first subscriber.
    pub fn new(client: &Client) -> Self {
        let waiting = JoiningSubscribers {
            joining: Vec::new(),
            task: None,
        };
        Self {
            client: client.clone(),
            state: Arc::new(State {
                waiting: Mutex::new(waiting),
                changed: Notify::new(),
            }),
        }
    }

    /// Adds a subscriber, which receives a complete list first. The caller has to run in a Tokio runtime.
    pub fn subscribe(&self) -> Subscription<T> {
        let (sender, arrivals) = channel(EVENTS_WAITING_MAX);
        let mut waiting = self.state.waiting();
        waiting.joining.push(sender);
        if waiting.task.as_ref().is_none_or(JoinHandle::is_finished) {
            let watch = watch::<T>(&self.client, Query::default());
            waiting.task = Some(tokio::spawn(serve(watch, Arc::clone(&self.state))));
        }
        drop(waiting);
        self.state.changed.notify_one();
        Subscription {
            arrivals,
            state: Arc::clone(&self.state),
        }
    }
}

impl<T> State<T> {
    fn waiting(&self) -> MutexGuard<'_, JoiningSubscribers<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the subscribers that left, and returns those that joined. Returns `None` if there are neither old nor new
    /// ones, which ends the task.
    fn admit(
        &self,
        subscribers: &mut Vec<Sender<EventAtRevision<T>>>,
    ) -> Option<Vec<Sender<EventAtRevision<T>>>> {
        subscribers.retain(|subscriber| !subscriber.is_closed());
        let mut waiting = self.waiting();
        waiting.joining.retain(|subscriber| !subscriber.is_closed());
        if subscribers.is_empty() && waiting.joining.is_empty() {
            waiting.task = None;
            return None;
        }
        Some(std::mem::take(&mut waiting.joining))
    }
}

impl<T> Subscription<T> {
    /// Returns the next event and the revision of the watch as in [`Watch::revision`]. Returns `None` if the task of the
    /// watch panicked. Cancel-safe.
    pub async fn next(&mut self) -> Option<(Event<Arc<T>>, u64)> {
        self.arrivals.recv().await
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.arrivals.close();
        self.state.changed.notify_one();
    }
}

/// Delivers the events of a watch until the last subscriber has left.
async fn serve<T: Resource>(mut watch: Watch<T>, state: Arc<State<T>>) {
    let mut subscribers = Vec::new();
    while let Some(joining) = state.admit(&mut subscribers) {
        if !joining.is_empty() {
            // Events from before the list are for earlier subscribers only: one of them may end an earlier list.
            while let Some(event) = watch.next_ready() {
                deliver(&subscribers, event, watch.revision()).await;
            }
            watch.start_list();
            subscribers.extend(joining);
        }
        tokio::select! {
            biased;
            () = state.changed.notified() => {}
            event = watch.next() => deliver(&subscribers, event, watch.revision()).await,
        }
    }
}

async fn deliver<T: Resource>(subscribers: &[Sender<EventAtRevision<T>>], event: Event<T>, revision: u64) {
    let event = match event {
        Event::Applied(object) => Event::Applied(Arc::new(object)),
        Event::Deleted(key) => Event::Deleted(key),
        Event::Synced => Event::Synced,
        Event::Malformed { key, error } => Event::Malformed { key, error },
    };
    for subscriber in subscribers {
        // A subscriber that left is removed before the next event.
        subscriber.send((event.clone(), revision)).await.ok();
    }
}

#[cfg(test)]
mod tests;
