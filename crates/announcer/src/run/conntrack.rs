//! Background flushes of conntrack entries: one collection at a time, for all addresses that returned until then.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use netlink::clock::since_boot;
use netlink::conntrack::ConntrackError;
use netlink::route::LinkIndex;
use tokio::task::JoinSet;

use crate::Time;
use crate::handoff::conntrack_flush::{self, StaleFlows};
use crate::handoff::ownership_history::ConntrackFlush;

/// Maximum delay of announcements by a collection; it exceeds the time to read a large table.
const COLLECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of concurrent flushes.
const FLUSHES_MAX: usize = 4;

/// Scheduler of flushes.
#[derive(Debug, Default)]
pub(crate) struct ConntrackFlusher {
    /// Flushes of the next collection.
    queued: BTreeMap<IpAddr, ConntrackFlush>,
    /// Addresses whose announcement waits for a collection, and the end of the wait.
    awaited: BTreeMap<IpAddr, Time>,
    /// The collection in progress, at most one.
    collection: JoinSet<FlushEvent>,
    flushes: JoinSet<FlushEvent>,
}

/// Progress of a flush.
#[derive(Debug)]
pub(crate) enum FlushEvent {
    /// The collection for these addresses has finished.
    Collected(Vec<IpAddr>, Result<StaleFlows, ConntrackError>),
    /// This number of entries was deleted; the first failure.
    Flushed(u64, Option<ConntrackError>),
}

impl ConntrackFlusher {
    /// Queues a flush.
    pub(crate) fn queue(&mut self, now: Time, address: IpAddr, flush: ConntrackFlush) {
        let queued = self.queued.entry(address).or_insert(flush);
        *queued = flush.max(*queued);
        if flush != ConntrackFlush::Closed {
            self.awaited.insert(address, now + COLLECTION_TIMEOUT);
        }
    }

    /// Waits for the next event; `None` without work in progress. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<FlushEvent> {
        let event = tokio::select! {
            Some(event) = self.collection.join_next() => event,
            Some(event) = self.flushes.join_next() => event,
            else => return None,
        };
        event.ok()
    }

    /// Returns an event that has already happened.
    pub(crate) fn try_next(&mut self) -> Option<FlushEvent> {
        let event = self
            .collection
            .try_join_next()
            .or_else(|| self.flushes.try_join_next());
        event.and_then(Result::ok)
    }

    /// Returns true if the announcement of an address has to wait. Connections that open after it would be flushed
    /// with the stale ones.
    pub(crate) fn is_awaited(&self, address: IpAddr) -> bool {
        let until = self.awaited.get(&address);
        until.is_some_and(|until| since_boot() < *until)
    }

    /// Starts a collection of the queued flushes, unless one is in progress. `requests_two_tier` returns true for
    /// addresses of Services that request two-tier forwarding.
    pub(crate) fn start_collection(
        &mut self,
        links: BTreeSet<LinkIndex>,
        requests_two_tier: impl Fn(IpAddr) -> bool,
    ) {
        if self.queued.is_empty() || !self.collection.is_empty() || self.flushes.len() >= FLUSHES_MAX {
            return;
        }
        let flushes = std::mem::take(&mut self.queued);
        let open_flushes = flushes
            .iter()
            .filter(|(_, flush)| **flush != ConntrackFlush::Closed);
        let two_tier: BTreeSet<IpAddr> = open_flushes
            .map(|(address, _)| *address)
            .filter(|address| requests_two_tier(*address))
            .collect();
        self.collection.spawn_blocking(move || {
            let stale = conntrack_flush::collect(&flushes, two_tier, &links);
            FlushEvent::Collected(flushes.into_keys().collect(), stale)
        });
    }

    /// Starts the flush after a collection. Returns the addresses whose announcement no longer waits. Open
    /// connections of addresses that were announced before, because the collection took too long, are kept.
    pub(crate) fn collected(
        &mut self,
        addresses: &[IpAddr],
        stale: Result<StaleFlows, ConntrackError>,
    ) -> Vec<IpAddr> {
        let now = since_boot();
        let awaited = addresses
            .iter()
            .filter(|address| !self.queued.contains_key(address))
            .filter_map(|address| Some((*address, self.awaited.remove(address)?)));
        let (in_time, late): (Vec<_>, Vec<_>) = awaited.partition(|(_, until)| now < *until);
        match stale {
            Ok(mut stale) => {
                let late: Vec<IpAddr> = late.into_iter().map(|(address, _)| address).collect();
                stale.keep_open(&late);
                self.flushes.spawn_blocking(|| {
                    let (count, failure) = stale.flush();
                    FlushEvent::Flushed(count, failure)
                });
            }
            Err(error) => log_failure(&error),
        }
        in_time.into_iter().map(|(address, _)| address).collect()
    }
}

/// Logs a failed collection or flush.
pub(crate) fn log_failure(error: &ConntrackError) {
    tracing::warn!(
        %error,
        "conntrack entries not flushed; connections from reused client ports may hang"
    );
}
