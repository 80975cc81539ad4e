//! State of one container: its run, its last termination, and its next start.

use std::borrow::Cow;

use ::images::ImageId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::object::rfc3339;

/// Delay before the second restart of a container that keeps terminating. It doubles with each restart (upstream's
/// `initialBackOffForCrashLoop`).
const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_secs(10);
/// Longest delay between restarts (upstream's `MaxCrashLoopBackOff`).
pub const BACK_OFF_MAX: SignedDuration = SignedDuration::from_mins(5);
/// Run time after which the back-off starts again.
const BACK_OFF_RESET: SignedDuration = SignedDuration::from_mins(10);

/// Image of the store from which a container was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerImage {
    /// Normalised name.
    pub name: String,
    /// Name with the digest of the registry.
    pub digest_name: String,
    /// Identity of the content.
    pub id: ImageId,
    /// Stop signal of the image.
    pub stop_signal: Option<String>,
}

/// Termination of a container (`ContainerStateTerminated` of the API).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminated {
    /// Exit status, or 128 plus the number of the signal.
    pub exit_code: i32,
    /// Signal that killed the first process.
    pub signal: Option<i32>,
    /// `Completed`, `Error`, `OOMKilled` or `ContainerStatusUnknown`.
    pub reason: Cow<'static, str>,
    /// Message of the container, or "".
    #[serde(default)]
    pub message: String,
    /// Start time.
    #[serde(with = "rfc3339")]
    pub started_at: Timestamp,
    /// Exit time.
    #[serde(with = "rfc3339")]
    pub finished_at: Timestamp,
}

/// State of a container (`ContainerState` of the API).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The container does not run yet, or will restart.
    Waiting {
        /// Reason: `ContainerCreating`, `CrashLoopBackOff`, `ErrImagePull` …
        reason: &'static str,
        /// Message, or "".
        message: String,
        /// Time of the next start.
        due: Timestamp,
    },
    /// The container runs.
    Running {
        /// Start time.
        since: Timestamp,
    },
    /// The container has terminated and does not restart.
    Terminated(Terminated),
}

/// Container with its state.
#[derive(Clone, Debug)]
pub struct TrackedContainer {
    /// Name of the container, unique in its Pod.
    pub name: String,
    /// Set for restartable init containers (sidecars).
    pub is_restartable: bool,
    /// Set while the container runs and its startup probe, if any, has succeeded.
    pub is_started: bool,
    /// Set while the container is ready for traffic.
    pub is_ready: bool,
    /// Present state.
    pub state: State,
    /// Previous termination.
    pub last: Option<Terminated>,
    /// Number of restarts.
    pub restarts: u32,
    /// Image of the present or last run; `None` for a program of the image table.
    pub image: Option<ContainerImage>,
    /// Back-off of the last restart; `None` before the first.
    pub(super) back_off: Option<SignedDuration>,
}

impl TrackedContainer {
    /// Returns a container that starts at once.
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
            image: None,
            back_off: None,
        }
    }

    /// Marks the container as a restartable init container (sidecar).
    pub fn restartable(mut self) -> Self {
        self.is_restartable = true;
        self
    }

    /// Returns true if the container runs.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Returns true if the next init container may start: this one has succeeded or, if it is a sidecar, has started.
    pub fn is_init_complete(&self) -> bool {
        if self.is_restartable {
            self.is_started
        } else {
            self.has_succeeded()
        }
    }

    /// Returns true if the container terminated with exit code 0 and does not restart.
    pub(super) fn has_succeeded(&self) -> bool {
        matches!(&self.state, State::Terminated(terminated) if terminated.exit_code == 0)
    }

    /// Returns true if the container terminated and does not restart.
    pub(super) fn is_terminated(&self) -> bool {
        matches!(self.state, State::Terminated(_))
    }

    /// Returns true if the container has started at least once.
    pub(super) fn has_started(&self) -> bool {
        self.last.is_some() || self.restarts > 0 || !matches!(self.state, State::Waiting { .. })
    }

    /// Returns the time of the next start.
    pub(super) fn due(&self) -> Option<Timestamp> {
        match &self.state {
            State::Waiting { due, .. } => Some(*due),
            _ => None,
        }
    }

    /// Returns true if it is time to start the container. A start time beyond the longest back-off is from
    /// before the clock was set back.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.due()
            .is_some_and(|due| due <= now || due.duration_since(now) > BACK_OFF_MAX)
    }

    /// Waits for a start at `due`.
    pub(super) fn wait(&mut self, reason: &'static str, message: String, due: Timestamp) {
        self.state = State::Waiting { reason, message, due };
        (self.is_started, self.is_ready) = (false, false);
    }

    /// Records a termination. With `restarts`, the container waits for its restart.
    pub(super) fn terminate(&mut self, terminated: Terminated, restarts: bool, pod: &str) {
        (self.is_started, self.is_ready) = (false, false);
        if !restarts {
            self.state = State::Terminated(terminated);
            return;
        }
        let run_time = terminated.finished_at.duration_since(terminated.started_at);
        if run_time >= BACK_OFF_RESET {
            self.back_off = None;
        }
        // The first restart is immediate, the next ones have a growing back-off, as upstream.
        let delay = self.back_off.unwrap_or(SignedDuration::ZERO);
        self.back_off = Some(next_back_off(self.back_off));
        let due = time_after(terminated.finished_at, delay);
        self.last = Some(terminated);
        self.wait_to_restart(due, pod);
    }

    /// Waits for a restart at `due`.
    pub(super) fn wait_to_restart(&mut self, due: Timestamp, pod: &str) {
        let finished_at = self.last.as_ref().map_or(due, |last| last.finished_at);
        let message = format!(
            "back-off {} restarting failed container={} pod={pod}",
            go_duration(due.duration_since(finished_at)),
            self.name
        );
        self.wait("CrashLoopBackOff", message, due);
    }

    /// Records a failed start. The next attempt follows after the back-off.
    pub(super) fn start_failed(&mut self, reason: &'static str, message: String, now: Timestamp) {
        let back_off = next_back_off(self.back_off);
        self.back_off = Some(back_off);
        self.wait(reason, message, time_after(now, back_off));
    }
}

fn next_back_off(present: Option<SignedDuration>) -> SignedDuration {
    present.map_or(BACK_OFF_FIRST, |present| {
        present.saturating_mul(2).min(BACK_OFF_MAX)
    })
}

/// Returns the time after `start`. Beyond the range of timestamps, `start` itself.
fn time_after(start: Timestamp, delay: SignedDuration) -> Timestamp {
    start.checked_add(delay).unwrap_or(start)
}

/// Returns the duration in whole seconds as upstream's messages have it: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: SignedDuration) -> String {
    match (duration.as_secs() / 60, duration.as_secs() % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
