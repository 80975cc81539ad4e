//! API priority and fairness: limits of concurrent requests, shared fairly between users. A request above the limit
//! waits in a queue, or receives 429 with a retry delay.
//!
//! Each request has a flow: its user and its flow schema ([`schema`]). Short requests take a seat of their priority
//! level ([`seats`]), with separate seats for reads and writes. A request takes its seat after its body has been
//! read, so slow clients hold none. Long-running requests (watches, logs, proxied requests to Pods) take no seat and
//! are limited separately. The user is the authenticated one: impersonation does not increase a share.
//!
//! Members of `system:masters` are exempt: their requests are counted and never wait.

mod limits;
mod metrics;
mod rate;
mod schema;
mod seats;

pub use limits::RequestLimits;
pub(crate) use rate::Rates;
pub(crate) use schema::{PriorityLevel, Subject};

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::limited_pool::{LimitedPool, ReserveAccess};
use crate::transport::connection::source::Source;
use limits::{QUEUE_WAIT_MAX, long_running_bounds, seat_bounds, watch_weight};
use metrics::{Counts, Rejection};
use schema::FlowSchema;
use seats::{QueueNumber, SeatResponse, Seats};

/// Key of a user in tables: a keyed hash of the name. The memory of a table therefore does not depend on the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UserKey(u64);

/// User and flow schema of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) user: UserKey,
    schema: FlowSchema,
}

impl Flow {
    /// Returns the access of the flow to reserved capacity.
    pub(crate) fn reserve_access(self) -> ReserveAccess {
        self.schema.level().reserve_access()
    }
}

/// Returns true if capacity is reserved for the user: administrators, nodes and components of the cluster.
pub(crate) fn is_reserved_for(user: &Identity) -> bool {
    let subject = Subject {
        verb: "get",
        group: "",
        resource: "",
    };
    FlowSchema::of(user, subject).level().reserve_access() != ReserveAccess::Common
}

/// Class of a short request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// A request without a commit.
    Read,
    /// A request with a commit.
    Write,
}

/// Kind of a long-running request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongRunning {
    Watch,
    /// `pods/proxy` and `services/proxy`.
    Proxy,
    /// `pods/log`.
    Log,
}

impl LongRunning {
    const ALL: [LongRunning; 3] = [LongRunning::Watch, LongRunning::Proxy, LongRunning::Log];

    fn name(self) -> &'static str {
        match self {
            LongRunning::Watch => "watch",
            LongRunning::Proxy => "proxy",
            LongRunning::Log => "log",
        }
    }
}

/// Wakes a request that waits for a seat.
type Waiter = oneshot::Sender<()>;

/// Admits requests within the limits.
pub(crate) struct FlowControl {
    hasher: RandomState,
    rates: Mutex<Rates<UserKey>>,
    levels: [LevelSeats; PriorityLevel::ALL.len()],
    long_running: [Mutex<LimitedPool<UserKey>>; LongRunning::ALL.len()],
    counts: Counts,
}

/// Seats of a level for reads and for writes; `None` for no limit.
struct LevelSeats {
    reads: Option<Mutex<Seats<Waiter>>>,
    writes: Option<Mutex<Seats<Waiter>>>,
}

/// A seat, released on drop.
pub(crate) struct Seat {
    flow_control: Arc<FlowControl>,
    flow: Flow,
    class: RequestClass,
}

/// A queued request, which leaves the queue on drop unless it has received a [`Seat`].
struct QueuedRequest {
    flow_control: Arc<FlowControl>,
    flow: Flow,
    class: RequestClass,
    /// Queue entry to cancel; `None` after the request has received its [`Seat`].
    ticket: Option<QueueNumber>,
    seat_ready: oneshot::Receiver<()>,
}

/// Permit of a long-running request, released on drop.
pub(crate) struct LongRunningPermit {
    flow_control: Arc<FlowControl>,
    flow: Flow,
    kind: LongRunning,
    /// Number of permits that the request counts as.
    weight: u32,
}

impl FlowControl {
    pub(crate) fn new(limits: RequestLimits) -> FlowControl {
        let seats = |level: PriorityLevel, limit: u32| {
            let bounds = seat_bounds(level, limit)?;
            Some(Mutex::new(Seats::new(bounds)))
        };
        FlowControl {
            hasher: RandomState::new(),
            rates: Mutex::new(Rates::new(limits.per_user_per_second)),
            levels: PriorityLevel::ALL.map(|level| LevelSeats {
                reads: seats(level, limits.concurrent_reads_max),
                writes: seats(level, limits.concurrent_writes_max),
            }),
            long_running: LongRunning::ALL
                .map(|kind| Mutex::new(LimitedPool::new(long_running_bounds(kind)))),
            counts: Counts::new(limits),
        }
    }

    /// Returns the flow of a request by `user`.
    pub(crate) fn flow(&self, user: &Identity, subject: Subject<'_>) -> Flow {
        Flow {
            user: UserKey(self.hasher.hash_one(&user.user)),
            schema: FlowSchema::of(user, subject),
        }
    }

    /// Returns the key of an address, by which clients without credentials are counted.
    pub(crate) fn source_key(&self, source: Source) -> UserKey {
        UserKey(self.hasher.hash_one(source))
    }

    /// Counts a request against the rate of its user.
    ///
    /// # Errors
    /// 429 if the user exceeds its rate.
    pub(crate) fn count(&self, flow: Flow, now: Instant) -> Result<(), Failure> {
        if flow.reserve_access() == ReserveAccess::Exempt || lock(&self.rates).take_token(flow.user, now) {
            return Ok(());
        }
        self.counts.count_rejection(flow.schema, Rejection::Rate);
        Err(Failure::too_many_requests())
    }

