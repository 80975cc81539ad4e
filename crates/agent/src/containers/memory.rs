//! What is kept of a Pod's containers on disk, so that a new agent goes on where the last one was: counts of
//! restarts, pauses between them, and how containers ended.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Containers, Ended, State};
use crate::rfc3339;

/// The containers of a Pod, by name.
pub type Memory = BTreeMap<String, Remembered>;

/// One container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    restarts: u32,
    pause_seconds: Option<i64>,
    last: Option<Ended>,
    state: RememberedState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum RememberedState {
    Waiting {
        #[serde(with = "rfc3339")]
        due: Timestamp,
    },
    Running {
        #[serde(with = "rfc3339")]
        since: Timestamp,
    },
    Terminated(Ended),
}

impl Remembered {
    /// How often it was started anew.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Whether it ran.
    pub fn is_running(&self) -> bool {
        matches!(self.state, RememberedState::Running { .. })
    }
}

impl Containers {
    /// What is to be kept.
    pub fn remember(&self) -> Memory {
        let one = |slot: &super::Slot| Remembered {
            restarts: slot.restarts,
            pause_seconds: slot.pause.map(|pause| pause.as_secs()),
            last: slot.last.clone(),
            state: match &slot.state {
                State::Waiting { due, .. } => RememberedState::Waiting { due: *due },
                State::Running { since } => RememberedState::Running { since: *since },
                State::Terminated(ended) => RememberedState::Terminated(ended.clone()),
            },
        };
        self.slots().map(|slot| (slot.name.clone(), one(slot))).collect()
    }

    /// Takes up what was kept. What ran then counts as running: [`Containers::lost`] if it does not.
    pub fn recall(&mut self, memory: Memory) {
        let pod = self.pod.clone();
        for (name, remembered) in memory {
            let Some(slot) = self.slot_mut(&name) else {
                continue;
            };
            slot.restarts = remembered.restarts;
            slot.pause = remembered.pause_seconds.map(SignedDuration::from_secs);
            slot.last = remembered.last;
            match remembered.state {
                RememberedState::Running { since } => slot.state = State::Running { since },
                RememberedState::Terminated(ended) => slot.state = State::Terminated(ended),
                RememberedState::Waiting { due } if slot.last.is_some() => slot.wait_to_restart(due, &pod),
                RememberedState::Waiting { .. } => {}
            }
        }
    }

    /// A container was found running: it is the run that is known, or one that was begun just before the last agent
    /// ended.
    pub fn found_running(&mut self, name: &str, since: Timestamp) {
        let is_known = self.slot(name).is_some_and(super::Slot::is_running);
        if !is_known {
            self.started(name, since);
        }
    }

    /// A container was found to have ended: news, or what is known.
    pub fn found_ended(&mut self, name: &str, ended: Ended) {
        let Some(slot) = self.slot(name) else { return };
        let known = match &slot.state {
            State::Terminated(known) => Some(known),
            State::Waiting { .. } => slot.last.as_ref(),
            State::Running { .. } => None,
        };
        if known.is_some_and(|known| known.finished_at == ended.finished_at) {
            return;
        }
        self.found_running(name, ended.started_at);
        self.ended(name, ended);
    }
}
