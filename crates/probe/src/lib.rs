//! Probes of containers and of external backends. This module decides about the schedule and the results, and is
//! pure. [`execute`] runs probes over the network ([`http`], [`grpc`], [`tcp`]).
//!
//! The rules are the kubelet's (`pkg/kubelet/prober/worker.go`). A startup probe holds back the others until it has
//! succeeded. Thresholds count successive equal results. A liveness or startup probe that reaches its failure
//! threshold ends the container, and all probes of the container stop.
//!
//! ```
//! use std::time::Duration;
//! use probe::definition::Probe;
//! use probe::{ProbeKind, ProbeResult, Probes, ProbeSchedule};
//! let readiness = Probe::default();
//! let mut probing = ProbeSchedule::new(Probes { readiness: Some(&readiness), ..Probes::default() });
//! assert_eq!(probing.begin(Duration::ZERO), [ProbeKind::Readiness]);
//! probing.count(ProbeKind::Readiness, ProbeResult::Success, Duration::ZERO);
//! assert!(probing.is_ready());
//! ```

mod connect;
pub mod definition;
pub mod grpc;
pub mod http;
mod run;
pub mod tcp;

use std::time::Duration;

pub use connect::{DialError, Host};
use definition::Probe;
pub use run::{ProbeReport, Target, execute, get};

#[cfg(test)]
mod tests;

/// Kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Startup probe.
    Startup,
    /// Liveness probe.
    Liveness,
    /// Readiness probe.
    Readiness,
}

impl ProbeKind {
    const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    /// Returns the name of the kind, as Events contain it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// Result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// The container is healthy.
    Success,
    /// The container is unhealthy or did not respond in time.
    Failure,
    /// The probe could not be run, so the state of the container is unknown.
    Unknown,
}

/// Effect of a probe result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEffect {
    /// The container became started, ready or unready.
    Changed,
    /// The container is to be restarted because of this probe.
    Restart(ProbeKind),
}

/// Probes of a container, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probes<'a> {
    /// Startup probe.
    pub startup: Option<&'a Probe>,
    /// Liveness probe.
    pub liveness: Option<&'a Probe>,
    /// Readiness probe.
    pub readiness: Option<&'a Probe>,
}

impl<'a> Probes<'a> {
    /// Returns the probe of a kind.
    pub fn of(self, kind: ProbeKind) -> Option<&'a Probe> {
        match kind {
            ProbeKind::Startup => self.startup,
            ProbeKind::Liveness => self.liveness,
            ProbeKind::Readiness => self.readiness,
        }
    }
}

/// State of the probes of one run of a container. Times are durations since the start of the container.
#[derive(Clone, Debug)]
pub struct ProbeSchedule {
    states: Vec<ProbeState>,
    is_started: bool,
}

/// State of a probe.
#[derive(Clone, Debug)]
struct ProbeState {
    kind: ProbeKind,
    initial_delay: Duration,
    period: Duration,
    success_threshold: u32,
    failure_threshold: u32,
    due: Duration,
    is_running: bool,
    /// Last result, and the number of equal results in a row.
    last: Option<bool>,
    in_a_row: u32,
    is_successful: bool,
    is_stopped: bool,
}

impl ProbeSchedule {
    /// Creates the state for a container that has just started.
    pub fn new(probes: Probes<'_>) -> Self {
        let states = ProbeKind::ALL
            .into_iter()
            .filter_map(|kind| Some(ProbeState::new(kind, probes.of(kind)?)));
        Self {
            states: states.collect(),
            is_started: probes.startup.is_none(),
        }
    }

    /// Marks the container as started; its startup probe does not run again.
    pub fn already_started(mut self) -> Self {
        self.is_started = true;
        self
    }

    /// Marks the container as ready until its readiness probe fails.
    pub fn already_ready(mut self) -> Self {
        for readiness in self
            .states
            .iter_mut()
            .filter(|state| state.kind == ProbeKind::Readiness)
        {
            readiness.is_successful = true;
        }
        self
    }

    /// Returns true if the container is started.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Returns true if the container is ready.
    pub fn is_ready(&self) -> bool {
        let readiness = self
            .states
            .iter()
            .find(|state| state.kind == ProbeKind::Readiness);
        self.is_started && readiness.is_none_or(|state| state.is_successful)
    }