    /// Takes a seat of the flow's priority level, and waits for one if necessary.
    ///
    /// # Errors
    /// 429 if the queue is full or the wait times out.
    pub(crate) async fn acquire_seat(
        self: &Arc<Self>,
        flow: Flow,
        class: RequestClass,
    ) -> Result<Seat, Failure> {
        let Some(seats) = self.seats(flow, class) else {
            return Ok(self.seat(flow, class));
        };
        let mut seat_ready = None;
        let response = lock(seats).request(flow.user, || {
            let (waiter, receiver) = oneshot::channel();
            seat_ready = Some(receiver);
            waiter
        });
        match (response, seat_ready) {
            (SeatResponse::Seated, _) => Ok(self.seat(flow, class)),
            (SeatResponse::Queued(ticket), Some(seat_ready)) => {
                self.wait(flow, class, ticket, seat_ready).await
            }
            _ => {
                self.counts.count_rejection(flow.schema, Rejection::QueueFull);
                Err(Failure::too_many_requests())
            }
        }
    }

    async fn wait(
        self: &Arc<Self>,
        flow: Flow,
        class: RequestClass,
        ticket: QueueNumber,
        seat_ready: oneshot::Receiver<()>,
    ) -> Result<Seat, Failure> {
        self.counts.adjust_queued(flow.schema, 1);
        let mut queued = QueuedRequest {
            flow_control: self.clone(),
            flow,
            class,
            ticket: Some(ticket),
            seat_ready,
        };
        let rejection = match timeout(QUEUE_WAIT_MAX, &mut queued.seat_ready).await {
            Ok(Ok(())) => {
                queued.ticket = None;
                return Ok(self.seat(flow, class));
            }
            // The queue was shortened, so that a user with a shorter queue can wait.
            Ok(Err(_)) => Rejection::QueueFull,
            Err(_) => Rejection::TimeOut,
        };
        self.counts.count_rejection(flow.schema, rejection);
        Err(Failure::too_many_requests())
    }

    /// Takes a permit for a long-running request.
    ///
    /// # Errors
    /// 429 if the user or all users together hold too many permits.
    pub(crate) fn acquire_long_running(
        self: &Arc<Self>,
        flow: Flow,
        kind: LongRunning,
    ) -> Result<LongRunningPermit, Failure> {
        self.acquire_weighted(flow, kind, 1)
    }

    /// Takes a permit for a watch. A watch with long selectors counts as several, because it holds them in memory and
    /// compares each event with them.
    ///
    /// # Errors
    /// 429 if the user or all users together hold too many permits.
    pub(crate) fn acquire_watch(
        self: &Arc<Self>,
        flow: Flow,
        selector_bytes: usize,
    ) -> Result<LongRunningPermit, Failure> {
        self.acquire_weighted(flow, LongRunning::Watch, watch_weight(selector_bytes))
    }

    fn acquire_weighted(
        self: &Arc<Self>,
        flow: Flow,
        kind: LongRunning,
        weight: u32,
    ) -> Result<LongRunningPermit, Failure> {
        if lock(self.long_running_pool(kind))
            .take(flow.user, weight, flow.reserve_access())
            .is_err()
        {
            self.counts.count_rejected_long_running(kind);
            return Err(Failure::too_many_requests());
        }
        Ok(LongRunningPermit {
            flow_control: self.clone(),
            flow,
            kind,
            weight,
        })
    }

    fn seat(self: &Arc<Self>, flow: Flow, class: RequestClass) -> Seat {
        self.counts.count_start(flow.schema);
        Seat {
            flow_control: self.clone(),
            flow,
            class,
        }
    }

    fn seats(&self, flow: Flow, class: RequestClass) -> Option<&Mutex<Seats<Waiter>>> {
        let level = self.levels.get(flow.schema.level() as usize)?;
        match class {
            RequestClass::Read => level.reads.as_ref(),
            RequestClass::Write => level.writes.as_ref(),
        }
    }

    /// Releases a seat, which passes to the next waiting request.
    fn release(&self, flow: Flow, class: RequestClass) {
        let Some(seats) = self.seats(flow, class) else {
            return;
        };
        // A request that stops waiting checks its channel under the same lock.
        let mut seats = lock(seats);
        if let Some(waiter) = seats.release(flow.user)
            && waiter.send(()).is_err()
        {
            tracing::error!("queued request dropped without leaving the queue");
        }
    }

    fn long_running_pool(&self, kind: LongRunning) -> &Mutex<LimitedPool<UserKey>> {
        &self.long_running[kind as usize]
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.flow_control.counts.count_end(self.flow.schema);
        self.flow_control.release(self.flow, self.class);
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        self.flow_control.counts.adjust_queued(self.flow.schema, -1);
        let Some(ticket) = self.ticket.take() else { return };
        let Some(seats) = self.flow_control.seats(self.flow, self.class) else {
            return;
        };
        let was_waiting = lock(seats).cancel(self.flow.user, ticket);
        if !was_waiting && self.seat_ready.try_recv().is_ok() {
            // The request received a seat after it stopped waiting.
            self.flow_control.release(self.flow, self.class);
        }
    }
}

impl Drop for LongRunningPermit {
    fn drop(&mut self) {
        lock(self.flow_control.long_running_pool(self.kind)).release(&self.flow.user, self.weight);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
