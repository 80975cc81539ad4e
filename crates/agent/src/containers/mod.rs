//! Containers of a Pod: their environment, logs, stop signals and termination messages.
//!
//! [`Containers`] is the state machine: starts, restarts with back-off, phase. It is pure: the clock is an argument.

mod checkpoint;
mod container;
pub mod environment;
pub mod logs;
pub(crate) mod services;
pub(crate) mod stop_signal;
pub(crate) mod termination_message;

use jiff::Timestamp;

use crate::object::RestartPolicy;

pub use checkpoint::Checkpoint;
pub use container::{BACK_OFF_MAX, ContainerImage, State, Terminated, TrackedContainer};

#[cfg(test)]
mod tests;

/// Phase of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Some containers have not started yet.
    Pending,
    /// At least one container runs or will restart.
    Running,
    /// All containers terminated with exit code 0 and do not restart.
    Succeeded,
    /// All containers terminated, at least one with a failure, and do not restart.
    Failed,
}

impl Phase {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// Containers of a Pod.
///
/// Init containers run one after the other, then the main containers run concurrently. Restartable init containers
/// (sidecars) keep running, and terminate after the main containers in reverse order. Ephemeral containers start at any
/// time, never restart, and do not affect the phase.
#[derive(Clone, Debug)]
pub struct Containers {
    /// Pod name in messages: `name_namespace(uid)`.
    pod: String,
    policy: RestartPolicy,
    /// Set once the Pod terminates: no container starts any more.
    is_terminating: bool,
    /// Init containers in their order.
    pub init: Vec<TrackedContainer>,
    /// Main containers.
    pub main: Vec<TrackedContainer>,
    /// Ephemeral containers.
    ephemeral: Vec<TrackedContainer>,
}

impl Containers {
    /// Returns containers of which none has started. `pod` is the Pod name in messages: `name_namespace(uid)`.
    pub fn new(
        pod: String,
        policy: RestartPolicy,
        init: Vec<TrackedContainer>,
        main: Vec<TrackedContainer>,
    ) -> Self {
        Self {
            pod,
            policy,
            is_terminating: false,
            init,
            main,
            ephemeral: Vec::new(),
        }
    }

    /// Adds an ephemeral container, unless there is one of that name.
    pub fn add_ephemeral(&mut self, container: TrackedContainer) {
        if self.get(&container.name).is_none() {
            self.ephemeral.push(container);
        }
    }

    /// Returns the names of the containers to start at `now`.
    pub fn due(&self, now: Timestamp) -> Vec<String> {
        self.startable()
            .filter(|container| container.is_due(now))
            .map(|container| container.name.clone())
            .collect()
    }

    /// Returns the earliest start time of a waiting container.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.startable().filter_map(TrackedContainer::due).min()
    }

    /// Returns true if all init containers have succeeded or, if restartable, have started.
    pub fn is_initialized(&self) -> bool {
        self.main.iter().any(TrackedContainer::has_started)
            || self.init.iter().all(TrackedContainer::is_init_complete)
    }

    /// Records the start of a container.
    pub fn mark_started(&mut self, name: &str, now: Timestamp) {
        let Some(container) = self.get_mut(name) else {
            return;
        };
        if container.last.is_some() {
            container.restarts += 1;
        }
        container.state = State::Running { since: now };
    }

    /// Returns the restart count after the next start of a container.
    pub fn next_restart_count(&self, name: &str) -> u32 {
        let container = self.get(name);
        container.map_or(0, |container| {
            container.restarts + u32::from(container.last.is_some())
        })
    }

    /// Records the probe results of a running container.
    pub fn set_probe_results(&mut self, name: &str, is_started: bool, is_ready: bool) {
        if let Some(container) = self.get_mut(name).filter(|container| container.is_running()) {
            (container.is_started, container.is_ready) = (is_started, is_ready);
        }
    }

    /// Records a failed start. The next attempt follows after the back-off.
    pub fn mark_start_failed(&mut self, name: &str, reason: &'static str, message: String, now: Timestamp) {
        if let Some(container) = self.get_mut(name) {
            container.start_failed(reason, message, now);
        }
    }

    /// Records that a container waits for its image until `due`. The back-off of restarts stays the same.
    pub fn wait_for_image(&mut self, name: &str, reason: &'static str, message: String, due: Timestamp) {
        if let Some(container) = self.get_mut(name) {
            container.wait(reason, message, due);
        }
    }

    /// Records the image of the next run of a container; `None` for a program of the image table.
    pub fn set_image(&mut self, name: &str, image: Option<ContainerImage>) {
        if let Some(container) = self.get_mut(name) {
            container.image = image;
        }
    }

    /// Delays the start of a container until `due` for a reason outside of it. The back-off stays the same.
    pub fn delay_start(&mut self, name: &str, message: String, due: Timestamp) {
        if let Some(container) = self.get_mut(name) {
            container.wait("ContainerCreating", message, due);
        }
    }

