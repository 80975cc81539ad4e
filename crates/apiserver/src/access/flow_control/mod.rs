//! API priority and fairness in small: what is done at a time, and how much of it for one user. More waits, or is answered
//! with 429 and a time to wait.
//!
//! Each request has a flow: its user and its sort ([`schema`]). Short requests take a seat of their priority level
//! ([`seats`]), reads and writes apart; a request takes its seat when its body has been read, so that slow clients hold
//! none. What lasts (watches, logs, what is passed on to Pods) takes no seat and is counted by itself. The user is whoever
//! proved an identity, not the one that the request is made in the name of: impersonation gives no further part.
//!
//! Members of `system:masters` are exempt: they are counted, and never wait.

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
use crate::portions::{Claim, Portions};
use limits::{QUEUE_WAIT_MAX, long_running_bounds, seat_bounds};
use metrics::{Counts, Rejection};
use schema::FlowSchema;
use seats::{Arrival, Seats, Ticket};

/// A user, as the keys of tables have it: a hash of the name, by a secret of the process, so that a table's memory does not
/// depend on the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UserKey(u64);

/// A request's user and sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) user: UserKey,
    schema: FlowSchema,
}

impl Flow {
    /// The claim on what is reserved for the cluster's own parts.
    pub(crate) fn claim(self) -> Claim {
        self.schema.level().claim()
    }
}

/// Returns true if capacity is reserved for the user: administrators, nodes and components of the cluster.
pub(crate) fn is_reserved_for(user: &Identity) -> bool {
    let subject = Subject {
        verb: "get",
        group: "",
        resource: "",
    };
    FlowSchema::of(user, subject).level().claim() != Claim::Common
}

/// A short request's sort of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// A look at the state.
    Read,
    /// A commit.
    Write,
}

/// A request that lasts.
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

/// Waker of a request that waits for a seat.
type Waiter = oneshot::Sender<()>;

/// Lets requests in.
pub(crate) struct FlowControl {
    hasher: RandomState,
    rates: Mutex<Rates<UserKey>>,
    levels: [LevelSeats; PriorityLevel::ALL.len()],
    long_running: [Mutex<Portions<UserKey>>; LongRunning::ALL.len()],
    counts: Counts,
}

/// Seats of a level for reads and for writes; `None` is no limit.
struct LevelSeats {
    reads: Option<Mutex<Seats<Waiter>>>,
    writes: Option<Mutex<Seats<Waiter>>>,
}

/// A seat, as long as this is held.
pub(crate) struct Place {
    flow_control: Arc<FlowControl>,
    flow: Flow,
    load: Load,
}

/// A request in the queue, until this is dropped or becomes a [`Place`].
struct Queued {
    flow_control: Arc<FlowControl>,
    flow: Flow,
    load: Load,
    /// What to give up; `None` once it has become a [`Place`].
    ticket: Option<Ticket>,
    turn: oneshot::Receiver<()>,
}

