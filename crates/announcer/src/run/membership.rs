//! The member list in the API: its watch and its writes.

use api::announcers::Record;
use api::object::Lease;
use client::{Client, Event};
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::Time;
use crate::election::membership::MembershipWrite;
use crate::election::membership_store::{self, WriteOutcome};

/// Capacity of the queue of watch events. A full queue delays the watch, and no event is lost.
const EVENTS_QUEUED_MAX: usize = 64;

/// Change of the member list.
pub(crate) enum MembershipChange {
    /// The list and its version.
    List(String, Record),
    /// The Lease does not exist.
    Missing,
    /// The initial read has finished.
    Synced,
}

/// Input of the client.
pub(crate) enum MembershipInput {
    /// Event of the watch.
    Event(Event<Lease>),
    /// Outcome of a write.
    Written(WriteOutcome),
}

/// Watch and writes of the Lease.
pub(crate) struct MembershipClient {
    client: Client,
    events: Receiver<Event<Lease>>,
    writes: JoinSet<WriteOutcome>,
}

impl MembershipClient {
    /// Starts the watch of the Lease. It ends when the client is dropped.
    pub(crate) fn start(client: Client) -> Self {
        Self {
            events: client::watch(&client, membership_store::query()).into_channel(EVENTS_QUEUED_MAX),
            writes: JoinSet::new(),
            client,
        }
    }

    /// Starts a write in a task. [`Self::next`] returns its outcome.
    pub(crate) fn write(&mut self, write: MembershipWrite, now: Time) {
        self.writes
            .spawn(membership_store::write(self.client.clone(), write, now));
    }

    /// Waits for the next input. Cancel safe.
    pub(crate) async fn next(&mut self) -> MembershipInput {
        tokio::select! {
            biased;
            Some(Ok(outcome)) = self.writes.join_next() => MembershipInput::Written(outcome),
            Some(event) = self.events.recv() => MembershipInput::Event(event),
            else => std::future::pending().await,
        }
    }

    /// Returns a queued event.
    pub(crate) fn try_next_event(&mut self) -> Option<MembershipInput> {
        self.events.try_recv().ok().map(MembershipInput::Event)
    }

    /// Returns the outcome of a finished write.
    pub(crate) fn try_next_outcome(&mut self) -> Option<MembershipInput> {
        let outcome = self.writes.try_join_next().and_then(Result::ok);
        outcome.map(MembershipInput::Written)
    }
}

/// Reads the member list of a Lease and logs errors.
pub(crate) fn read(lease: &Lease) -> Option<MembershipChange> {
    match membership_store::read(lease) {
        Ok((version, record)) => Some(MembershipChange::List(version, record)),
        Err(error) => {
            tracing::error!(
                lease = %lease.metadata.key(), %error,
                "malformed member list ignored; delete the Lease to have it created again"
            );
            None
        }
    }
}

/// Translates an event of the watch and logs errors.
pub(crate) fn change_of(event: Event<Lease>) -> Option<MembershipChange> {
    match event {
        Event::Applied(lease) => read(&lease),
        Event::Deleted(_) => {
            tracing::warn!("member list deleted; members keep it and create it again");
            Some(MembershipChange::Missing)
        }
        Event::Synced => Some(MembershipChange::Synced),
        Event::Malformed { key, error } => {
            tracing::error!(lease = %key, error, "malformed Lease ignored");
            None
        }
    }
}
