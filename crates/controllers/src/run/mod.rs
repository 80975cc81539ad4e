//! The loop: watch events in, keys to look at, writes out.
//!
//! [`core`] decides everything and does nothing: a state machine that takes changes, answers and the time,
//! and gives jobs. This module is its rim: it waits, and runs the jobs as tasks. So the simulation
//! (`tests/simulation`) sees every order in which things can happen, and the rim none that is its own.
//!
//! How a controller plugs in:
//!
//! 1. It has a name in [`crate::selection`], and a pure function from the caches to what is to be done.
//! 2. [`watches`] opens what it reads, as a [`watches::Change`], which [`intake`] puts into the caches
//!    ([`crate::world`]), naming the [`Work`](work::Work) that the change concerns.
//! 3. [`sync`] makes a [`job::Action`] of a piece of work, with that pure function; [`job`] carries it out.
//! 4. [`outcome`] takes what came of it into the caches.
//!
//! What the frame sees to, for all of them: one worker a key at a time; as many workers as the flags say; a
//! growing pause after failures, and a reading of what is there before the next try; that a panic stays with
//! its key; that Events are told once.

mod beside;
mod core;
mod intake;
mod job;
mod lanes;
mod options;
mod outcome;
mod sync;
mod watches;
mod work;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::election::Ending;
use client::events::Correlator;
use client::{Client, WallClock};
use tokio::task::{Id, JoinError, JoinSet};

use crate::events::post;
use crate::metrics::{Metrics, Phase};
use crate::queue::sleep_until;

use self::beside::Beside;
use self::core::Core;
use job::{Done, Job, Outcome, carry_out};
use watches::Watches;
use work::Work;

pub use options::Options;

/// Changes and answers taken in before work is started again: enough for one sync to answer a burst, few
/// enough that a stream of them holds nothing up.
const TAKEN_AT_ONCE_MAX: usize = 4_096;
/// How long writes under way may take at the end. What they leave undone, the next to run does.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a watch failed, so that a defect does not become a flood of requests.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Events under way at once; more are dropped, as they are a courtesy and the writes are not.
const EVENTS_UNDER_WAY_MAX: usize = 100;

/// What the controllers run in.
#[derive(Clone)]
pub struct Environment {
    /// The API server.
    pub client: Client,
    /// The time of day, for what objects say about it.
    pub clock: WallClock,
    /// What people were told.
    pub events: Arc<Mutex<Correlator>>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Environment {
    /// The API server of `client`, and this machine's clock.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            clock: WallClock::system(),
            events: Arc::default(),
            metrics: Arc::default(),
        }
    }
}

/// Runs the controllers until `shutdown` resolves; writes under way are finished first, if that does not take
/// too long.
pub async fn run(environment: Environment, options: Options, shutdown: impl Future<Output = ()>) -> Ending {
    let beside = Beside::start(&environment, &options);
    tokio::pin!(shutdown);
    let ending = loop {
        let mut rim = Rim::new(environment.clone(), options.clone());
        let is_asked = tokio::select! {
            biased;
            () = &mut shutdown => true,
            () = rim.run() => false,
        };
        let ending = rim.drain().await;
        if is_asked {
            break ending;
        }
        tracing::error!(pause = ?RESTART_PAUSE, "a watch failed, everything is read anew");
        tokio::select! {
            biased;
            () = &mut shutdown => break ending,
            () = tokio::time::sleep(RESTART_PAUSE) => {}
        }
    };
    beside.end().await;
    environment.metrics.enter(Phase::StandingBy);
    ending
}

/// The part that waits and does, around the core that decides.
struct Rim {
    environment: Environment,
    watches: Watches,
    core: Core,
    tasks: JoinSet<Done>,
    /// What each task works on, for the case that it does not say so itself.
    works: HashMap<Id, Work>,
    events: JoinSet<()>,
    /// Whether all caches have held everything.
    is_working: bool,
}

impl Rim {
    fn new(environment: Environment, options: Options) -> Self {
        Self {
            watches: Watches::open(&environment.client, &options.controllers),
            core: Core::new(options, Arc::clone(&environment.metrics)),
            environment,
            is_working: false,
            tasks: JoinSet::new(),
            works: HashMap::new(),
            events: JoinSet::new(),
        }
    }

    /// Works until a watch fails.
    async fn run(&mut self) {
        self.environment.metrics.enter(Phase::Reading);
        if self.watches.are_synced() {
            // Nothing is read for the controllers that were chosen.
            self.note_synced();
        }
        while self.step().await {}
    }

    /// Waits for one thing to happen and takes it in, then starts the work that is due. False if a watch
    /// failed.
    async fn step(&mut self) -> bool {
        // Nothing is due before all caches hold everything.
        let wake = self.core.next_wake().filter(|_| self.watches.are_synced());
        tokio::select! {
            biased;
            Some(outcome) = self.tasks.join_next_with_id() => self.finish(outcome),
            change = self.watches.next() => match change {
                Some(change) => self.core.take(change, now()),
                None => return false,
            },
            Some(outcome) = self.events.join_next() => log_panic(outcome),
            () = sleep_until(wake) => {}
        }
        // What has arrived already is taken in first, so that one sync answers a burst.
        for _ in 0..TAKEN_AT_ONCE_MAX {
            if let Some(outcome) = self.tasks.try_join_next_with_id() {
                self.finish(outcome);
            } else if let Some(change) = self.watches.next_ready() {
                self.core.take(change, now());
            } else {
                break;
            }
        }
        if self.watches.are_synced() {
            self.note_synced();
            for job in self.core.start(now()) {
                self.spawn(job);
            }
        }
        self.tell();
        true
    }

    fn note_synced(&mut self) {
        if !std::mem::replace(&mut self.is_working, true) {
            self.environment.metrics.enter(Phase::Working);
        }
    }

    fn spawn(&mut self, job: Job) {
        let work = job.work.clone();
        let task = self.tasks.spawn(carry_out(self.environment.clone(), job));
        self.works.insert(task.id(), work);
    }

    fn finish(&mut self, outcome: Result<(Id, Done), JoinError>) {
        let done = match outcome {
            Ok((id, done)) => {
                self.works.remove(&id);
                done
            }
            Err(error) => {
                let Some(work) = self.works.remove(&error.id()) else {
                    return;
                };
                tracing::error!(?work, %error, "a controller's task failed");
                let outcome = Outcome::Panicked;
                Done { work, outcome }
            }
        };
        self.core.finish(done, now());
    }

    /// Sends the Events that the core has for people.
    fn tell(&mut self) {
        for notice in self.core.notices() {
            if self.events.len() >= EVENTS_UNDER_WAY_MAX {
                tracing::warn!(?notice, "too many Events are under way, this one is dropped");
                continue;
            }
            self.events.spawn(post(self.environment.clone(), notice));
        }
    }

    /// Lets the writes under way end.
    async fn drain(mut self) -> Ending {
        let ends = async {
            while let Some(outcome) = self.tasks.join_next_with_id().await {
                self.finish(outcome);
            }
            while let Some(outcome) = self.events.join_next().await {
                log_panic(outcome);
            }
        };
        if tokio::time::timeout(DRAIN_PATIENCE, ends).await.is_err() {
            tracing::warn!(patience = ?DRAIN_PATIENCE, "writes under way were cut short");
            return Ending::CutShort;
        }
        Ending::Complete
    }
}

fn log_panic(outcome: Result<(), JoinError>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "a task failed");
    }
}

/// The time on the clock of the runtime, which tests may stop and move.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
