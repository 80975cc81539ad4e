//! One container: what it does, how it ended before, and when it is to be started again.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::rfc3339;

/// The pause before the second restart of a container that ends again and again; it doubles each time (upstream's
/// `initialBackOffForCrashLoop`).
const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_secs(10);
/// The longest pause (upstream's `MaxCrashLoopBackOff`).
pub const PAUSE_MAX: SignedDuration = SignedDuration::from_mins(5);
/// A container that ran this long has proven itself: the pauses begin anew.
const BACK_OFF_RESET: SignedDuration = SignedDuration::from_mins(10);

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Exit status, or 128 plus the signal.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// `Completed`, `Error`, or what the agent knows better.
    pub reason: Cow<'static, str>,
    /// When it was started.
    #[serde(with = "rfc3339")]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(with = "rfc3339")]
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
    /// Name.
    pub name: String,
    /// Whether it is an init container that runs on beside the others (a sidecar).
    pub is_restartable: bool,
    /// Whether it counts as started: it runs, and its startup probe has succeeded if it has one.
    pub is_started: bool,
    /// Whether it takes traffic.
    pub is_ready: bool,
    /// What it does.
    pub state: State,
    /// How it ended before.
    pub last: Option<Ended>,
    /// How often it was started anew.
    pub restarts: u32,
    /// The pause before the next restart; none before the first.
    pub(super) pause: Option<SignedDuration>,
}

impl Slot {
    /// A container that is to be started at once.
    pub fn new(name: &str, restarts: u32, now: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            is_restartable: false,
            is_started: false,
            is_ready: false,
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

    /// As an init container that runs on beside the others.
    pub fn restartable(mut self) -> Self {
        self.is_restartable = true;
        self
    }

    /// Whether it runs now.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Whether it has done what has to be done before the next init container: it has ended well, or, if it runs
    /// on beside the others, has started.
    pub fn is_past(&self) -> bool {
        if self.is_restartable {
            self.is_started
        } else {
            self.ended_well()
        }
    }

    pub(super) fn ended_well(&self) -> bool {
        matches!(&self.state, State::Terminated(ended) if ended.exit_code == 0)
    }

    pub(super) fn is_terminated(&self) -> bool {
        matches!(self.state, State::Terminated(_))
    }

    pub(super) fn was_started(&self) -> bool {
        self.last.is_some() || self.restarts > 0 || !matches!(self.state, State::Waiting { .. })
    }

    pub(super) fn due(&self) -> Option<Timestamp> {
        match &self.state {
            State::Waiting { due, .. } => Some(*due),
            _ => None,
        }
    }

    /// Whether it is time to start it. A time that lies farther ahead than any pause is long is from before the clock
    /// was set back.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.due()
            .is_some_and(|due| due <= now || due.duration_since(now) > PAUSE_MAX)
    }

    pub(super) fn wait(&mut self, reason: &'static str, message: String, due: Timestamp) {
        self.state = State::Waiting { reason, message, due };
        (self.is_started, self.is_ready) = (false, false);
    }

    /// It has ended and is to run again, as `restarts` says, or not.
    pub(super) fn end(&mut self, ended: Ended, restarts: bool, pod: &str) {
        (self.is_started, self.is_ready) = (false, false);
        if !restarts {
            self.state = State::Terminated(ended);
            return;
        }
        let ran = ended.finished_at.duration_since(ended.started_at);
        if ran >= BACK_OFF_RESET {
            self.pause = None;
        }
        // The first restart comes at once, the next ones after growing pauses, as upstream.
        let pause = self.pause.unwrap_or(SignedDuration::ZERO);
        self.pause = Some(self.pause.map_or(BACK_OFF_FIRST, |_| next_pause(self.pause)));
        let due = later(ended.finished_at, pause);
        self.last = Some(ended);
        self.wait_to_restart(due, pod);
    }

    /// It has ended, and runs again at `due`.
    pub(super) fn wait_to_restart(&mut self, due: Timestamp, pod: &str) {
        let finished_at = self.last.as_ref().map_or(due, |ended| ended.finished_at);
        let message = format!(
            "back-off {} restarting failed container={} pod={pod}",
            go_duration(due.duration_since(finished_at)),
            self.name
        );
        self.wait("CrashLoopBackOff", message, due);
    }

    /// It could not be started, and is tried again after a pause.
    pub(super) fn fail_to_start(&mut self, reason: &'static str, message: String, now: Timestamp) {
        let pause = next_pause(self.pause);
        self.pause = Some(pause);
        self.wait(reason, message, later(now, pause));
    }
}

fn next_pause(pause: Option<SignedDuration>) -> SignedDuration {
    pause.map_or(BACK_OFF_FIRST, |p| p.saturating_mul(2).min(PAUSE_MAX))
}

/// A time after `start`; far beyond the calendar's end it stays at `start`.
fn later(start: Timestamp, pause: SignedDuration) -> Timestamp {
    start.checked_add(pause).unwrap_or(start)
}

/// Whole seconds as upstream's messages have them: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: SignedDuration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