/// A part of what lasts, as long as this is held.
pub(crate) struct Held {
    flow_control: Arc<FlowControl>,
    flow: Flow,
    kind: LongRunning,
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
                reads: seats(level, limits.reads_at_a_time),
                writes: seats(level, limits.writes_at_a_time),
            }),
            long_running: LongRunning::ALL.map(|kind| Mutex::new(Portions::new(long_running_bounds(kind)))),
            counts: Counts::new(limits),
        }
    }

    /// The flow of a request that `user` sends.
    pub(crate) fn flow(&self, user: &Identity, subject: Subject<'_>) -> Flow {
        Flow {
            user: UserKey(self.hasher.hash_one(&user.user)),
            schema: FlowSchema::of(user, subject),
        }
    }

    /// Counts a request against the rate of its user.
    ///
    /// # Errors
    /// 429 if the user asks too often.
    pub(crate) fn count(&self, flow: Flow, now: Instant) -> Result<(), Failure> {
        if flow.claim() == Claim::Exempt || lock(&self.rates).take_one(flow.user, now) {
            return Ok(());
        }
        self.counts.rejected(flow.schema, Rejection::Rate);
        Err(Failure::too_many_requests())
    }

    /// Takes a seat, at once if there is one and else in turn.
    ///
    /// # Errors
    /// 429 if too many requests wait, or this one has waited too long.
    pub(crate) async fn enter(self: &Arc<Self>, flow: Flow, load: Load) -> Result<Place, Failure> {
        let Some(seats) = self.seats(flow, load) else {
            return Ok(self.place(flow, load));
        };
        let mut turn = None;
        let arrival = lock(seats).arrive(flow.user, || {
            let (waiter, its_turn) = oneshot::channel();
            turn = Some(its_turn);
            waiter
        });
        match (arrival, turn) {
            (Arrival::Seated, _) => Ok(self.place(flow, load)),
            (Arrival::Queued(ticket), Some(turn)) => self.wait(flow, load, ticket, turn).await,
            _ => {
                self.counts.rejected(flow.schema, Rejection::QueueFull);
                Err(Failure::too_many_requests())
            }
        }
    }

    async fn wait(
        self: &Arc<Self>,
        flow: Flow,
        load: Load,
        ticket: Ticket,
        turn: oneshot::Receiver<()>,
    ) -> Result<Place, Failure> {
        self.counts.queued(flow.schema, 1);
        let mut queued = Queued {
            flow_control: self.clone(),
            flow,
            load,
            ticket: Some(ticket),
            turn,
        };
        let why = match timeout(QUEUE_WAIT_MAX, &mut queued.turn).await {
            Ok(Ok(())) => {
                queued.ticket = None;
                return Ok(self.place(flow, load));
            }
            // Its place in the queue went to a user with a shorter one.
            Ok(Err(_)) => Rejection::QueueFull,
            Err(_) => Rejection::TimeOut,
        };
        self.counts.rejected(flow.schema, why);
        Err(Failure::too_many_requests())
    }

    /// Takes a part of what lasts.
    ///
    /// # Errors
    /// 429 if the user, or all together, hold too much of it.
    pub(crate) fn hold(self: &Arc<Self>, flow: Flow, kind: LongRunning) -> Result<Held, Failure> {
        if lock(self.portions(kind))
            .take(flow.user, 1, flow.claim())
            .is_err()
        {
            self.counts.rejected_long_running(kind);
            return Err(Failure::too_many_requests());
        }
        Ok(Held {
            flow_control: self.clone(),
            flow,
            kind,
        })
    }

    fn place(self: &Arc<Self>, flow: Flow, load: Load) -> Place {
        self.counts.begun(flow.schema);
        Place {
            flow_control: self.clone(),
            flow,
            load,
        }
    }

    fn seats(&self, flow: Flow, load: Load) -> Option<&Mutex<Seats<Waiter>>> {
        let level = self.levels.get(flow.schema.level() as usize)?;
        match load {
            Load::Read => level.reads.as_ref(),
            Load::Write => level.writes.as_ref(),
        }
    }

    /// Leaves a seat, to the next one who waits.
    fn leave(&self, flow: Flow, load: Load) {
        let Some(seats) = self.seats(flow, load) else {
            return;
        };
        // Whoever gives up looks for the message under the same lock.
        let mut seats = lock(seats);
        if let Some(waiter) = seats.leave(flow.user)
            && waiter.send(()).is_err()
        {
            tracing::error!("a request in the queue went without leaving it");
        }
    }

    fn portions(&self, kind: LongRunning) -> &Mutex<Portions<UserKey>> {
        &self.long_running[kind as usize]
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.flow_control.counts.ended(self.flow.schema);
        self.flow_control.leave(self.flow, self.load);
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.flow_control.counts.queued(self.flow.schema, -1);
        let Some(ticket) = self.ticket.take() else { return };
        let Some(seats) = self.flow_control.seats(self.flow, self.load) else {
            return;
        };
        let still_waits = lock(seats).give_up(self.flow.user, ticket);
        if !still_waits && self.turn.try_recv().is_ok() {
            // The seat came too late.
            self.flow_control.leave(self.flow, self.load);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(self.flow_control.portions(self.kind)).give_back(&self.flow.user, 1);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
