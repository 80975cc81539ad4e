//! Task alongside one run of a container (kubelet's `prober/worker.go`): the `postStart` handler, then the probes.

use std::time::Duration;

use probe::{ProbeEffect, ProbeKind, ProbeReport, ProbeResult, ProbeSchedule};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::handler_runner::HandlerRunner;
use crate::object::{self, Container};
use crate::pods::events::PodEventRecorder;

/// Longest duration of a `postStart` handler. Upstream has no limit, but every task here has one.
const POST_START_TIMEOUT: Duration = Duration::from_secs(3600);

/// Message of a task alongside a run.
pub(super) struct RunMessage {
    pub container: String,
    /// Number of the run.
    pub run: u64,
    pub event: RunEvent,
}

/// Content of a [`RunMessage`].
pub(super) enum RunEvent {
    /// Results of the probes.
    Probed { is_started: bool, is_ready: bool },
    /// The container must terminate. Its restart policy decides about a restart.
    Stop {
        /// Grace period; `None` for that of the Pod.
        grace: Option<Duration>,
        /// Message of the Event.
        message: String,
    },
}

/// Worker of one run of a container.
pub(super) struct ProbeWorker {
    /// Number of the run. The Pod worker ignores messages of earlier runs.
    pub run: u64,
    pub runner: HandlerRunner,
    /// Time for which the container already runs.
    pub age: Duration,
    /// True if an earlier agent started the container.
    pub is_adopted: bool,
    /// True if an earlier agent reported the container as started.
    pub was_started: bool,
    pub events: PodEventRecorder,
    /// Channel to the Pod worker.
    pub messages: mpsc::Sender<RunMessage>,
    /// True once the Pod terminates.
    pub is_terminating: watch::Receiver<bool>,
}

/// Returns true if a container has a `postStart` handler or probes.
pub(super) fn is_needed(container: &Container) -> bool {
    let post_start = container
        .lifecycle
        .as_ref()
        .and_then(|lifecycle| lifecycle.post_start.as_ref());
    post_start.is_some() || !ProbeSchedule::new(container.probes()).is_idle()
}

impl ProbeWorker {
    /// Runs until no probe is left, or until the Pod worker ends.
    pub(super) async fn run(mut self) {
        let begun = Instant::now();
        if !self.is_adopted && !self.post_start().await {
            return;
        }
        let mut probing = ProbeSchedule::new(self.runner.container.probes());
        if self.was_started {
            probing = probing.already_started();
        }
        self.send_results(&probing).await;
        let mut running: JoinSet<(ProbeKind, ProbeReport)> = JoinSet::new();
        while !probing.is_idle() {
            if *self.is_terminating.borrow_and_update() {
                probing.begin_termination();
            }
            let now = self.age + begun.elapsed();
            for kind in probing.begin(now) {
                running.spawn(run_probe(self.runner.clone(), kind));
            }
            let delay = probing.next_due().map(|due| due.saturating_sub(now));
            tokio::select! {
                Some(Ok((kind, report))) = running.join_next() => {
                    self.record_event(kind, &report);
                    match probing.count(kind, report.result, self.age + begun.elapsed()) {
                        None => {}
                        Some(ProbeEffect::Changed) => self.send_results(&probing).await,
                        Some(ProbeEffect::Restart(kind)) => return self.request_restart(kind).await,
                    }
                }
                () = sleep(delay.unwrap_or_default()), if delay.is_some() => {}
                changed = self.is_terminating.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Runs the `postStart` handler. Returns false after a failure, which terminates the container.
    async fn post_start(&mut self) -> bool {
        let lifecycle = self.runner.container.lifecycle.as_ref();
        let Some(handler) = lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref()) else {
            return true;
        };
        let Err(error) = self.runner.run_handler(handler, POST_START_TIMEOUT).await else {
            return true;
        };
        self.events
            .warning("FailedPostStartHook", format!("PostStartHook failed: {error}"));
        self.send(RunEvent::Stop {
            grace: None,
            message: "FailedPostStartHook".to_owned(),
        })
        .await;
        false
    }

    fn record_event(&self, kind: ProbeKind, report: &ProbeReport) {
        let (probe, message) = (kind.as_str(), &report.message);
        match report.result {
            ProbeResult::Success if report.has_warning => self
                .events
                .warning("ProbeWarning", format!("{probe} probe warning: {message}")),
            ProbeResult::Success => {}
            ProbeResult::Failure => self
                .events
                .warning("Unhealthy", format!("{probe} probe failed: {message}")),
            ProbeResult::Unknown => self.events.warning(
                "Unhealthy",
                format!("{probe} probe errored and resulted in unknown state: {message}"),
            ),
        }
    }

    async fn send_results(&self, probing: &ProbeSchedule) {
        self.send(RunEvent::Probed {
            is_started: probing.is_started(),
            is_ready: probing.is_ready(),
        })
        .await;
    }

    /// Requests the termination of the container after a failed startup or liveness probe.
    async fn request_restart(&self, kind: ProbeKind) {
        let container = &self.runner.container;
        let probe = container.probes().of(kind);
        let grace = probe.and_then(|probe| probe.termination_grace_period_seconds);
        let (name, kind) = (&container.name, kind.as_str().to_lowercase());
        self.send(RunEvent::Stop {
            grace: grace.map(object::bounded_grace),
            message: format!("Container {name} failed {kind} probe, will be restarted"),
        })
        .await;
    }

    async fn send(&self, event: RunEvent) {
        let message = RunMessage {
            container: self.runner.container.name.clone(),
            run: self.run,
            event,
        };
        if self.messages.send(message).await.is_err() {
            tracing::debug!("worker of a Pod ended before its probes");
        }
    }
}

async fn run_probe(runner: HandlerRunner, kind: ProbeKind) -> (ProbeKind, ProbeReport) {
    let result = match runner.container.probes().of(kind) {
        Some(probe) => runner.run_probe(probe).await,
        None => ProbeReport::new(ProbeResult::Unknown, "the container has no such probe"),
    };
    (kind, result)
}