    /// Returns true if no probe will run any more.
    pub fn is_idle(&self) -> bool {
        !self.states.iter().any(|state| !state.is_stopped)
    }

    /// Returns the time of the next probe; `None` if none is scheduled.
    pub fn next_due(&self) -> Option<Duration> {
        let waiting = self.states.iter().filter(|state| self.may_run(state));
        waiting.map(|state| state.due).min()
    }

    /// Returns the probes to run now. Each result goes to [`ProbeSchedule::count`] before the probe runs again.
    pub fn begin(&mut self, now: Duration) -> Vec<ProbeKind> {
        let due: Vec<ProbeKind> = self
            .states
            .iter()
            .filter(|state| self.may_run(state) && state.due <= now)
            .map(|state| state.kind)
            .collect();
        for state in self.states.iter_mut().filter(|state| due.contains(&state.kind)) {
            state.is_running = true;
        }
        due
    }

    /// Counts a result and returns its effect.
    pub fn count(&mut self, kind: ProbeKind, result: ProbeResult, now: Duration) -> Option<ProbeEffect> {
        let (was_started, was_ready) = (self.is_started(), self.is_ready());
        let state = self.states.iter_mut().find(|state| state.kind == kind)?;
        state.is_running = false;
        // One tick that passed during the probe is made up for.
        state.due = (state.due + state.period).max(now);
        if state.is_stopped || !state.reaches_threshold(result) {
            return None;
        }
        match (kind, state.is_successful) {
            (ProbeKind::Startup | ProbeKind::Liveness, false) => {
                self.states.iter_mut().for_each(|state| state.is_stopped = true);
                return Some(ProbeEffect::Restart(kind));
            }
            (ProbeKind::Startup, true) => {
                state.is_stopped = true;
                self.is_started = true;
                // The readiness probe runs at once, not at its next tick.
                for readiness in self
                    .states
                    .iter_mut()
                    .filter(|state| state.kind == ProbeKind::Readiness)
                {
                    readiness.due = now.max(readiness.initial_delay);
                }
            }
            _ => {}
        }
        let has_changed = (was_started, was_ready) != (self.is_started(), self.is_ready());
        has_changed.then_some(ProbeEffect::Changed)
    }

    /// Stops all probes except readiness, because the Pod is terminating.
    pub fn begin_termination(&mut self) {
        let others = self
            .states
            .iter_mut()
            .filter(|state| state.kind != ProbeKind::Readiness);
        others.for_each(|state| state.is_stopped = true);
    }

    fn may_run(&self, state: &ProbeState) -> bool {
        let is_its_time = (state.kind == ProbeKind::Startup) != self.is_started;
        is_its_time && !state.is_running && !state.is_stopped
    }
}

impl ProbeState {
    fn new(kind: ProbeKind, probe: &Probe) -> Self {
        let initial_delay = Duration::from_secs(probe.initial_delay_seconds.into());
        Self {
            kind,
            initial_delay,
            period: period(probe),
            success_threshold: probe.success_threshold.max(1),
            failure_threshold: probe.failure_threshold.max(1),
            due: initial_delay,
            is_running: false,
            last: None,
            in_a_row: 0,
            is_successful: kind == ProbeKind::Liveness,
            is_stopped: false,
        }
    }

    /// Counts a result; returns true if a threshold is reached.
    fn reaches_threshold(&mut self, result: ProbeResult) -> bool {
        let succeeded = match result {
            ProbeResult::Success => true,
            ProbeResult::Failure => false,
            ProbeResult::Unknown => return false,
        };
        if self.last != Some(succeeded) {
            self.last = Some(succeeded);
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let threshold = if succeeded {
            self.success_threshold
        } else {
            self.failure_threshold
        };
        if self.in_a_row < threshold {
            return false;
        }
        self.is_successful = succeeded;
        true
    }
}

/// Returns the period of a probe, at least 1 s.
fn period(probe: &Probe) -> Duration {
    Duration::from_secs(probe.period_seconds.max(1).into())
}

/// Returns the timeout of a probe, at least 1 s.
pub fn timeout(probe: &Probe) -> Duration {
    Duration::from_secs(probe.timeout_seconds.max(1).into())
}
