//! The life of a Pod's containers as data: what runs, what is to be started when, what the Pod's phase is. Pure:
//! the clock is an argument.

use jiff::{SignedDuration, Timestamp};

use crate::object::RestartPolicy;

#[cfg(test)]
mod tests;

/// The pause before the second restart of a container that ends again and again; it doubles each time (upstream's
/// `initialBackOffForCrashLoop`).
const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_secs(10);
/// The longest pause (upstream's `MaxCrashLoopBackOff`).
const BACK_OFF_MAX: SignedDuration = SignedDuration::from_mins(5);
/// A container that ran this long has proven itself: the pauses begin anew.
const BACK_OFF_RESET: SignedDuration = SignedDuration::from_mins(10);

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit status, or 128 plus the signal.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// `Completed`, `Error`, or what the agent knows better.
    pub reason: &'static str,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}

/// What a container does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is not running and is to run.
    Waiting {
        /// One word: `ContainerCreating`, `CrashLoopBackOff`, `ErrImagePull` …
        reason: &'static str,
        /// A sentence, or "".
        message: String,
        /// When to try.
        due: Timestamp,
    },
    /// It runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// It has ended and stays so.
    Terminated(Ended),
}

/// A container.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: State,
    /// How it ended before.
    pub last: Option<Ended>,
    /// How often it was started anew.
    pub restarts: u32,
    /// The pause before the next restart; none before the first.
    pause: Option<SignedDuration>,
}

/// The phase of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have been started.
    Pending,
    /// At least one runs or is to run again.
    Running,
    /// All ended well, and stay so.
    Succeeded,
    /// All ended, one of them badly, and stay so.
    Failed,
}

impl Phase {
    /// The name as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// The containers of a Pod: first the init containers one after the other, then the others side by side.
#[derive(Clone, Debug)]
pub struct Containers {
    policy: RestartPolicy,
    /// Init containers, in their order.
    pub init: Vec<Slot>,
    /// Containers.
    pub main: Vec<Slot>,
}

impl Slot {
    /// A container that is to be started at once.
    pub fn new(name: &str, restarts: u32, now: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Waiting {
                reason: "ContainerCreating",
                message: String::new(),
                due: now,
            },
            last: None,
            restarts,
            pause: None,
        }
    }

    fn ended_well(&self) -> bool {
        matches!(&self.state, State::Terminated(ended) if ended.exit_code == 0)
    }

    fn is_terminated(&self) -> bool {
        matches!(self.state, State::Terminated(_))
    }

    fn was_started(&self) -> bool {
        self.last.is_some() || self.restarts > 0 || !matches!(self.state, State::Waiting { .. })
    }

    fn due(&self) -> Option<Timestamp> {
        match &self.state {
            State::Waiting { due, .. } => Some(*due),
            _ => None,
        }
    }
}

impl Containers {
    /// Containers of which none runs yet.
    pub fn new(policy: RestartPolicy, init: Vec<Slot>, main: Vec<Slot>) -> Self {
        Self { policy, init, main }
    }

    /// The names of the containers to start now.
    pub fn due(&self, now: Timestamp) -> Vec<String> {
        self.startable()
            .filter(|slot| slot.due().is_some_and(|due| due <= now))
            .map(|slot| slot.name.clone())
            .collect()
    }

