//! Runs of a Pod's containers: the tasks alongside each run, their messages, and the exit of the container.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::PodWorker;
use super::container_termination::{Termination, TerminationPlan};
use super::handler_runner::HandlerRunner;
use super::probe_worker::{self, ProbeWorker, RunEvent, RunMessage};
use crate::containers::stop_signal;
use crate::containers::{State, Terminated};
use crate::sandbox::protocol::Exit;

/// Maximum number of messages of tasks that wait for the worker: one for each container is usual.
const MESSAGES_MAX: usize = 16;

/// Tasks alongside the running containers of a Pod.
pub(super) struct ContainerRuns {
    by_container: BTreeMap<String, Run>,
    /// Number of runs so far.
    begun: u64,
    sender: mpsc::Sender<RunMessage>,
    receiver: mpsc::Receiver<RunMessage>,
    /// Set once the Pod terminates.
    is_terminating: watch::Sender<bool>,
}

/// One run of a container with its tasks.
struct Run {
    number: u64,
    probes: Option<AbortHandle>,
    termination: Option<Termination>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(probes) = &self.probes {
            probes.abort();
        }
    }
}

impl ContainerRuns {
    /// Returns a set without runs.
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
        Self {
            by_container: BTreeMap::new(),
            begun: 0,
            sender,
            receiver,
            is_terminating: watch::channel(false).0,
        }
    }

    /// Waits for the next message.
    pub(super) async fn next_message(&mut self) -> RunMessage {
        match self.receiver.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// Stops the tasks of all runs.
    pub(super) fn clear(&mut self) {
        self.by_container.clear();
    }

    /// Informs the probes that the Pod terminates.
    pub(super) fn begin_termination(&self) {
        self.is_terminating.send_replace(true);
    }

    fn is_current(&self, message: &RunMessage) -> bool {
        let run = self.by_container.get(&message.container);
        run.is_some_and(|run| run.number == message.run)
    }
}

impl PodWorker {
    /// Records the start of a container and begins its run.
    pub(super) fn container_started(&mut self, name: &str) {
        let now = Timestamp::now();
        self.containers.mark_started(name, now);
        self.begin_run(name, now, false);
    }

    /// Starts the probes of a running container. A container without any is ready at once.
    pub(super) fn begin_run(&mut self, name: &str, since: Timestamp, is_adopted: bool) {
        self.runs.begun += 1;
        let number = self.runs.begun;
        let pod = Arc::clone(&self.context.pod);
        let is_main = pod.spec.containers.iter().any(|container| container.name == name);
        let mut probes = None;
        if let Some(runner) = self.handler_runner(name) {
            let is_long_running = is_main || runner.container.is_restartable();
            if is_long_running && probe_worker::is_needed(&runner.container) {
                let age = Timestamp::now().duration_since(since);
                let worker = ProbeWorker {
                    run: number,
                    runner,
                    age: age.try_into().unwrap_or_default(),
                    is_adopted,
                    was_started: is_adopted && pod.status.was_started(name),
                    events: self.context.events.for_container(name),
                    messages: self.runs.sender.clone(),
                    is_terminating: self.runs.is_terminating.subscribe(),
                };
                probes = Some(tokio::spawn(worker.run()).abort_handle());
            } else {
                self.containers.set_probe_results(name, true, is_long_running);
            }
        }
        let run = Run {
            number,
            probes,
            termination: None,
        };
        self.runs.by_container.insert(name.to_owned(), run);
    }

    /// Records the exit of a container with its cause and its termination message.
    pub(super) async fn container_exited(&mut self, name: &str, exit: &Exit) {
        self.runs.by_container.remove(name);
        tracing::debug!(pod = %self.context.key, container = name, exit_code = exit.code, "container exited");
        let message = self.termination_message(name, exit.code).await;
        let mut terminated = terminated_state(exit, message);
        let uid = &self.context.pod.metadata.uid;
        let cgroups = self.context.agent.cgroups.as_ref();
        if cgroups.is_ok_and(|cgroups| cgroups.finish(uid, name)) && exit.code != 0 {
            terminated.reason = "OOMKilled".into();
        }
        self.containers.mark_terminated(name, terminated);
        let state = self.containers.get(name).map(|container| &container.state);
        if let Some(State::Waiting { due, .. }) = state
            && *due > exit.finished_at
        {
            let pod = self.context.full_name();
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            let events = self.context.events.for_container(name);
            events.warning("BackOff", message);
        }
    }

    /// Applies a message of a run, unless the run is over.
    pub(super) fn handle_run_message(&mut self, message: RunMessage) {
        if !self.runs.is_current(&message) {
            return;
        }
        let name = &message.container;
        match message.event {
            RunEvent::Probed { is_started, is_ready } => {
                tracing::debug!(pod = %self.context.key, container = name, is_started, is_ready, "container probed");
                self.containers.set_probe_results(name, is_started, is_ready);
            }
            RunEvent::Stop { grace, message } => {
                let grace = grace.unwrap_or(self.context.pod.spec.termination_grace());
                self.stop_container(name, grace, Duration::ZERO, &message);
            }
        }
    }

    /// Begins the termination of the next containers in the termination order.
    pub(super) fn stop_next(&mut self, grace: Duration, drain: Duration) {
        for name in self.containers.next_to_stop() {
            self.stop_container(&name, grace, drain, &format!("Stopping container {name}"));
        }
    }

    /// Begins the termination of a container. One that terminates already gets the earlier of the two deadlines.
    fn stop_container(&mut self, name: &str, grace: Duration, drain: Duration, message: &str) {
        let Some(runner) = self.handler_runner(name) else {
            return;
        };
        let signal = self.stop_signal(name);
        let Some(run) = self.runs.by_container.get_mut(name) else {
            return;
        };
        let deadline = Instant::now() + grace;
        if let Some(termination) = &run.termination {
            return termination.advance_deadline(deadline);
        }
        let events = self.context.events.for_container(name);
        events.normal("Killing", message.to_owned());
        run.termination = Some(Termination::start(TerminationPlan {
            runner,
            signal,
            deadline,
            drain,
            events,
        }));
    }

    /// Returns the stop signal of the container, or else of its image, or else SIGTERM.
    fn stop_signal(&self, name: &str) -> Signal {
        let spec = self.context.container(name);
        let image = self
            .containers
            .get(name)
            .and_then(|container| container.image.as_ref());
        stop_signal::of_container(spec, image.and_then(|image| image.stop_signal.as_deref()))
    }

    fn handler_runner(&self, name: &str) -> Option<HandlerRunner> {
        let container = self.context.container(name)?;
        Some(HandlerRunner {
            ports: container.probed_ports(),
            container: Arc::new(container.clone()),
            address: self.sandbox.pod_ips(&self.context).first().copied(),
            executor: self.sandbox.executor()?,
            tls: Arc::clone(&self.context.agent.probe_tls),
        })
    }
}

/// Returns the state of a container after an exit, with its termination message.
pub(super) fn terminated_state(exit: &Exit, message: String) -> Terminated {
    Terminated {
        exit_code: exit.code,
        signal: exit.signal,
        reason: if exit.code == 0 { "Completed" } else { "Error" }.into(),
        message,
        started_at: exit.started_at,
        finished_at: exit.finished_at,
    }
}
