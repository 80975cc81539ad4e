//! Checkpoint of a Pod's containers on disk: restart counts, back-off and termination states, from which the next agent
//! continues.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{ContainerImage, Containers, State, Terminated, TrackedContainer};
use crate::object::rfc3339;

/// Checkpoints of a Pod's containers by name.
pub type Checkpoint = BTreeMap<String, ContainerCheckpoint>;

/// Checkpoint of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerCheckpoint {
    restarts: u32,
    #[serde(rename = "pause_seconds")]
    back_off_seconds: Option<i64>,
    last: Option<Terminated>,
    #[serde(default)]
    image: Option<ContainerImage>,
    state: CheckpointState,
}

/// State of a container in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum CheckpointState {
    Waiting {
        #[serde(with = "rfc3339")]
        due: Timestamp,
    },
    Running {
        #[serde(with = "rfc3339")]
        since: Timestamp,
    },
    Terminated(Terminated),
}

impl ContainerCheckpoint {
    /// Returns the number of restarts.
    pub fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Returns the image of the container; `None` for a program of the image table.
    pub fn image(&self) -> Option<&ContainerImage> {
        self.image.as_ref()
    }

    /// Returns true if the container ran.
    pub fn is_running(&self) -> bool {
        matches!(self.state, CheckpointState::Running { .. })
    }
}

impl Containers {
    /// Returns the checkpoint of all containers.
    pub fn checkpoint(&self) -> Checkpoint {
        let checkpoint = |container: &TrackedContainer| ContainerCheckpoint {
            restarts: container.restarts,
            back_off_seconds: container.back_off.map(|back_off| back_off.as_secs()),
            last: container.last.clone(),
            image: container.image.clone(),
            state: match &container.state {
                State::Waiting { due, .. } => CheckpointState::Waiting { due: *due },
                State::Running { since } => CheckpointState::Running { since: *since },
                State::Terminated(terminated) => CheckpointState::Terminated(terminated.clone()),
            },
        };
        self.iter()
            .map(|container| (container.name.clone(), checkpoint(container)))
            .collect()
    }

    /// Restores a checkpoint. Containers that ran then count as running; see [`Containers::mark_lost_unless`].
    pub fn restore(&mut self, checkpoint: Checkpoint) {
        let pod = self.pod.clone();
        for (name, saved) in checkpoint {
            let Some(container) = self.get_mut(&name) else {
                continue;
            };
            container.restarts = saved.restarts;
            container.back_off = saved.back_off_seconds.map(SignedDuration::from_secs);
            container.last = saved.last;
            container.image = saved.image;
            match saved.state {
                CheckpointState::Running { since } => container.state = State::Running { since },
                CheckpointState::Terminated(terminated) => container.state = State::Terminated(terminated),
                CheckpointState::Waiting { due } if container.last.is_some() => {
                    container.wait_to_restart(due, &pod);
                }
                CheckpointState::Waiting { .. } => {}
            }
        }
    }

    /// Adopts a running container: the run of the checkpoint, or one that the earlier agent started just before its
    /// end.
    pub fn adopt_running(&mut self, name: &str, since: Timestamp) {
        let is_known = self.get(name).is_some_and(TrackedContainer::is_running);
        if !is_known {
            self.mark_started(name, since);
        }
    }

    /// Adopts a terminated container, unless the checkpoint has that termination.
    pub fn adopt_terminated(&mut self, name: &str, terminated: Terminated) {
        let Some(container) = self.get(name) else { return };
        let known = match &container.state {
            State::Terminated(known) => Some(known),
            State::Waiting { .. } => container.last.as_ref(),
            State::Running { .. } => None,
        };
        if known.is_some_and(|known| known.finished_at == terminated.finished_at) {
            return;
        }
        self.adopt_running(name, terminated.started_at);
        self.mark_terminated(name, terminated);
    }
}
