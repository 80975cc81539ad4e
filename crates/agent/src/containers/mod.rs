//! The life of a Pod's containers as data: what runs, what is to be started when, what the Pod's phase is. Pure:
//! the clock is an argument.

mod memory;
mod slot;

use jiff::Timestamp;

use crate::object::RestartPolicy;

pub use memory::Memory;
pub use slot::{Ended, PAUSE_MAX, Slot, State};

#[cfg(test)]
mod tests;

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

/// The containers of a Pod: first the init containers one after the other, then the others side by side. Init
/// containers that are restartable (sidecars) run on; they end after the others, the last one first.
#[derive(Clone, Debug)]
pub struct Containers {
    /// The Pod in messages: `name_namespace(uid)`.
    pod: String,
    policy: RestartPolicy,
    /// Nothing is started any more.
    is_ending: bool,
    /// Init containers, in their order.
    pub init: Vec<Slot>,
    /// Containers.
    pub main: Vec<Slot>,
}

impl Containers {
    /// Containers of which none runs yet. `pod` is what messages call the Pod: `name_namespace(uid)`.
    pub fn new(pod: String, policy: RestartPolicy, init: Vec<Slot>, main: Vec<Slot>) -> Self {
        Self {
            pod,
            policy,
            is_ending: false,
            init,
            main,
        }
    }

    /// The names of the containers to start now.
    pub fn due(&self, now: Timestamp) -> Vec<String> {
        self.startable()
            .filter(|slot| slot.is_due(now))
            .map(|slot| slot.name.clone())
            .collect()
    }

    /// When the next container is to be started.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.startable().filter_map(Slot::due).min()
    }

    /// Whether all init containers have ended well, or have started if they run on.
    pub fn is_initialized(&self) -> bool {
        self.main.iter().any(Slot::was_started) || self.init.iter().all(Slot::is_past)
    }

    /// A container was started, or found running.
    pub fn started(&mut self, name: &str, now: Timestamp) {
        let Some(slot) = self.slot_mut(name) else { return };
        if slot.last.is_some() {
            slot.restarts += 1;
        }
        slot.state = State::Running { since: now };
    }

    /// How often a container will have been started anew with its next start.
    pub fn next_run(&self, name: &str) -> u32 {
        let slot = self.slot(name);
        slot.map_or(0, |slot| slot.restarts + u32::from(slot.last.is_some()))
    }

    /// What the probes say of a running container.
    pub fn probed(&mut self, name: &str, is_started: bool, is_ready: bool) {
        if let Some(slot) = self.slot_mut(name).filter(|slot| slot.is_running()) {
            (slot.is_started, slot.is_ready) = (is_started, is_ready);
        }
    }

    /// A container could not be started; it is tried again after a pause.
    pub fn failed_to_start(&mut self, name: &str, reason: &'static str, message: String, now: Timestamp) {
        if let Some(slot) = self.slot_mut(name) {
            slot.fail_to_start(reason, message, now);
        }
    }

    /// A container cannot be started before `due`, for no fault of its own.
    pub fn hold_up(&mut self, name: &str, message: String, due: Timestamp) {
        if let Some(slot) = self.slot_mut(name) {
            slot.wait("ContainerCreating", message, due);
        }
    }

    /// A container has ended.
    pub fn ended(&mut self, name: &str, ended: Ended) {
        let is_init = self.init.iter().any(|slot| slot.name == name);
        let has_work = !self.is_done();
        let (policy, is_ending, pod) = (self.policy, self.is_ending, self.pod.clone());
        let Some(slot) = self.slot_mut(name) else { return };
        let restarts = match policy {
            _ if is_ending => false,
            _ if slot.is_restartable => has_work,
            RestartPolicy::Always if is_init => ended.exit_code != 0,
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => ended.exit_code != 0,
            RestartPolicy::Never => false,
        };
        slot.end(ended, restarts, &pod);
    }

    /// The Pod is ending: what ends is not started again.
    pub fn end_begins(&mut self) {
        self.is_ending = true;
    }

    /// Whether all has been done that the Pod is for: only sidecars may still run.
    pub fn is_done(&self) -> bool {
        self.has_init_failed() || !self.main.is_empty() && self.main.iter().all(Slot::is_terminated)
    }

    /// The running containers whose turn it is to end: all but the sidecars, then the last sidecar.
    pub fn to_stop(&self) -> Vec<String> {
        let running = |slot: &&Slot| slot.is_running();
        let first: Vec<String> = self
            .slots()
            .filter(running)
            .filter(|slot| !slot.is_restartable)
            .map(|slot| slot.name.clone())
            .collect();
        if !first.is_empty() {
            return first;
        }
        let sidecar = self.init.iter().rev().find(running);
        sidecar.map(|slot| slot.name.clone()).into_iter().collect()
    }

    /// All are gone with the Pod's sandbox, in whatever state they were.
    pub fn lost(&mut self, now: Timestamp) {
        self.lost_but(now, |_| false);
    }

    /// Those are gone that are not `there`.
    pub fn lost_but(&mut self, now: Timestamp, there: impl Fn(&str) -> bool) {
        let running: Vec<(String, Timestamp)> = self
            .slots()
            .filter_map(|slot| match slot.state {
                State::Running { since } if !there(&slot.name) => Some((slot.name.clone(), since)),
                _ => None,
            })
            .collect();
        for (name, since) in running {
            let ended = Ended {
                exit_code: 137,
                signal: Some(libc::SIGKILL),
                reason: "ContainerStatusUnknown".into(),
                started_at: since,
                finished_at: now,
            };
            self.ended(&name, ended);
        }
    }

    /// The Pod's phase.
    pub fn phase(&self) -> Phase {
        if self.is_done() && self.any_running() {
            // Sidecars that are still ending.
            return if self.has_init_failed() {
                Phase::Pending
            } else {
                Phase::Running
            };
        }
        if self.has_init_failed() {
            return Phase::Failed;
        }
        if self.is_done() {
            let all_well = self.main.iter().all(Slot::ended_well);
            return if all_well { Phase::Succeeded } else { Phase::Failed };
        }
        if !self.is_initialized() {
            return Phase::Pending;
        }
        if self.main.iter().all(Slot::was_started) {
            Phase::Running
        } else {
            Phase::Pending
        }
    }

    /// Whether any container runs.
    pub fn any_running(&self) -> bool {
        self.slots().any(Slot::is_running)
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

    fn has_init_failed(&self) -> bool {
        let failed = |slot: &Slot| !slot.is_restartable && slot.is_terminated() && !slot.ended_well();
        self.init.iter().any(failed)
    }

    /// The containers whose turn it is to start: sidecars that were reached before and the first init container
    /// that is not past, or all others.
    fn startable(&self) -> impl Iterator<Item = &Slot> {
        let is_done = self.is_done() || self.is_ending;
        let current = self.init.iter().position(|slot| !slot.is_past());
        let reached = match current {
            // An init container does not run again once the others were started.
            Some(_) if self.is_initialized() => self.init.len(),
            Some(index) => index + 1,
            None => self.init.len(),
        };
        let main: &[Slot] = if self.is_initialized() { &self.main } else { &[] };
        let init = self.init.iter().take(reached);
        let init = init.filter(move |slot| slot.is_restartable || !slot.is_past());
        init.chain(main).filter(move |_| !is_done)
    }
}