    /// When the next container is to be started.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.startable().filter_map(Slot::due).min()
    }

    /// Whether all init containers have ended well.
    pub fn is_initialized(&self) -> bool {
        self.init.iter().all(Slot::ended_well)
    }

    /// A container was started, or found running.
    pub fn started(&mut self, name: &str, now: Timestamp) {
        let Some(slot) = self.slot_mut(name) else { return };
        if slot.last.is_some() {
            slot.restarts += 1;
        }
        slot.state = State::Running { since: now };
    }

    /// A container could not be started; it is tried again after a pause.
    pub fn failed_to_start(&mut self, name: &str, reason: &'static str, message: String, now: Timestamp) {
        let Some(slot) = self.slot_mut(name) else { return };
        let pause = next_pause(slot.pause);
        slot.pause = Some(pause);
        slot.state = State::Waiting {
            reason,
            message,
            due: later(now, pause),
        };
    }

    /// A container has ended.
    pub fn ended(&mut self, name: &str, ended: Ended) {
        let is_init = self.init.iter().any(|slot| slot.name == name);
        let policy = self.policy;
        let Some(slot) = self.slot_mut(name) else { return };
        let restart = match policy {
            RestartPolicy::Always if is_init => ended.exit_code != 0,
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => ended.exit_code != 0,
            RestartPolicy::Never => false,
        };
        if !restart {
            slot.state = State::Terminated(ended);
            return;
        }
        let ran = ended.started_at.map_or(SignedDuration::ZERO, |start| {
            ended.finished_at.duration_since(start)
        });
        if ran >= BACK_OFF_RESET {
            slot.pause = None;
        }
        // The first restart comes at once, the next ones after growing pauses, as upstream.
        let pause = slot.pause.unwrap_or(SignedDuration::ZERO);
        slot.pause = Some(slot.pause.map_or(BACK_OFF_FIRST, |_| next_pause(slot.pause)));
        slot.state = State::Waiting {
            reason: "CrashLoopBackOff",
            message: format!("back-off {}s restarting failed container={name}", pause.as_secs()),
            due: later(ended.finished_at, pause),
        };
        slot.last = Some(ended);
    }

    /// All are gone with the Pod's sandbox, in whatever state they were.
    pub fn lost(&mut self, now: Timestamp) {
        let running: Vec<(String, Timestamp)> = self
            .slots()
            .filter_map(|slot| match slot.state {
                State::Running { since } => Some((slot.name.clone(), since)),
                _ => None,
            })
            .collect();
        for (name, since) in running {
            let ended = Ended {
                exit_code: 137,
                signal: Some(libc::SIGKILL),
                reason: "ContainerStatusUnknown",
                started_at: Some(since),
                finished_at: now,
            };
            self.ended(&name, ended);
        }
    }

    /// The Pod's phase.
    pub fn phase(&self) -> Phase {
        let init_failed = self
            .init
            .iter()
            .any(|slot| slot.is_terminated() && !slot.ended_well());
        if init_failed {
            return Phase::Failed;
        }
        if !self.is_initialized() {
            return Phase::Pending;
        }
        if !self.main.is_empty() && self.main.iter().all(Slot::is_terminated) {
            let all_well = self.main.iter().all(Slot::ended_well);
            return if all_well { Phase::Succeeded } else { Phase::Failed };
        }
        if self.main.iter().all(Slot::was_started) {
            Phase::Running
        } else {
            Phase::Pending
        }
    }

    /// Whether any container runs.
    pub fn any_running(&self) -> bool {
        self.slots()
            .any(|slot| matches!(slot.state, State::Running { .. }))
    }

    /// The container of that name.
    pub fn slot(&self, name: &str) -> Option<&Slot> {
        self.slots().find(|slot| slot.name == name)
    }

    /// All containers, init containers first.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.init.iter().chain(&self.main)
    }

    fn slot_mut(&mut self, name: &str) -> Option<&mut Slot> {
        self.init
            .iter_mut()
            .chain(&mut self.main)
            .find(|slot| slot.name == name)
    }

    /// The containers whose turn it is: the first init container that has not ended well, or all the others.
    fn startable(&self) -> impl Iterator<Item = &Slot> {
        let current = self.init.iter().find(|slot| !slot.ended_well());
        let main: &[Slot] = if current.is_some() { &[] } else { &self.main };
        current.into_iter().chain(main)
    }
}

fn next_pause(pause: Option<SignedDuration>) -> SignedDuration {
    pause.map_or(BACK_OFF_FIRST, |p| p.saturating_mul(2).min(BACK_OFF_MAX))
}

/// A time after `start`; far beyond the calendar's end it stays at `start`.
fn later(start: Timestamp, pause: SignedDuration) -> Timestamp {
    start.checked_add(pause).unwrap_or(start)
}