    /// Records the termination of a container, which then waits for its restart or stays terminated.
    pub fn mark_terminated(&mut self, name: &str, terminated: Terminated) {
        let is_init = self.init.iter().any(|container| container.name == name);
        let is_ephemeral = self.ephemeral.iter().any(|container| container.name == name);
        let has_work = !self.is_complete();
        let (policy, is_terminating, pod) = (self.policy, self.is_terminating, self.pod.clone());
        let Some(container) = self.get_mut(name) else {
            return;
        };
        let restarts = match policy {
            _ if is_terminating || is_ephemeral => false,
            _ if container.is_restartable => has_work,
            RestartPolicy::Always if is_init => terminated.exit_code != 0,
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => terminated.exit_code != 0,
            RestartPolicy::Never => false,
        };
        container.terminate(terminated, restarts, &pod);
    }

    /// Begins the termination of the Pod: containers do not restart any more.
    pub fn begin_termination(&mut self) {
        self.is_terminating = true;
    }

    /// Returns true if the work of the Pod is complete: only sidecars may still run.
    pub fn is_complete(&self) -> bool {
        self.has_init_failed()
            || !self.main.is_empty() && self.main.iter().all(TrackedContainer::is_terminated)
    }

    /// Returns the names of the running containers to stop next: all but the sidecars, then the last sidecar.
    pub fn next_to_stop(&self) -> Vec<String> {
        let running = |container: &&TrackedContainer| container.is_running();
        let first: Vec<String> = self
            .iter()
            .filter(running)
            .filter(|container| !container.is_restartable)
            .map(|container| container.name.clone())
            .collect();
        if !first.is_empty() {
            return first;
        }
        let sidecar = self.init.iter().rev().find(running);
        sidecar
            .map(|container| container.name.clone())
            .into_iter()
            .collect()
    }

    /// Records that all running containers ended with the sandbox.
    pub fn mark_all_lost(&mut self, now: Timestamp) {
        self.mark_lost_unless(now, |_| false);
    }

    /// Records that running containers that are not present have ended.
    pub fn mark_lost_unless(&mut self, now: Timestamp, is_present: impl Fn(&str) -> bool) {
        let running: Vec<(String, Timestamp)> = self
            .iter()
            .filter_map(|container| match container.state {
                State::Running { since } if !is_present(&container.name) => {
                    Some((container.name.clone(), since))
                }
                _ => None,
            })
            .collect();
        for (name, since) in running {
            let terminated = Terminated {
                exit_code: 137,
                signal: Some(libc::SIGKILL),
                reason: "ContainerStatusUnknown".into(),
                message: String::new(),
                started_at: since,
                finished_at: now,
            };
            self.mark_terminated(&name, terminated);
        }
    }

    /// Returns the phase of the Pod.
    pub fn phase(&self) -> Phase {
        let mut own = self.init.iter().chain(&self.main);
        let is_running = own.any(TrackedContainer::is_running);
        match (self.has_init_failed(), self.is_complete()) {
            // Sidecars still terminate.
            (true, _) if is_running => Phase::Pending,
            (true, _) => Phase::Failed,
            (false, true) if is_running => Phase::Running,
            (false, true) if self.main.iter().all(TrackedContainer::has_succeeded) => Phase::Succeeded,
            (false, true) => Phase::Failed,
            (false, false) if self.is_started() => Phase::Running,
            (false, false) => Phase::Pending,
        }
    }

    /// Returns true if any container runs.
    pub fn is_any_running(&self) -> bool {
        self.iter().any(TrackedContainer::is_running)
    }

    /// Returns the container with that name.
    pub fn get(&self, name: &str) -> Option<&TrackedContainer> {
        self.iter().find(|container| container.name == name)
    }

    /// Returns all containers, init containers first, ephemeral containers last.
    pub fn iter(&self) -> impl Iterator<Item = &TrackedContainer> {
        self.init.iter().chain(&self.main).chain(&self.ephemeral)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut TrackedContainer> {
        self.init
            .iter_mut()
            .chain(&mut self.main)
            .chain(&mut self.ephemeral)
            .find(|container| container.name == name)
    }

    /// Returns true if all main containers have started.
    fn is_started(&self) -> bool {
        self.is_initialized() && self.main.iter().all(TrackedContainer::has_started)
    }

    fn has_init_failed(&self) -> bool {
        let failed = |container: &TrackedContainer| {
            !container.is_restartable && container.is_terminated() && !container.has_succeeded()
        };
        self.init.iter().any(failed)
    }

    /// Returns the containers that may start. During initialization these are the first incomplete init container and
    /// the sidecars before it, afterwards the sidecars and the main containers. Ephemeral containers may start in
    /// both phases.
    fn startable(&self) -> impl Iterator<Item = &TrackedContainer> {
        let is_finished = self.is_complete() || self.is_terminating;
        let current = self
            .init
            .iter()
            .position(|container| !container.is_init_complete());
        let reached = match current {
            // Init containers do not run again after a main container has started.
            Some(_) if self.is_initialized() => self.init.len(),
            Some(index) => index + 1,
            None => self.init.len(),
        };
        let main: &[TrackedContainer] = if self.is_initialized() { &self.main } else { &[] };
        let init = self.init.iter().take(reached);
        let init = init.filter(move |container| container.is_restartable || !container.is_init_complete());
        init.chain(main)
            .chain(&self.ephemeral)
            .filter(move |_| !is_finished)
    }
}
