//! Caches of the API while there are readers of the map, repeated examinations, and the log of changes.
//!
//! - `watched`, `lists`, `flows`: objects of the API, and reports of its nodes
//! - `state`: model, trees and log behind one lock
//! - [`change_log`]: recent changes, encoded once for all readers
//! - `examination`: findings on a thread for blocking work
//! - `demand`: the caches exist only while there are readers

pub mod change_log;
mod demand;
mod examination;
mod flows;
mod lists;
mod state;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use api::object::{EndpointSlice, Namespace, Node, ObjectKey, Pod, Service};
use client::Client;
use explain::trace::{Request, Trace, TraceError, trace};
use explain::{Kind, World};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use demand::Demand;
pub use demand::Reader;
use examination::Examiner;
use flows::DroppedRows;
pub use lists::{KINDS_OF_COMPONENT, KINDS_OF_USERS};
use state::{SharedFeed, State};
pub use watched::WATCHED;

use crate::view::detail::ServiceDetail;
use crate::view::findings::FindingRow;
use crate::view::history::{STEP, Samples};
use crate::view::rows::Snapshot;
use change_log::NextPart;

/// Time between two changes: readers get at most 4 each second.
const CHANGE_PERIOD: Duration = Duration::from_millis(250);
/// Time between two checks of the demand.
const DEMAND_PERIOD: Duration = Duration::from_secs(5);

/// State of a feed that metrics show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedMetrics {
    /// True while the caches are complete.
    pub is_synced: bool,
    /// Services in the caches.
    pub services: usize,
    /// Rows of Services that were computed since the caches began.
    pub computations: u64,
    /// Examinations since the start of the process.
    pub examinations: u64,
    /// Rows of reports of nodes that were dropped since the start of the process.
    pub dropped_flow_rows: u64,
    /// Changes in the log.
    pub changes: usize,
    /// Memory of the log in bytes.
    pub change_bytes: usize,
    /// Memory of the history in bytes.
    pub history_bytes: usize,
}

/// Caches of a cluster.
#[derive(Clone)]
pub struct Feed {
    shared: Arc<SharedFeed>,
    demand: Arc<Demand>,
    examiner: Arc<Examiner>,
    dropped_flow_rows: Arc<DroppedRows>,
    client: Client,
    cluster: Arc<str>,
    kinds: &'static [Kind],
}

impl Feed {
    /// Returns a feed without caches. `cluster` is the name that the page shows, `kinds` those that the client may
    /// read.
    pub fn new(client: Client, cluster: &str, kinds: &'static [Kind]) -> Self {
        Self {
            shared: Arc::default(),
            demand: Arc::default(),
            examiner: Arc::default(),
            dropped_flow_rows: Arc::default(),
            client,
            cluster: cluster.into(),
            kinds,
        }
    }

    /// Fills the caches while there are readers, and drops them a few minutes after the last one. Never returns.
    pub async fn run(&self) {
        loop {
            self.demand.requested().await;
            tracing::info!(cluster = %self.cluster, "chart caches started");
            self.shared.begin(State::new(&self.cluster, Timestamp::now()));
            tokio::select! {
                () = self.follow() => {}
                () = self.tick() => {}
                () = self.demand.ended(DEMAND_PERIOD) => {}
            }
            self.shared.end();
            self.examiner.clear();
            tracing::info!(cluster = %self.cluster, "chart caches dropped without readers");
        }
    }

    /// Applies the events of all watches and lists; never returns.
    async fn follow(&self) {
        let (client, shared) = (&self.client, &self.shared);
        tokio::join!(
            watched::follow::<Service>(client, shared),
            watched::follow::<EndpointSlice>(client, shared),
            watched::follow::<Pod>(client, shared),
            watched::follow::<Node>(client, shared),
            watched::follow::<Namespace>(client, shared),
            lists::repeat(client, shared, self.kinds),
            flows::repeat(client, shared, &self.dropped_flow_rows),
        );
    }

    /// Publishes changes, ends steps of the history and starts examinations; never returns.
    async fn tick(&self) {
        let mut ticks = tokio::time::interval(CHANGE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut step_begun: Option<Instant> = None;
        loop {
            ticks.tick().await;
            if !self.shared.publish(Timestamp::now()) {
                continue;
            }
            if step_begun.is_none_or(|begun| begun.elapsed() >= STEP) {
                step_begun = Some(Instant::now());
                self.shared.end_step(Timestamp::now());
            }
            self.examiner.start_if_due(&self.shared);
        }
    }

    /// Records that a reader exists. The caches begin with the first record.
    pub fn touch(&self) {
        self.demand.touch();
    }

    /// Returns a record of a reader that stays, such as a stream.
    pub fn reader(&self) -> Reader {
        Demand::reader(&self.demand)
    }

    /// Returns the number of readers that stay.
    pub fn readers(&self) -> usize {
        self.demand.readers()
    }

    /// Returns true while the caches exist.
    pub fn is_active(&self) -> bool {
        self.shared.with(|_| ()).is_some()
    }

    /// Returns the current state. `None` while the caches are incomplete.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.shared.synced(|state| state.model.snapshot(Timestamp::now()))
    }

    /// Returns a past state: `None` while the caches are incomplete, `Some(None)` if no such state is kept.
    pub fn state_at(&self, time: Timestamp) -> Option<Option<Snapshot>> {
        self.shared
            .synced(|state| state.model.state_at(Timestamp::now(), time))
    }

    /// Returns everything about a Service: `None` while the caches are incomplete, `Some(None)` if it does not exist.
    pub fn detail(&self, key: &ObjectKey) -> Option<Option<ServiceDetail>> {
        self.shared.synced(|state| state.model.detail(key))
    }

    /// Returns the sums of the past hour. `None` while the caches are incomplete.
    pub fn samples(&self) -> Option<Samples> {
        self.shared.synced(|state| state.model.samples())
    }

    /// Returns the findings of the cluster. `None` while the caches are incomplete.
    pub fn findings(&self) -> Option<Vec<FindingRow>> {
        self.shared.synced(|state| state.model.findings().all().to_vec())
    }

    /// Returns the changes after a revision.
    pub fn changes_after(&self, revision: u64) -> Option<NextPart> {
        self.shared.with(|state| state.log.after(revision))
    }

    /// Returns a receiver of the latest revision.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.shared.revisions()
    }

    /// Traces a connection through the objects of the latest examination. `None` before the first one.
    ///
    /// The function computes for some time: call it on a thread for blocking work.
    pub fn trace(&self, request: &Request) -> Option<Result<Trace, TraceError>> {
        self.examiner.with_world(|world: &World| trace(world, request))
    }

    /// Returns the state for metrics.
    pub fn metrics(&self) -> FeedMetrics {
        let examinations = self.examiner.examinations();
        let dropped_flow_rows = self.dropped_flow_rows.count();
        let metrics = self.shared.with(|state| FeedMetrics {
            is_synced: state.is_synced(),
            services: state.model.service_keys().count(),
            computations: state.model.computations(),
            examinations,
            dropped_flow_rows,
            changes: state.log.len(),
            change_bytes: state.log.bytes(),
            history_bytes: state.model.history_bytes(),
        });
        metrics.unwrap_or(FeedMetrics {
            examinations,
            dropped_flow_rows,
            ..FeedMetrics::default()
        })
    }
}

/// Tree of an object that examinations share.
type Tree = Arc<Value>;
