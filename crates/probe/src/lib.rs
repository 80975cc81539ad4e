//! Probes of containers, and of addresses that are no Pods: when to ask and what the answers mean (here, pure), and
//! asking over the network ([`ask`]: [`http`], [`grpc`], [`tcp`]).
//!
//! The rules are the kubelet's (`pkg/kubelet/prober/worker.go`). A startup probe holds back the others until it has
//! succeeded. Answers count in a row. A liveness or startup probe that has failed often enough asks for the
//! container's end, and nothing is asked of that container any more.

mod ask;
mod connect;
pub mod definition;
pub mod grpc;
pub mod http;
pub mod tcp;

use std::time::Duration;

pub use ask::{Asked, Target, ask, get};
pub use connect::{DialError, Host};
use definition::Probe;

#[cfg(test)]
mod tests;

/// Which of a container's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Whether it has come up.
    Startup,
    /// Whether it is to be started anew.
    Liveness,
    /// Whether it takes traffic.
    Readiness,
}

impl ProbeKind {
    const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    /// The word that begins a sentence about it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The container is as it should be.
    Success,
    /// It is not, or gave no answer in time.
    Failure,
    /// It could not be asked: that says nothing about it.
    Unknown,
}

/// What an answer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Whether the container has started, or is ready.
    Changed,
    /// The container is to be ended; the probe that says so.
    End(ProbeKind),
}

/// The probes of a container, as it describes them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probes<'a> {
    /// Whether it has come up.
    pub startup: Option<&'a Probe>,
    /// Whether it is to be started anew.
    pub liveness: Option<&'a Probe>,
    /// Whether it takes traffic.
    pub readiness: Option<&'a Probe>,
}

impl<'a> Probes<'a> {
    /// The probe of that kind.
    pub fn of(self, kind: ProbeKind) -> Option<&'a Probe> {
        match kind {
            ProbeKind::Startup => self.startup,
            ProbeKind::Liveness => self.liveness,
            ProbeKind::Readiness => self.readiness,
        }
    }
}

/// The probes of one run of a container. Times are durations since the container was started.
#[derive(Clone, Debug)]
pub struct Probing {
    tracks: Vec<Track>,
    is_started: bool,
}

#[derive(Clone, Debug)]
struct Track {
    kind: ProbeKind,
    initial_delay: Duration,
    period: Duration,
    success_threshold: u32,
    failure_threshold: u32,
    due: Duration,
    is_asked: bool,
    /// What the last answers in a row were, and how many.
    last: Option<bool>,
    in_a_row: u32,
    is_successful: bool,
    is_over: bool,
}

impl Probing {
    /// The probes of a container that has just been started.
    pub fn new(probes: Probes<'_>) -> Self {
        let tracks = ProbeKind::ALL
            .into_iter()
            .filter_map(|kind| Some(Track::new(kind, probes.of(kind)?)));
        Self {
            tracks: tracks.collect(),
            is_started: probes.startup.is_none(),
        }
    }

    /// Of a container that was seen to have started before: its startup probe is not asked again.
    pub fn already_started(mut self) -> Self {
        self.is_started = true;
        self
    }

    /// Of one that was seen to be ready before: it is, until its readiness probe has failed often enough.
    pub fn already_ready(mut self) -> Self {
        for readiness in self.tracks.iter_mut().filter(|t| t.kind == ProbeKind::Readiness) {
            readiness.is_successful = true;
        }
        self
    }

    /// Whether the container counts as started.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Whether the container takes traffic.
    pub fn is_ready(&self) -> bool {
        let readiness = self.tracks.iter().find(|t| t.kind == ProbeKind::Readiness);
        self.is_started && readiness.is_none_or(|track| track.is_successful)
    }

    /// Whether there is nothing to ask, now or later.
    pub fn is_idle(&self) -> bool {
        !self.tracks.iter().any(|track| !track.is_over)
    }

    /// When to ask next; `None` while nothing is to be asked.
    pub fn next_due(&self) -> Option<Duration> {
        let waiting = self.tracks.iter().filter(|track| self.may_ask(track));
        waiting.map(|track| track.due).min()
    }

    /// The probes to ask now. Each is to be answered by [`Probing::count`] before it comes again.
    pub fn begin(&mut self, now: Duration) -> Vec<ProbeKind> {
        let due: Vec<ProbeKind> = self
            .tracks
            .iter()
            .filter(|track| self.may_ask(track) && track.due <= now)
            .map(|track| track.kind)
            .collect();
        for track in self.tracks.iter_mut().filter(|track| due.contains(&track.kind)) {
            track.is_asked = true;
        }
        due
    }

    /// Counts an answer.
    pub fn count(&mut self, kind: ProbeKind, answer: Answer, now: Duration) -> Option<Verdict> {
        let (was_started, was_ready) = (self.is_started(), self.is_ready());
        let track = self.tracks.iter_mut().find(|track| track.kind == kind)?;
        track.is_asked = false;
        // A tick that passed while it was asked is made up for, but only one.
        track.due = (track.due + track.period).max(now);
        if track.is_over || !track.settles(answer) {
            return None;
        }
        match (kind, track.is_successful) {
            (ProbeKind::Startup | ProbeKind::Liveness, false) => {
                self.tracks.iter_mut().for_each(|track| track.is_over = true);
                return Some(Verdict::End(kind));
            }
            (ProbeKind::Startup, true) => {
                track.is_over = true;
                self.is_started = true;
                // Readiness is asked at once, not at its next tick.
                for readiness in self.tracks.iter_mut().filter(|t| t.kind == ProbeKind::Readiness) {
                    readiness.due = now.max(readiness.initial_delay);
                }
            }
            _ => {}
        }
        let has_changed = (was_started, was_ready) != (self.is_started(), self.is_ready());
        has_changed.then_some(Verdict::Changed)
    }

    /// The Pod is ending: only its readiness is of interest still.
    pub fn end_begins(&mut self) {
        let others = self.tracks.iter_mut().filter(|t| t.kind != ProbeKind::Readiness);
        others.for_each(|track| track.is_over = true);
    }

    fn may_ask(&self, track: &Track) -> bool {
        let is_its_time = (track.kind == ProbeKind::Startup) != self.is_started;
        is_its_time && !track.is_asked && !track.is_over
    }
}

impl Track {
    fn new(kind: ProbeKind, probe: &Probe) -> Self {
        let initial_delay = Duration::from_secs(probe.initial_delay_seconds.into());
        Self {
            kind,
            initial_delay,
            period: period(probe),
            success_threshold: probe.success_threshold.max(1),
            failure_threshold: probe.failure_threshold.max(1),
            due: initial_delay,
            is_asked: false,
            last: None,
            in_a_row: 0,
            is_successful: kind == ProbeKind::Liveness,
            is_over: false,
        }
    }

    /// Counts an answer; whether there were enough alike in a row to say what is.
    fn settles(&mut self, answer: Answer) -> bool {
        let succeeded = match answer {
            Answer::Success => true,
            Answer::Failure => false,
            Answer::Unknown => return false,
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

/// How long between two questions; never nothing, whatever the object says.
fn period(probe: &Probe) -> Duration {
    Duration::from_secs(probe.period_seconds.max(1).into())
}

/// How long an answer may take.
pub fn timeout(probe: &Probe) -> Duration {
    Duration::from_secs(probe.timeout_seconds.max(1).into())
}
