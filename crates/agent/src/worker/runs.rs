//! The runs of a Pod's containers: what goes on beside each, what it tells, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::AbortHandle;

use super::asker::Asker;
use super::ending::{self, Ending};
use super::{Worker, full_name, probing};
use crate::containers::{Ended, State};
use crate::sandbox::protocol::Exit;

/// What the task of a container tells the worker.
pub(super) struct Word {
    pub(super) container: String,
    /// The run that it is about.
    pub(super) run: u64,
    pub(super) what: What,
}

/// What a word says.
pub(super) enum What {
    /// What the probes say.
    Probed { is_started: bool, is_ready: bool },
    /// The container has to end, and may be started anew.
    End {
        /// Seconds until it is killed, if they are not the Pod's.
        grace: Option<Duration>,
        /// For people.
        why: String,
    },
}

/// What goes on beside the worker for a container that runs.
pub(super) struct RunTasks {
    number: u64,
    probing: Option<AbortHandle>,
    ending: Option<Ending>,
}

impl Drop for RunTasks {
    fn drop(&mut self) {
        if let Some(probing) = &self.probing {
            probing.abort();
        }
    }
}

impl Worker {
    pub(super) fn container_started(&mut self, name: &str) {
        let now = Timestamp::now();
        self.containers.started(name, now);
        self.follow(name, now, false);
    }

    /// Begins to ask the probes of a container that runs.
    pub(super) fn follow(&mut self, name: &str, since: Timestamp, is_adopted: bool) {
        self.runs_begun += 1;
        let number = self.runs_begun;
        let mut tasks = RunTasks {
            number,
            probing: None,
            ending: None,
        };
        let pod = Arc::clone(&self.pod);
        let is_main = pod.spec.containers.iter().any(|c| c.name == name);
        if let Some(asker) = self.asker(name) {
            let needs_task = is_main || asker.container.is_restartable();
            if needs_task && probing::is_needed(&asker.container) {
                let ran = Timestamp::now().duration_since(since);
                let run = probing::Run {
                    number,
                    asker,
                    ran: ran.try_into().unwrap_or_default(),
                    is_adopted,
                    was_started: is_adopted && pod.status.was_started(name),
                    events: self.events.of_container(name),
                    words: self.word_sender.clone(),
                    is_ending: self.is_ending.subscribe(),
                };
                tasks.probing = Some(tokio::spawn(run.follow()).abort_handle());
            } else {
                self.containers.probed(name, true, needs_task);
            }
        }
        self.runs.insert(name.to_owned(), tasks);
    }

    pub(super) fn container_ended(&mut self, name: &str, exit: &Exit) {
        self.runs.remove(name);
        tracing::debug!(pod = %self.key, container = name, exit_code = exit.code, "a container ended");
        let mut ended = ended(exit);
        let uid = &self.pod.metadata.uid;
        let cgroups = self.context.cgroups.as_ref();
        if cgroups.is_ok_and(|cgroups| cgroups.finish(uid, name)) && exit.code != 0 {
            ended.reason = "OOMKilled".into();
        }
        self.containers.ended(name, ended);
        let waits = self.containers.slot(name).map(|slot| &slot.state);
        if let Some(State::Waiting { due, .. }) = waits
            && *due > exit.finished_at
        {
            let message = format!(
                "Back-off restarting failed container {name} in pod {}",
                full_name(&self.pod)
            );
            self.events.of_container(name).warning("BackOff", message);
        }
    }

    /// What a container's task says, unless that run is over.
    pub(super) fn heed(&mut self, word: Word) {
        let name = &word.container;
        if self.runs.get(name).is_none_or(|run| run.number != word.run) {
            return;
        }
        match word.what {
            What::Probed { is_started, is_ready } => {
                tracing::debug!(pod = %self.key, container = name, is_started, is_ready, "probed");
                self.containers.probed(name, is_started, is_ready);
            }
            What::End { grace, why } => {
                let of_pod = self.pod.spec.termination_grace();
                let grace = grace.unwrap_or(of_pod);
                self.end_container(name, grace, Duration::ZERO, &why);
            }
        }
    }

    /// Begins to end the containers whose turn it is.
    pub(super) fn end_next(&mut self, grace: Duration, served_for: Duration) {
        for name in self.containers.to_stop() {
            self.end_container(&name, grace, served_for, &format!("Stopping container {name}"));
        }
    }

    /// Begins to end a container; one that is ending may have to be quicker.
    fn end_container(&mut self, name: &str, grace: Duration, served_for: Duration, why: &str) {
        let Some(asker) = self.asker(name) else { return };
        let Some(tasks) = self.runs.get_mut(name) else {
            return;
        };
        let deadline = tokio::time::Instant::now() + grace;
        if let Some(ending) = &tasks.ending {
            return ending.hasten(deadline);
        }
        let events = self.events.of_container(name);
        events.normal("Killing", why.to_owned());
        tasks.ending = Some(Ending::begin(ending::Plan {
            asker,
            deadline,
            served_for,
            events,
        }));
    }

    /// The way to a container.
    fn asker(&self, name: &str) -> Option<Asker> {
        let mut all = self.pod.spec.all_containers();
        Some(Asker {
            container: Arc::new(all.find(|c| c.name == name)?.clone()),
            address: self.pod_ips().first().copied(),
            executor: self.sandbox.as_ref()?.executor(),
            tls: Arc::clone(&self.context.probe_tls),
        })
    }
}

/// How a container ended, from what the sandbox says.
pub(super) fn ended(exit: &Exit) -> Ended {
    Ended {
        exit_code: exit.code,
        signal: exit.signal,
        reason: if exit.code == 0 { "Completed" } else { "Error" }.into(),
        started_at: exit.started_at,
        finished_at: exit.finished_at,
    }
}
